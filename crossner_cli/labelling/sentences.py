"""The sentences that a teacher labels: read from raw text, and selected."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from crossner_cli.corpus.inputs import make_lists
from crossner_cli.corpus.mentions import COLUMNS, MENTION
from crossner_cli.corpus.raw_files import find_corpus_files
from crossner_cli.corpus.sentences import cut_into_parts, read_sentences
from crossner_cli.data.domains import find_bundled, find_raw_text
from crossner_cli.data.leaks import make_leak_key
from crossner_cli.data.names import read_names
from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.data.text import cut_words
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice, Progress, Work
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.sources import TrainedTagger
from crossner_cli.taggers.tagging import tag

TASK = "label"
LEVEL = "domain"  # of the prepared corpus
REPEATED, HELD_OUT, NOT_SELECTED = "repeated", "as sentences of dev or test", "not selected"
TEXTS_AT_ONCE = 1024


@dataclass(frozen=True)
class RawText:
    """Sentences in order, each once, with single spaces.

    Args:
        lines: The number of each among all sentences read, from 0.
        read: Numbers of documents and sentences read.
        dropped: Numbers of sentences dropped, by reason.
    """

    texts: list[str]
    lines: list[int]
    read: dict[str, int]
    dropped: Counter[str] = field(default_factory=Counter)


def read_raw_text(paths: Sequence[Path], prepared: PreparedData | None, *, column: str) -> Work[RawText]:
    """Read raw text as ``prepare-data --corpus`` does, or the prepared corpus where no file is given.

    Repeated sentences, and those of dev and test of the prepared domains, whole or in part, are left out.

    Args:
        prepared: The prepared data of the run; needed without files.
        column: Column or key that holds the text in JSONL and Parquet.

    Raises:
        CrossNERError: A file cannot be read, or there are no sentences.
    """
    if paths:
        found = find_corpus_files([*map(find_raw_text, paths)])
        yield from map(Notice, found.notes())
        files = found.files
    else:
        assert prepared is not None
        files = [prepared.corpus(LEVEL)]  # one sentence per line
    # The prepared corpus has none of them, and its mentions count its lines.
    excluded = _keys_of_held_out(prepared) if paths and prepared else frozenset()
    counts: Counter[str] = Counter()
    known: dict[str, int] = {}
    total = 0
    for part in cut_into_parts(files):
        documents = read_sentences(part, counts, one_a_line=not paths, excluded=excluded, column=column)
        for number, sentences in enumerate(documents):
            for text in sentences:
                known.setdefault(text, total)
                total += 1
            if number % TEXTS_AT_ONCE == 0:
                yield Progress(f"{TASK}: read", counts["sentences"], None, "sentences")
    dropped = Counter({REPEATED: total - len(known), HELD_OUT: counts["dropped_leaks"]})
    if not known:
        names = ", ".join(map(str, paths or files))
        raise CrossNERError(
            f"{names}: there are no sentences to label ({counts['sentences']} were read).",
            hint="Give raw text: files or folders of text, JSONL or Parquet.",
        )
    read = {name: counts[name] for name in ("documents", "sentences")}
    return RawText(list(known), list(known.values()), read, +dropped)


def _keys_of_held_out(prepared: PreparedData) -> frozenset[str]:
    """Return the keys of all sentences that taggers of either domain are selected and scored on."""
    return frozenset(
        make_leak_key(" ".join(sentence.words))
        for domain in prepared.domains.values()
        for split in ("dev", "test")
        if domain.has(split)
        for sentence in domain.sentences(split)
    )


def choose_random(raw: RawText, count: int, seed: int) -> list[str]:
    """Choose sentences at random; they stay in order."""
    chosen = sorted(random.Random(seed).sample(range(len(raw.texts)), min(count, len(raw.texts))))
    return [raw.texts[number] for number in chosen]


def choose_dense(
    raw: RawText, count: int, prepared: PreparedData | None, entities: Sequence[Path], *, is_prepared: bool
) -> Work[list[str]]:
    """Choose the sentences with the most listed names per word.

    Args:
        prepared: The prepared data of the run, for its training sentences and the mentions of its corpus.
        entities: Lists of names, as ``prepare-data --entities`` takes them; without, the mentions are counted.
        is_prepared: True if the sentences are those of the prepared corpus.

    Raises:
        CrossNERError: There are no lists and no mentions, or a list cannot be read.
    """
    if entities:
        found = yield from _count_listed(raw.texts, prepared, entities)
    elif is_prepared and prepared is not None:
        mentions = np.fromfile(prepared.mentions(LEVEL), MENTION).reshape(-1, COLUMNS)
        in_lines = Counter(mentions[:, 0].tolist())
        found = [in_lines[line] for line in raw.lines]
    else:
        raise CrossNERError(
            "--select dense counts listed names, and none are given.", hint="Add --entities LIST, or leave INPUT out."
        )
    shares = [number / len(cut_words(text)) for number, text in zip(found, raw.texts, strict=True)]
    return _keep_lowest(raw.texts, [-share for share in shares], count)


def _count_listed(texts: Sequence[str], prepared: PreparedData | None, entities: Sequence[Path]) -> Work[list[int]]:
    target = None if prepared is None else prepared.domains.get("target")
    train = target.sentences("train") if target is not None and target.has("train") else None
    paths = [find_bundled(str(path), "entities.tsv") or path for path in entities]
    with TemporaryDirectory() as folder:
        lists = yield from make_lists(paths, Path(folder), train=train)
        names = read_names(lists.paths)
    return [len(names.finder.find(cut_words(text))) for text in texts]


def choose_uncertain(raw: RawText, count: int, first: TrainedTagger, engine: Engine) -> Work[list[str]]:
    """Choose the sentences that a tagger is least certain of: by the lowest probability of any of its tags."""
    tagger = load_tagger(first.folder, engine)
    first.check_unchanged()
    domain = tagger.domain_of_new_text
    certainty: list[float] = []
    for start in range(0, len(raw.texts), TEXTS_AT_ONCE):
        some = [Sentence(cut_words(text), None, domain) for text in raw.texts[start : start + TEXTS_AT_ONCE]]
        certainty += [min(each.probabilities) for each in tag(tagger, some, engine)]
        yield Progress(f"{TASK}: select with {first.label}", len(certainty), len(raw.texts), "sentences")
    return _keep_lowest(raw.texts, certainty, count)


def _keep_lowest(texts: Sequence[str], values: Sequence[float], count: int) -> list[str]:
    """Return the texts with the lowest values, the first of equal ones, in order."""
    chosen = heapq.nsmallest(count, range(len(texts)), key=lambda number: (values[number], number))
    return [texts[number] for number in sorted(chosen)]
