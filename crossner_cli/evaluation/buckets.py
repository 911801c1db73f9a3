"""Buckets of entities by type, length, density and known mentions, by which scores are split.

Gold and predicted entities get their buckets by the same rule, so that a bucket has precision, recall and F1: a correct
entity is in the same bucket on both sides.

Papers: Fu, Liu and Neubig (2020) for lengths and density; Taillé, Guigue and Gallinari (2020) for seen mentions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
# Share of words of gold entities in the words of the sentence.
DENSITIES = {0.0: "0 %", 0.1: "0-10 %", 0.2: "10-20 %", 0.3: "20-30 %", math.inf: "over 30 %"}
THIS_TYPE, OTHER_TYPE, SEEN, PARTLY, UNSEEN = "seen, this type", "seen, other type", "seen", "partly seen", "unseen"
SHARED, TARGET_ONLY = "shared", "target only"
BY_TYPE = "type"
# The order of buckets in a table; types are sorted by name.
ORDER = (
    *(*MENTION_LENGTHS.values(), *SENTENCE_LENGTHS.values(), *DENSITIES.values()),
    *(THIS_TYPE, OTHER_TYPE, SEEN, PARTLY, UNSEEN, SHARED, TARGET_ONLY),
)
ROUNDING = 1e-9  # a share that equals a border except for rounding stays below it
LINES_A_REPORT = 10_000
TASK = "mentions in raw text"


@dataclass(frozen=True)
class KnownText:
    """Text of a run beside the scored sentences; None for what the run lacks.

    Args:
        raw_text: File of raw text of the target, one sentence per line.
    """

    train: Sequence[Sentence] | None = None
    source_train: Sequence[Sentence] | None = None
    raw_text: Path | None = None
    source_types: tuple[str, ...] | None = None


class Buckets:
    """The buckets of the entities of some sentences.

    Args:
        seen_in_text: Says by the words of a mention if raw text has it; None without raw text.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        gold: Sequence[Sequence[Span]],
        known: KnownText,
        seen_in_text: Mapping[Name, str] | None,
    ) -> None:
        self._sentences = sentences
        self._inside = [sum(span.end - span.start for span in spans) for spans in gold]
        self._seen_in_text, self._source_types = seen_in_text, known.source_types
        self._seen: dict[str, tuple[dict[Name, set[str]], set[str]]] = {}
        for origin, labelled in (("target", known.train), ("source", known.source_train)):
            if labelled is not None:
                types = _read_mentions(labelled)
                self._seen[f"seen in {origin} train"] = types, _content_words(types)

    def find(self, number: int, span: Span) -> dict[str, str]:
        """Find the buckets of an entity of a sentence, given by its number: one of each kind."""
        words = self._sentences[number].words
        mention = words[span.start : span.end]
        found = {
            BY_TYPE: span.type,
            "mention length": _find_range(len(mention), MENTION_LENGTHS),
            "sentence length": _find_range(len(words), SENTENCE_LENGTHS),
            "entity density": _find_range(self._inside[number] / len(words) - ROUNDING, DENSITIES),
        }
        for name, (types, content) in self._seen.items():
            if mention in types:
                found[name] = THIS_TYPE if span.type in types[mention] else OTHER_TYPE
            else:
                found[name] = UNSEEN if content.isdisjoint(mention) else PARTLY
        if self._seen_in_text is not None:
            found["seen in raw text"] = self._seen_in_text[mention]
        if self._source_types is not None:
            found["type and source"] = SHARED if span.type in self._source_types else TARGET_ONLY
        return found


def _find_range(value: float, ranges: Mapping[float, str]) -> str:
    return next(name for border, name in ranges.items() if value <= border)


def _read_mentions(sentences: Sequence[Sentence]) -> dict[Name, set[str]]:
    """Read the entity types of each mention."""
    types: dict[Name, set[str]] = defaultdict(set)
    for sentence in sentences:
        for start, end, entity_type in to_spans(sentence.tags or ()):
            types[sentence.words[start:end]].add(entity_type)
    return dict(types)


def _content_words(mentions: Iterable[Name]) -> set[str]:
    return {word for words in mentions for word in words if is_content_word(word)}


def find_in_raw_text(path: Path, mentions: Collection[Name]) -> Work[dict[Name, str]]:
    """Look mentions up in a text file with one sentence per line; the file is read once.

    The words of the file are found as ``predict`` finds them, and words of mentions are cut by the same rule.

    Returns:
        ``SEEN``, ``PARTLY`` (one of its content words is) or ``UNSEEN`` by mention.
    """
    cut = {words: tuple(part for word in words for part in cut_words(word)) for words in mentions}
    wanted = NameFinder({" ".join(parts) for parts in cut.values()})
    content = _content_words(cut.values())
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
    return {
        words: SEEN if parts in seen else UNSEEN if known.isdisjoint(parts) else PARTLY for words, parts in cut.items()
    }
