"""Buckets of entities by length, density and what was seen before, so that scores can be split by them.

Gold and predicted entities get their buckets by the same rule, so that a bucket has precision, recall and F1: a correct
entity is in the same bucket on both sides.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from crossner_cli.data.names import Name, NameFinder
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.statistics import is_content_word
from crossner_cli.data.tags import Span, to_spans
from crossner_cli.data.text import cut_words
from crossner_cli.run.progress import Progress, Work

# Names of ranges by their upper border, which they include.
MENTION_LENGTHS = {1: "1 word", 2: "2 words", 3: "3 words", 4: "4 words", math.inf: "5+ words"}
SENTENCE_LENGTHS = {
    10: "1-10 words",
    20: "11-20 words",
    30: "21-30 words",
    50: "31-50 words",
    math.inf: "51+ words",
}
# Words of gold entities in all words of the sentence.
DENSITIES = {0.0: "0 %", 0.1: "0-10 %", 0.2: "10-20 %", 0.3: "20-30 %", math.inf: "over 30 %"}
SEEN = ("seen, this type", "seen, other type", "partly seen", "unseen")
SEEN_IN_TEXT = ("seen", "partly seen", "unseen")
READINGS = ("not in train", "1 reading", "2 readings", "3+ readings")
ORIGINS = ("shared", "target only")
ROUNDING = 1e-9  # a share that equals a border but for rounding stays below it
LINES_A_REPORT = 10_000
TASK = "mentions in raw text"


@dataclass(frozen=True)
class KnownText:
    """Text of a run beside the scored sentences; None for what the run lacks.

    Args:
        train: Training sentences of the target.
        source_train: Training sentences of the source.
        raw_text: File of raw text of the target, a sentence a line.
        source_types: Entity types of the source.
    """

    train: Sequence[Sentence] | None = None
    source_train: Sequence[Sentence] | None = None
    raw_text: Path | None = None
    source_types: tuple[str, ...] | None = None


class Buckets:
    """The bucketings that a run allows.

    Args:
        sentences: The scored sentences.
        gold: Their gold entities.
        known: Text in which mentions may have been seen.
        seen_in_text: By words of a mention its bucket of ``SEEN_IN_TEXT``; None without raw text.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        gold: Sequence[Sequence[Span]],
        known: KnownText,
        seen_in_text: dict[Name, str] | None,
    ) -> None:
        self._lengths = pd.Series([len(sentence.words) for sentence in sentences], dtype=int)
        inside = [sum(span.end - span.start for span in spans) for spans in gold]
        self._densities = pd.Series(inside, dtype=int) / self._lengths.clip(lower=1) - ROUNDING
        self._known = known
        self._seen_in_text = seen_in_text

    def sort(self, entities: pd.DataFrame) -> pd.DataFrame:
        """Find the buckets of entities, as ``tabulate_entities`` makes them: a categorical column a bucketing."""
        found = {
            "mention length": _cut(entities["end"] - entities["start"], MENTION_LENGTHS),
            "sentence length": _cut(entities["sentence"].map(self._lengths), SENTENCE_LENGTHS),
            "entity density": _cut(entities["sentence"].map(self._densities), DENSITIES),
        }
        mentions = list(zip(entities["words"], entities["type"], strict=True))
        for origin, sentences in (("target", self._known.train), ("source", self._known.source_train)):
            if sentences is not None:
                found[f"seen in {origin} train"] = pd.Categorical(_seen_in(sentences, mentions), SEEN)
        if self._seen_in_text is not None:
            seen = [self._seen_in_text[words] for words, _ in mentions]
            found["seen in raw text"] = pd.Categorical(seen, SEEN_IN_TEXT)
        if self._known.source_types is not None:
            is_shared = entities["type"].isin(self._known.source_types)
            found["type and source"] = pd.Categorical.from_codes((~is_shared).astype(int), ORIGINS)
        if self._known.train is not None:
            readings = count_readings({words for words, _ in mentions}, self._known.train)
            counts = [min(readings[words], len(READINGS) - 1) for words, _ in mentions]
            found["readings in train"] = pd.Categorical([READINGS[count] for count in counts], READINGS)
        return pd.DataFrame(found, index=entities.index)


def _cut(values: pd.Series, ranges: Mapping[float, str]) -> pd.Series:
    return pd.cut(values, [-math.inf, *ranges], labels=list(ranges.values()))


def _seen_in(sentences: Sequence[Sentence], mentions: Sequence[tuple[Name, str]]) -> list[str]:
    """The bucket of ``SEEN`` of each mention with its type.

    A mention is partly seen if one of its content words is in an entity of any type (Taillé et al. 2020 count partial
    matches of the same type).
    """
    types: dict[Name, set[str]] = defaultdict(set)
    for sentence in sentences:
        for start, end, entity_type in to_spans(sentence.tags or ()):
            types[sentence.words[start:end]].add(entity_type)
    content = {word for words in types for word in words if is_content_word(word)}

    def bucket(words: Name, entity_type: str) -> str:
        if words in types:
            return SEEN[0] if entity_type in types[words] else SEEN[1]
        return SEEN[3] if content.isdisjoint(words) else SEEN[2]

    return [bucket(words, entity_type) for words, entity_type in mentions]


def count_readings(mentions: Iterable[Name], sentences: Sequence[Sentence]) -> dict[Name, int]:
    """Count the readings of mentions in labelled sentences: entity types, and ``O`` if they stand outside of all."""
    wanted = NameFinder(mentions)
    readings: dict[Name, set[str]] = {words: set() for words in wanted.names}
    for sentence in sentences:
        spans = to_spans(sentence.tags or ())
        is_inside = [False] * len(sentence.words)
        for start, end, entity_type in spans:
            is_inside[start:end] = [True] * (end - start)
            if (words := sentence.words[start:end]) in readings:
                readings[words].add(entity_type)
        for start, end in wanted.find_all(sentence.words):
            if not any(is_inside[start:end]):
                readings[sentence.words[start:end]].add("")  # a type is never empty
    return {words: len(found) for words, found in readings.items()}


def find_in_raw_text(path: Path, mentions: Iterable[Name]) -> Work[dict[Name, str]]:
    """Look mentions up in a text file, a sentence a line; the file is read once.

    The words of the file are found as ``predict`` finds them, and words of mentions are cut by the same rule.

    Returns:
        By mention its bucket of ``SEEN_IN_TEXT``.
    """
    cut = {words: tuple(part for word in words for part in cut_words(word)) for words in mentions}
    wanted = NameFinder(cut.values())
    content = {word for words in wanted.names for word in words if is_content_word(word)}
    seen: set[Name] = set()
    known: set[str] = set()
    size, done = path.stat().st_size, 0
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            words = cut_words(line.decode("utf-8"))
            known.update(content.intersection(words))
            seen.update(words[start:end] for start, end in wanted.find_all(words))
            done += len(line)
            if number % LINES_A_REPORT == 0:
                yield Progress(TASK, done, size, "bytes")
    yield Progress(TASK, done, size, "bytes")

    def bucket(words: Name) -> str:
        if words in seen:
            return SEEN_IN_TEXT[0]
        return SEEN_IN_TEXT[2] if known.isdisjoint(words) else SEEN_IN_TEXT[1]

    return {words: bucket(parts) for words, parts in cut.items()}
