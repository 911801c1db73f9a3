"""The sentences of each corpus level, thousands at a time: their counts, their mentions of names, and their labels."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossner_cli.corpus.blocks import Block
from crossner_cli.data.names import NameIndex
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_tags
from crossner_cli.data.text import find_words
from crossner_cli.data.word_scan import Flags, Places, scan_words
from crossner_cli.errors import CrossNERError

if TYPE_CHECKING:
    from tokenizers import Encoding

MENTION = np.dtype("<u4")
COLUMNS = 3  # line, first character, character behind the last


@dataclass
class LevelCounts:
    """The counts of a corpus level: documents with a sentence of it, sentences, words as ``word_scan`` counts them.

    A line of plain text is a document. ``type_sets`` counts mentions by the number of their name's set of types.
    """

    documents: int = 0
    sentences: int = 0
    words: int = 0
    type_sets: Counter[int] = field(default_factory=Counter)

    def plus(self, other: LevelCounts, *, times: int = 1) -> LevelCounts:
        """Return these counts and ``times`` those of another."""
        type_sets = self.type_sets + Counter({number: count * times for number, count in other.type_sets.items()})
        return LevelCounts(
            self.documents + other.documents * times,
            self.sentences + other.sentences * times,
            self.words + other.words * times,
            type_sets,
        )

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> LevelCounts:
        """Read the counts of a record, whose keys are strings."""
        type_sets = Counter({int(number): count for number, count in record["type_sets"].items()})
        return cls(**{**record, "type_sets": type_sets})

    def describe(self, type_sets: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Return the counts for the manifest, with mentions by type; a name of several types counts for each."""
        mentions: Counter[str] = Counter()
        for number, count in self.type_sets.items():
            mentions.update(dict.fromkeys(type_sets[number], count))
        counts = {"documents": self.documents, "sentences": self.sentences, "words": self.words}
        return {**counts, "mentions": dict(sorted(mentions.items()))}


@dataclass(frozen=True)
class LevelPart:
    """A block's share of a level.

    Args:
        texts: The sentences of the level.
        documents: The document of each, as in ``Block``, (S,).
        mentions: For each mention its sentence among ``texts``, its first character and the one behind it, (M, 3).
        type_numbers: The number of each mention's types, (M,).
        counts: Their counts.
    """

    texts: list[str]
    documents: NDArray[np.int64]
    mentions: NDArray[np.int64]
    type_numbers: NDArray[np.uint32]
    counts: LevelCounts


@dataclass(frozen=True)
class Selector:
    """Selects the sentences of the levels: of domain, entity and task, and ``weak``, those of ``weak_levels``."""

    names: NameIndex | None
    levels: tuple[str, ...]
    specialised_types: frozenset[str]
    min_entities: int
    weak_levels: tuple[str, ...] = ()

    @cached_property
    def _is_special(self) -> Flags:
        """True for sets of types with a specialised one."""
        sets = self.names.type_sets if self.names else ()
        return np.array([not self.specialised_types.isdisjoint(types) for types in sets], np.bool_)

    def select(self, block: Block, counts: Counter[str]) -> dict[str, LevelPart]:
        """Put sentences into their levels; ``counts`` gets ``sentences_without_names``."""
        if not block.texts:
            return {}
        scan = scan_words("\n".join(block.texts))
        words = scan.words_of_lines
        everything = np.ones(len(words), np.bool_)
        if self.names is None:
            return {"domain": _choose(block, words, np.zeros((0, 3), np.int64), np.zeros(0, np.uint32), everything)}
        found = self.names.find(scan)
        lines = scan.line_of_word[found.starts].astype(np.int64)
        begins, types = scan.line_starts[lines], self.names.type_numbers[found.names]
        mentions = np.stack((lines, scan.starts[found.starts] - begins, scan.ends[found.ends - 1] - begins), axis=1)
        counts["sentences_without_names"] += int(np.count_nonzero(np.bincount(lines, minlength=len(words)) == 0))
        belongs = {
            "domain": everything,
            "entity": self._have_several(lines, found.names, len(words)),
            "task": np.bincount(lines, self._is_special[types], len(words)) > 0,
        }
        if self.weak_levels:
            belongs["weak"] = np.any([belongs[level] for level in self.weak_levels], axis=0)
        return {level: _choose(block, words, mentions, types, belongs[level]) for level in self.levels}

    def _have_several(self, lines: Places, names: Places, total: int) -> Flags:
        """Return True for lines with enough distinct names, (total,)."""
        assert self.names is not None
        several = len(self.names.hashes)
        distinct = np.unique(lines * several + names) // several
        return np.asarray(np.bincount(distinct, minlength=total) >= self.min_entities)


