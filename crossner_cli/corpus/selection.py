"""The sentences of each corpus level, thousands at a time, with what is counted of them and where their names are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_cli.corpus.reading import Sentences
from crossner_cli.data.name_index import NameIndex
from crossner_cli.data.word_scan import Flags, Places, scan_words


@dataclass
class LevelCounts:
    """What a corpus level holds.

    Args:
        documents: Documents with a sentence of the level; of plain text a line is a document.
        sentences: Its sentences.
        words: Their words, as ``word_scan`` counts them.
        type_sets: Mentions by the number of their name's types.
    """

    documents: int = 0
    sentences: int = 0
    words: int = 0
    type_sets: Counter[int] = field(default_factory=Counter)

    def plus(self, other: LevelCounts, *, times: int = 1) -> LevelCounts:
        """These counts and ``times`` those of another."""
        type_sets = self.type_sets + Counter({number: count * times for number, count in other.type_sets.items()})
        return LevelCounts(
            self.documents + other.documents * times, self.sentences + other.sentences * times,
            self.words + other.words * times, type_sets,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """What ``from_json`` takes."""
        type_sets = {str(number): count for number, count in sorted(self.type_sets.items())}
        return {"documents": self.documents, "sentences": self.sentences, "words": self.words, "type_sets": type_sets}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> LevelCounts:
        """Read what ``to_json`` gave."""
        type_sets = Counter({int(number): count for number, count in record["type_sets"].items()})
        return cls(record["documents"], record["sentences"], record["words"], type_sets)

    def tell(self, type_sets: Sequence[Sequence[str]]) -> dict[str, Any]:
        """The counts as the manifest gives them: mentions by type, where a name of several types counts for each."""
        mentions: Counter[str] = Counter()
        for number, count in self.type_sets.items():
            mentions.update(dict.fromkeys(type_sets[number], count))
        counts = {"documents": self.documents, "sentences": self.sentences, "words": self.words}
        return {**counts, "mentions": dict(sorted(mentions.items()))}


@dataclass(frozen=True)
class LevelPart:
    """What some sentences add to a level.

    Args:
        texts: The sentences of the level.
        documents: The document of each, as ``Sentences`` has it, (S,).
        mentions: For each mention its sentence among ``texts``, its first character and the one behind it, (M, 3).
        type_sets: The number of each mention's types, (M,).
        counts: What is counted of them.
    """

    texts: list[str]
    documents: NDArray[np.int64]
    mentions: NDArray[np.int64]
    type_sets: NDArray[np.uint32]
    counts: LevelCounts


@dataclass(frozen=True)
class Selector:
    """Selects the sentences of the levels.

    Args:
        names: Listed names, if any.
        levels: Levels to select for: of domain, entity and task, and ``weak``.
        specialised_types: Types that make a task-level sentence.
        min_entities: Distinct names that make an entity-level sentence.
        weak_levels: Levels whose sentences are those of ``weak``.
    """

    names: NameIndex | None
    levels: tuple[str, ...]
    specialised_types: frozenset[str]
    min_entities: int
    weak_levels: tuple[str, ...] = ()

    @cached_property
    def _type_sets(self) -> NDArray[np.uint32]:
        """The number of each name's types, (N,)."""
        return self.names.type_numbers if self.names else np.zeros(0, np.uint32)

    @cached_property
    def _is_special(self) -> Flags:
        """Which sets of types have a specialised one."""
        sets = self.names.type_sets if self.names else ()
        return np.array([not self.specialised_types.isdisjoint(types) for types in sets], np.bool_)

    def select(self, sentences: Sentences, counts: Counter[str]) -> dict[str, LevelPart]:
        """Put sentences into their levels; ``counts`` gets ``sentences_without_names``."""
        if not sentences.texts:
            return {}
        scan = scan_words("\n".join(sentences.texts))
        words = scan.words_of_lines
        if self.names is None:
            nothing = np.zeros(0, np.int64)
            found = _Found(nothing, nothing, nothing, nothing.astype(np.uint32))
            return {"domain": _part(sentences, words, found, np.ones(len(words), np.bool_))}
        mentions = self.names.find(scan)
        lines = scan.line_of_word[mentions.starts].astype(np.int64)
        begins, type_sets = scan.line_starts[lines], self._type_sets[mentions.names]
        found = _Found(lines, scan.starts[mentions.starts] - begins, scan.ends[mentions.ends - 1] - begins, type_sets)
        counts["sentences_without_names"] += int(np.count_nonzero(np.bincount(lines, minlength=len(words)) == 0))
        belongs = {
            "domain": np.ones(len(words), np.bool_),
            "entity": self._have_several(lines, mentions.names, len(words)),
            "task": np.bincount(lines, self._is_special[type_sets], len(words)) > 0,
        }
        if self.weak_levels:
            belongs["weak"] = np.any([belongs[level] for level in self.weak_levels], axis=0)
        return {level: _part(sentences, words, found, belongs[level]) for level in self.levels}

    def _have_several(self, lines: Places, names: Places, total: int) -> Flags:
        """Tell which lines have enough distinct names, (lines,)."""
        distinct = np.unique(lines * len(self._type_sets) + names) // len(self._type_sets)
        return np.asarray(np.bincount(distinct, minlength=total) >= self.min_entities)


@dataclass(frozen=True)
class _Found:
    """Mentions: their line, first character, the character behind and the number of their types, (M,) each."""

    lines: Places
    starts: Places
    ends: Places
    type_sets: NDArray[np.uint32]


def _part(sentences: Sentences, words: Places, found: _Found, chosen: Flags) -> LevelPart:
    kept = chosen[found.lines]
    texts, documents = list(compress(sentences.texts, chosen.tolist())), sentences.documents[chosen]
    lines = (np.cumsum(chosen) - 1)[found.lines[kept]]
    mentions = np.stack((lines, found.starts[kept], found.ends[kept]), axis=1)
    type_sets = found.type_sets[kept]
    numbers, frequencies = np.unique(type_sets, return_counts=True)
    counts = LevelCounts(
        int(len(documents) and 1 + np.count_nonzero(np.diff(documents))), len(texts), int(words[chosen].sum()),
        Counter(dict(zip(numbers.tolist(), frequencies.tolist(), strict=True))),
    )  # fmt: skip
    return LevelPart(texts, documents, mentions, type_sets, counts)
