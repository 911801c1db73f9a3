"""A labelled data set as a whole: every split read, and its tags written in one scheme.

Whatever scheme a data set is in, its sentences leave this module in BIO or BIOES.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from crossner_cli.data.jsonl_files import JSONL_HINT, parse_jsonl
from crossner_cli.data.readers import COLUMNS_HINT, ILLEGAL_TAG, Located, Repairs, open_binary, parse_columns
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, Scheme, detect_scheme, illegal_positions, to_spans, to_tags
from crossner_cli.errors import CrossNERError

# What else helps where the file of a split has no sentence, and one can do without the split.
WITHOUT = {"dev": " Or remove the file and give --dev-from-train 0.1.", "test": " Or remove the file."}


@dataclass(frozen=True)
class LabelledDomain:
    """A data set as read: the sentences of each split in the scheme asked for.

    Args:
        splits: Sentences by split, tagged.
        types: Entity types in the order in which train, dev and test first show them.
        found_scheme: The scheme of the files: ``iob1``, ``bio`` or ``bioes`` (which BILOU and BMES equal).
        repairs: What was repaired.
    """

    splits: dict[str, list[Sentence]]
    types: tuple[str, ...]
    found_scheme: str
    repairs: Repairs


def read_labelled(
    path: Path, repairs: Repairs, *, tags_required: bool = True, keep_docstart: bool = False
) -> Iterator[Located]:
    """Read a file of sentences with tags: JSONL by its ending ``.jsonl``, else columns.

    Args:
        path: The file.
        repairs: Where repairs are counted.
        tags_required: Whether every word must have a tag; if not, a sentence without them has ``tags`` None.
        keep_docstart: Keep ``-DOCSTART-`` as a sentence of one word.

    Raises:
        CrossNERError: The file cannot be read, is not UTF-8, or a line is malformed.
    """
    parse = parse_jsonl if path.suffix.lower() == ".jsonl" else parse_columns
    with open_binary(path) as stream:
        yield from parse(stream, str(path), repairs, tags_required=tags_required, keep_docstart=keep_docstart)


def read_domain(
    files: Mapping[str, Path], *, name: str = "", scheme: Scheme = "bio", keep_docstart: bool = False
) -> LabelledDomain:
    """Read every split of a data set and write its tags in one scheme.

    The scheme of the files is detected over all splits together, as one split may be too small to tell. Entities are
    conlleval's, so legal sequences are converted without loss and illegal ones are repaired and counted.

    Raises:
        CrossNERError: A file cannot be read, is malformed, or holds no sentence.
    """
    repairs = Repairs()
    found: dict[str, list[Located]] = {}
    for split, path in files.items():
        found[split] = list(read_labelled(path, repairs, keep_docstart=keep_docstart))
        if not found[split]:
            hint = JSONL_HINT if ".jsonl" in path.name else COLUMNS_HINT
            raise CrossNERError(f"{path} holds no sentence.", hint=hint + WITHOUT.get(split, ""))
    # A sentence without entities is legal in every scheme.
    found_scheme = detect_scheme(
        tags for located in found.values() for each in located if set(tags := each.sentence.tags or ()) != {OUTSIDE}
    )
    splits: dict[str, list[Sentence]] = {}
    types: dict[str, None] = {}
    for split, sentences in found.items():
        splits[split] = []
        for located in sentences:
            tags = located.sentence.tags or ()
            for position in illegal_positions(tags, found_scheme):
                line = located.lines[min(position, len(tags) - 1)]
                repairs.add(ILLEGAL_TAG, f"{files[split]}:{line}")
            spans = to_spans(tags)
            types.update(dict.fromkeys(span.type for span in spans))
            words = located.sentence.words
            splits[split].append(Sentence(words, tuple(to_tags(spans, len(words), scheme)), name))
    return LabelledDomain(splits, tuple(types), found_scheme, repairs)