def _choose(
    block: Block, words: Places, mentions: NDArray[np.int64], types: NDArray[np.uint32], chosen: Flags
) -> LevelPart:
    """Choose sentences with the mentions in them; all arguments are of the whole block."""
    texts, documents = list(compress(block.texts, chosen.tolist())), block.documents[chosen]
    kept = chosen[mentions[:, 0]]
    mentions, types = mentions[kept], types[kept]
    mentions[:, 0] = (np.cumsum(chosen) - 1)[mentions[:, 0]]
    numbers, frequencies = np.unique(types, return_counts=True)
    counts = LevelCounts(
        documents=int(len(documents) and 1 + np.count_nonzero(np.diff(documents))),
        sentences=len(texts),
        words=int(words[chosen].sum()),
        type_sets=Counter(dict(zip(numbers.tolist(), frequencies.tolist(), strict=True))),
    )
    return LevelPart(texts, documents, mentions, types, counts)


def label_sentences(part: LevelPart, type_sets: Sequence[Sequence[str]], counts: Counter[str]) -> Iterator[Sentence]:
    """Tag the words of selected sentences in BIO: mentions of listed names are entities, all else is not.

    A name of several types has the one listed first. A mention takes in the dot of an abbreviation that it ends
    before, as ``Inc`` in ``Inc.``; one that begins or ends within a word otherwise labels nothing.

    ``counts`` gets ``weak_mentions``, ``weak_mentions_within_words`` and ``weak_mentions_of_several_types``.
    """
    lines, starts, ends = part.mentions.T.tolist()
    numbers = part.type_numbers.tolist()
    for line, text in enumerate(part.texts):
        words = find_words(text)
        begins, finishes = [word.start for word in words], [word.end for word in words]
        spans = []
        for place in range(bisect_left(lines, line), bisect_left(lines, line + 1)):
            types, start, end = type_sets[numbers[place]], starts[place], ends[place]
            first, last = bisect_left(begins, start), bisect_left(finishes, end)
            is_whole = finishes[last] == end or (finishes[last] == end + 1 and text[end] == ".")
            if first == len(begins) or begins[first] != start or not is_whole:
                counts["weak_mentions_within_words"] += 1
                continue
            counts["weak_mentions"] += 1
            counts["weak_mentions_of_several_types"] += len(types) > 1
            spans.append(Span(first, last + 1, types[0]))
        yield Sentence(tuple(word.text for word in words), tuple(to_tags(spans, len(words), "bio")))


class Line(NamedTuple):
    """A line of a corpus, or a piece of an overlong one: its text, its line's number from 0, its place in the line."""

    text: str
    number: int
    start: int


def make_join_bit(dtype: str) -> Any:
    """Return the highest bit of a number format, which marks a subword that a mention joins to the one before."""
    return np.dtype(dtype).type(1 << (8 * np.dtype(dtype).itemsize - 1))


class MentionedLines:
    """The mentions of a corpus level, mapped into memory, as ``levels.write_levels`` wrote them.

    Raises:
        CrossNERError: The file was cut.
    """

    def __init__(self, path: Path) -> None:
        size = path.stat().st_size
        if size % (MENTION.itemsize * COLUMNS):
            raise CrossNERError(
                f"{path}: {size} bytes are no whole number of mentions.", hint="Run prepare-data again."
            )
        stored = np.memmap(path, MENTION, "r") if size else np.zeros(0, MENTION)
        self._rows = stored.reshape(-1, COLUMNS)

    def find_joins(
        self, lines: Sequence[Line], encoded: Sequence[Encoding], lengths: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Find the subwords that belong to the mention of the subword before them.

        Args:
            lines: Lines in the order of the corpus.
            encoded: Their subwords (T in all), with their places in ``text``.
            lengths: The number of subwords of each line.

        Returns:
            True for these, (T,).
        """
        numbers = self._rows[:, 0]
        first, last = bisect_left(numbers, lines[0].number), bisect_left(numbers, lines[-1].number + 1)
        rows = self._rows[first:last].astype(np.int64)
        # A line's characters are counted on from those of the lines before it, so that all are searched at once.
        width = 1 + max([line.start + len(line.text) for line in lines] + rows[:, 2].tolist())
        base = [(line.number - lines[0].number) * width + line.start for line in lines]
        begins = (rows[:, 0] - lines[0].number) * width + rows[:, 1]
        ends = begins + rows[:, 2] - rows[:, 1]
        behind = [end for encoding in encoded for _, end in encoding.offsets]
        # A subword may take in the space before its word, so it is known by its last character.
        places = np.repeat(base, lengths) + np.array(behind, np.int64) - 1
        mention = np.searchsorted(begins, places, side="right") - 1
        is_within = np.zeros(len(places), np.bool_)
        if len(rows):
            is_within = (mention >= 0) & (places < ends[mention])
        joins = np.zeros(len(places), np.bool_)
        joins[1:] = is_within[1:] & is_within[:-1] & (mention[1:] == mention[:-1])
        # The pieces of an overlong line are lines of their own.
        starts = np.cumsum(lengths)[:-1]
        joins[starts[starts < len(joins)]] = False
        return joins
