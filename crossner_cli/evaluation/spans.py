"""Tags and entities of many sentences as columns of numbers, read for all sentences at once.

Sentences stand one after another with one empty place, an ``O``, after each: no entity can reach over it. The two
readings of tags are those of ``evaluation``: ``conll`` lets an ``I-`` that continues nothing open an entity, ``strict``
drops what is no whole entity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.tags import OUTSIDE, AnyScheme, split_tag
from crossner_cli.evaluation.scores import Mode

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
PREFIX_LETTERS = "OBIES"
O, B, I, E, S = range(5)  # noqa: E741
NO_TYPE = -1


@dataclass(frozen=True)
class Layout:
    """Where the words of sentences are when all of them stand one after another.

    Args:
        first: Place of the first word of each sentence, and at the end the number of places, (B + 1,).
    """

    first: Numbers

    @classmethod
    def of(cls, sentences: Sequence[Sized]) -> Layout:
        """One place a word, and an empty one after each sentence."""
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        return cls(np.concatenate([[0], np.cumsum(lengths + 1)]))

    @property
    def lengths(self) -> Numbers:
        """Words of each sentence, (B,)."""
        return np.diff(self.first) - 1

    @property
    def size(self) -> int:
        """Places in all, the empty ones included."""
        return int(self.first[-1])

    def number(self, sentences: Sequence[Iterable[str]], numbers: Mapping[str, int]) -> NDArray[np.int32]:
        """The number of each text (tag or word) at its place, 0 at the empty ones, (P,)."""
        is_word = np.ones(self.size, np.bool_)
        is_word[self.first[1:] - 1] = False
        words = map(numbers.__getitem__, chain.from_iterable(sentences))
        placed = np.zeros(self.size, np.int32)
        placed[is_word] = np.fromiter(words, np.int32, count=self.size - len(sentences))
        return placed

    def sentence_of(self, places: Numbers) -> Numbers:
        """Which sentence each place is in."""
        return np.searchsorted(self.first, places, side="right") - 1


@dataclass(frozen=True)
class Tags:
    """The tags of many sentences.

    Args:
        prefixes: Which of ``O B I E S``, (P,).
        types: Number of the entity type, ``NO_TYPE`` at ``O``, (P,).
        layout: Where each sentence is.
    """

    prefixes: NDArray[np.int8]
    types: NDArray[np.int32]
    layout: Layout

    def illegal(self, scheme: AnyScheme) -> Numbers:
        """Places whose tag cannot follow the one before it; in BIOES also ends of sentences that leave one open."""
        before, kind, is_inside = _before(self.prefixes), self.prefixes, self._is_inside()
        if scheme == "bioes":
            legal = np.where(_among(kind, I, E), is_inside, ~_among(before, B, I))
        else:
            legal = (kind != (I if scheme == "bio" else B)) | is_inside
        return np.flatnonzero(~legal)

    def _is_inside(self) -> Mask:
        """Whether the tag before is ``B`` or ``I`` of the same type."""
        inside: Mask = _among(_before(self.prefixes), B, I) & (self.types == _before(self.types, NO_TYPE))
        return inside

    def spans(self, mode: Mode, scheme: AnyScheme) -> Spans:
        """The entities, in order. IOB1 has no strict reading."""
        if mode == "strict" and scheme != "iob1":
            return self._whole_spans(scheme)
        before, outside = _before(self.prefixes), self.prefixes == O
        starts = _among(self.prefixes, B, S) | (
            ~outside & (_among(before, E, S, O) | (self.types != _before(self.types, NO_TYPE)))
        )
        start = np.flatnonzero(starts)
        return Spans(start, _next_place(np.flatnonzero(starts | outside), start), self.types[start])

    def _whole_spans(self, scheme: AnyScheme) -> Spans:
        """``B I*`` in BIO; ``B I* E`` and ``S`` in BIOES."""
        start = np.flatnonzero(self.prefixes == B)
        goes_on = (self.prefixes == I) & (self.types == _before(self.types, NO_TYPE))
        end = _next_place(np.flatnonzero(~goes_on), start)
        if scheme == "bioes":
            is_whole = (self.prefixes[end] == E) & (self.types[end] == self.types[start])
            single = np.flatnonzero(self.prefixes == S)
            start = np.concatenate([start[is_whole], single])
            end = np.concatenate([end[is_whole], single]) + 1
            order = np.argsort(start)
            start, end = start[order], end[order]
        return Spans(start, end, self.types[start])


@dataclass(frozen=True)
class Spans:
    """Entities that do not overlap, in order, as columns; places are those of a ``Layout``.

    Args:
        start: Place of the first word, (N,).
        end: Place after the last word, (N,).
        type: Number of the entity type, (N,).
    """

    start: Numbers
    end: Numbers
    type: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def lengths(self) -> Numbers:
        """Words of each, (N,)."""
        return self.end - self.start

    def at(self, chosen: NDArray[Any]) -> Spans:
        """Some of them, by mask or by number."""
        return Spans(self.start[chosen], self.end[chosen], self.type[chosen])

    def moved(self, places: int) -> Spans:
        """The same ones, further on."""
        return Spans(self.start + places, self.end + places, self.type)


def read_tags(sentences: Sequence[Sequence[str]], types: Sequence[str], layout: Layout | None = None) -> Tags:
    """Turn tags into numbers.

    Args:
        sentences: Tags of each sentence.
        types: Entity types; a type's number is its place here.
        layout: That of the sentences, where it is known.

    Raises:
        ValueError: A text is no tag.
        KeyError: A type is not among them.
    """
    layout = layout or Layout.of(sentences)
    type_numbers = {name: number for number, name in enumerate(types)}
    # O is number 0, so that the empty places are O.
    tags = [OUTSIDE, *sorted(set(chain.from_iterable(sentences)) - {OUTSIDE})]
    parts = [split_tag(tag) for tag in tags]
    prefixes = np.array([PREFIX_LETTERS.index(prefix) for prefix, _ in parts], np.int8)
    kinds = np.array([type_numbers[name] if name else NO_TYPE for _, name in parts], np.int32)
    placed = layout.number(sentences, {tag: number for number, tag in enumerate(tags)})
    return Tags(prefixes[placed], kinds[placed], layout)


def has_ends(tags: Tags) -> bool:
    """Whether any tag is an ``E-`` or ``S-``, so that the scheme is BIOES."""
    return bool((tags.prefixes >= E).any())


def ranges(first: Numbers, counts: Numbers) -> Numbers:
    """``first, first + 1, …`` for each pair, as many as counted, one after another."""
    found: Numbers = np.arange(int(counts.sum())) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    return found


def _before(values: NDArray[Any], first: int = O) -> NDArray[Any]:
    """The value at the place before each."""
    return np.concatenate([np.array([first], values.dtype), values[:-1]])


def _among(values: NDArray[Any], *wanted: int) -> Mask:
    found = np.zeros(len(values), np.bool_)
    for each in wanted:
        found |= values == each
    return found


def _next_place(places: Numbers, start: Numbers) -> Numbers:
    """The first of ``places`` after each start; the last sentence's empty place is always one."""
    return places[np.searchsorted(places, start, side="right")]
