"""Files of labelled sentences: recognised by their content, and read in one tag scheme."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from crossner_cli.data.files import BAD_LINE, BYTE_ORDER_MARK, EXAMPLES, Repairs, has_many_zero_bytes, open_bytes
from crossner_cli.data.formats import conll, jsonl
from crossner_cli.data.formats.conll import COLUMNS_HINT
from crossner_cli.data.formats.format import Format, Sample
from crossner_cli.data.formats.known import LABELLED
from crossner_cli.data.formats.layout import parse_layout
from crossner_cli.data.formats.records import read_records
from crossner_cli.data.formats.spans import Located, abbreviate, to_sentences
from crossner_cli.data.formats.words import JSONL_HINT
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, Scheme, Span, detect_scheme, illegal_positions, to_spans, to_tags
from crossner_cli.errors import CrossNERError, suggest

JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
HEAD_BYTES, HEAD_RECORDS = 1 << 16, 50
# Beginnings of files that are not read, their formats, and a way out.
LITERAL = rb"\w+\s*=\s*\[|[\[{][\s\[{]*(?:'|\(\s*[\"'])"
TO_JSON = (
    "import ast, json; [print(json.dumps(ast.literal_eval(x.value))) for x in ast.parse(open('FILE').read()).body]"
)
NOT_READ = (
    (rb"#FORMAT=WebAnno", "WebAnno TSV", "Export again: choose CoNLL 2002, one column of named entities."),
    (rb"<[?!]|<collection>", "XML or HTML", f"Export again in brat's format, or write JSONL. {JSONL_HINT}"),
    (LITERAL, "Python", f'Convert it: python -c "{TO_JSON}" > NAME.jsonl'),
)
SOFT_DROPPED = "probabilities of tags in another scheme than the run's dropped"
COPY = "sentence that is also in a later file of the split left out"
ILLEGAL_TAG = "tag that cannot follow the one before it repaired"
SAME_WORDS = 0.5  # share of common words from which a text of the same task counts as its correction
HINTS = {conll.FORMAT: COLUMNS_HINT, jsonl.FORMAT: JSONL_HINT}


@dataclass(frozen=True)
class LabelledDomain:
    """A data set as read: its sentences by split, with tags in the scheme wanted.

    Types are in the order of their first occurrence in train, dev and test; ``found_scheme`` is that of the files:
    ``iob1``, ``bio`` or ``bioes`` (which BILOU and BMES equal).
    """

    splits: dict[str, list[Sentence]]
    types: tuple[str, ...]
    found_scheme: str
    repairs: Repairs


def recognise(path: Path) -> Format:
    """Recognise the format of a file or folder from its content.

    Raises:
        CrossNERError: It cannot be read, or is a format that is not read.
    """
    sample = _take_sample(path)
    counts = {name: row.recognises(sample) for name, row in LABELLED.items() if row.recognises}
    name = max(counts, key=counts.__getitem__)  # the first of equals
    if counts[name]:
        return LABELLED[name]
    if os.path.isdir(path):  # noqa: PTH112 - pathlib raises for names that are too long
        raise CrossNERError(
            f"{path} cannot be read: it is a folder without .txt and .ann of brat.", hint="Give a file of the folder."
        )
    if sample.values:
        keys = dict.fromkeys(key for value in sample.values if isinstance(value, dict) for key in value)
        held = abbreviate(", ".join(keys) or sample.values[0])
        problem = f"{path} is JSON without labels, or of a form that is not read. It holds: {held}."
        hint = f"These are read: {', '.join(row.title for row in LABELLED.values())}. {JSONL_HINT}"
        raise CrossNERError(problem, hint=hint)
    return jsonl.FORMAT if path.suffix.lower() in JSON_ENDINGS else conll.FORMAT


def _take_sample(path: Path) -> Sample:
    """Read the beginning of a file; refuse formats that are known and not read."""
    if os.path.isdir(path):  # noqa: PTH112
        return Sample(path)
    with open_bytes(path) as stream:
        head = stream.read(HEAD_BYTES)
    if path.suffix.lower() == ".csv":
        raise CrossNERError(f"{path} is CSV, which is not read.", hint=f"Write columns or JSONL. {COLUMNS_HINT}")
    if head.startswith(b"PAR1") or path.suffix.lower() == ".spacy":  # binary
        return Sample(path, head)
    if not head.startswith((b"\xff\xfe", b"\xfe\xff")) and has_many_zero_bytes(head.decode("latin-1")):
        raise CrossNERError(
            f"{path} holds zero bytes, as text in UTF-16 does.",
            hint="Convert it first, as: iconv -f UTF-16LE -t UTF-8 FILE > TEXT",
        )
    head = head.removeprefix(BYTE_ORDER_MARK)
    for start, what, hint in NOT_READ:
        if re.match(rb"\s*(?:" + start + rb")", head):
            raise CrossNERError(f"{path} is {what}, which is not read.", hint=hint.replace("FILE", str(path)))
    if path.suffix.lower() not in JSON_ENDINGS and not _looks_like_json(head):
        return Sample(path, head)
    records = read_records(path, Repairs(skips_bad_lines=True), JSONL_HINT)
    return Sample(path, head, [record.value for record in islice(records, HEAD_RECORDS)])


def _looks_like_json(head: bytes) -> bool:
    start = head.lstrip()[:200].split()
    return bool(start) and (start[0].startswith((b'{"', b"[{", b"[[")) or start[0] in (b"{", b"[")) and b'"' in head


def check_format(name: str | None) -> None:
    """Refuse the name of a format that is not read."""
    if name is not None and name not in LABELLED:
        raise CrossNERError(
            f"--labels-format {name!r} is not a format that is read.",
            hint=f"{suggest(name, LABELLED)}{', '.join(LABELLED)}",
        )


def read_labelled(
    path: Path, repairs: Repairs, *, labels_format: str | None = None, columns: str | None = None
) -> Iterator[Located]:
    """Read a file of sentences with tags, or a folder of brat.

    Args:
        path: The file or folder.
        repairs: Counts repairs, and notes the format.
        labels_format: The name of the format; None recognises it.
        columns: The columns of word and tag, as ``word=2,tag=4``.

    Raises:
        CrossNERError: The file cannot be read, is not UTF-8, or a line is malformed.
    """
    check_format(labels_format)
    name = labels_format or (conll.FORMAT.name if columns else None)
    row = LABELLED[name] if name else recognise(path)
    try:
        if row is conll.FORMAT:
            yield from conll.read_columns(path, repairs, parse_layout(columns) if columns else None)
        else:
            yield from _read_with_note(path, row, repairs)
    except CrossNERError as error:
        found = recognise(path) if labels_format else row
        if found is not row:
            hint = f"It looks like {found.title}: leave --labels-format out, or give {found.name}."
            raise CrossNERError(error.problem, hint=hint) from None
        raise


def _read_with_note(path: Path, row: Format, repairs: Repairs) -> Iterator[Located]:
    """Read a file of another format than columns, with a note."""
    before = Counter(repairs.counts)  # of other files
    items = list(row.reads(path, repairs)) if row.reads else []
    yield from to_sentences(items, str(path), repairs, counts_utf16=row.counts_utf16)
    left = [
        f", {times:,} {row.left_out[kind]}" for kind, times in (repairs.counts - before).items() if kind in row.left_out
    ]
    count = len({item.number for item in items})
    repairs.notes.append(f"{path}: read as {row.title}, {count:,} {row.unit}{''.join(left)}")


def advise_to_label(path: Path) -> str:
    """Say what to do about a file that holds no sentence."""
    return f"{HINTS.get(recognise(path), 'Label some of it.')} Or remove the file."


def read_domain(
    files: Mapping[str, Sequence[Path]],
    *,
    name: str = "",
    scheme: Scheme = "bio",
    labels_format: str | None = None,
    columns: str | None = None,
    skips_bad_lines: bool = False,
) -> LabelledDomain:
    """Read every split of a data set and write its tags in one scheme.

    The scheme of the files is detected over all splits together, as one split may be too small to tell. Entities are
    conlleval's, so legal sequences are converted without loss and illegal ones are repaired and counted.

    Raises:
        CrossNERError: A file cannot be read, is malformed, or holds no sentences.
    """
    repairs = Repairs(skips_bad_lines=skips_bad_lines)
    found = {split: _read_split(paths, repairs, labels_format, columns) for split, paths in files.items()}
    # A sentence without entities is legal in every scheme.
    found_scheme = detect_scheme(
        tags for located in found.values() for _, each in located if set(tags := each.sentence.tags or ()) != {OUTSIDE}
    )
    splits: dict[str, list[Sentence]] = {}
    types: dict[str, None] = {}
    contradicting: list[str] = []
    seen: dict[tuple[str, tuple[str, ...]], list[Span]] = {}
    for split, sentences in found.items():
        splits[split] = []
        for file, located in sentences:
            tags = located.sentence.tags or ()
            for position in illegal_positions(tags, found_scheme):
                line = located.lines[min(position, len(tags) - 1)]
                repairs.add(ILLEGAL_TAG, f"{file}:{line}")
            spans = to_spans(tags)
            known = seen.setdefault((split, located.sentence.words), spans)
            if known != spans:
                contradicting.append(located.sentence.place)
            types.update(dict.fromkeys(span.type for span in spans))
            words = located.sentence.words
            new = tuple(to_tags(spans, len(words), scheme))
            soft = located.sentence.soft
            if soft is not None and located.sentence.tags != new:
                repairs.add(SOFT_DROPPED, located.sentence.place)
                soft = None
            splits[split].append(Sentence(words, new, name, soft, located.sentence.place))
    if contradicting:
        first = ", ".join(contradicting[:EXAMPLES])
        number = len(contradicting)
        repairs.warnings.append(f"{number} sentences are repeated in a split with other labels (first: {first}).")
    repairs.warnings += map("Entity types that look alike: {}. Is it one type?".format, _alike(types))
    return LabelledDomain(splits, tuple(types), found_scheme, repairs)


def _read_split(
    paths: Sequence[Path], repairs: Repairs, labels_format: str | None, columns: str | None
) -> list[tuple[Path, Located]]:
    """Read the sentences of all files of a split; a text of several files is kept in its last version."""
    texts: list[_Text] = []
    for path in paths:
        located = read_labelled(path, repairs, labels_format=labels_format, columns=columns)
        for _, group in groupby(located, key=lambda each: (each.lines[0], each.task)):
            texts.append(_Text(path, list(group)))
    copies = _find_copies(texts)
    for number in sorted(copies):
        sentences = texts[number].sentences
        repairs.add(COPY, sentences[0].sentence.place, len(sentences))
    kept = [text for number, text in enumerate(texts) if number not in copies]
    found = [(text.path, each) for text in kept for each in text.sentences]
    if not found:
        left = ", ".join(f"{times} times: {kind}" for kind, times in repairs.counts.items())
        why = "Without --skip-bad-lines the first of them is explained." if repairs.counts[BAD_LINE] else ""
        problem = f"{', '.join(map(str, paths))} holds no sentence{f' ({left})' if left else ''}."
        raise CrossNERError(problem, hint=why or advise_to_label(paths[0]))
    return found


@dataclass(frozen=True)
class _Text:
    """The sentences of one text of a file."""

    path: Path
    sentences: Sequence[Located]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for each in self.sentences for word in each.sentence.words)


def _find_copies(texts: Sequence[_Text]) -> set[int]:
    """Find the texts that are also in a later file: under the same task of a tool, or word for word.

    Tasks of two projects may have the same number, so a corrected text must share half of its words.
    """
    copies: set[int] = set()
    later: dict[tuple[str, Any], tuple[int, Path]] = {}
    for number in reversed(range(len(texts))):
        text, words = texts[number], texts[number].words
        task = text.sentences[0].task
        for key in [("words", words)] if task is None else [("words", words), ("task", task)]:
            other, path = later.setdefault(key, (number, text.path))
            if path != text.path and _are_alike(words, texts[other].words):
                copies.add(number)
    return copies


def _are_alike(words: Sequence[str], others: Sequence[str]) -> bool:
    shared = (Counter(words) & Counter(others)).total()
    return shared >= SAME_WORDS * max(len(words), len(others))


def _alike(types: Iterable[str]) -> list[str]:
    """Group types that differ only in invisible characters; another warning is about case."""
    groups: dict[str, list[str]] = {}
    for name in types:
        plain = "".join(each for each in unicodedata.normalize("NFKC", name) if unicodedata.category(each) != "Cf")
        groups.setdefault(plain.casefold().strip(), []).append(name)
    return [", ".join(map(ascii, group)) for group in groups.values() if len({each.casefold() for each in group}) > 1]
