"""Sentences of dev and test in raw text: found as they are, and inside the paragraphs that they stand in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

FINAL_STOPS = ".!?\N{HORIZONTAL ELLIPSIS}"
PARAGRAPH = "\u2029"  # ends a sentence wherever it stands
BORDER = 20  # letters of a sentence that is looked for inside others; shorter ones are in too many


def leak_key(text: str) -> str:
    """What two sentences share that differ only in case, in the final stop and in how they are cut into words."""
    return _without_stops(_letters(text))


def leak_keys(texts: Sequence[str]) -> list[str]:
    """The ``leak_key`` of each text."""
    return list(map(_without_stops, _all_letters(texts)))


def not_excluded(
    sentences: Sequence[str], documents: NDArray[np.int64], whole: Sequence[str], excluded: frozenset[str]
) -> NDArray[np.bool_]:
    """Tell which sentences are none to leave out, nor hold a part of one.

    A sentence to leave out may be a sentence, the whole document, or begin or end where a sentence of the document
    does: then the splitter has cut it in two, or joined it to the one beside it.

    Args:
        sentences: Sentences of some documents.
        documents: The number of the document of each, rising.
        whole: The documents.
        excluded: Keys of what is to be left out, as ``leak_key`` makes them.
    """
    letters = _all_letters(sentences)
    keep = np.array([_without_stops(each) not in excluded for each in letters], np.bool_)
    if not np.array_equal(documents, np.arange(len(whole))):
        keep &= np.array([key not in excluded for key in leak_keys(whole)], np.bool_)[documents]
    starts, ends = _by_border(excluded)
    bounds = np.flatnonzero(np.diff(documents)) + 1
    for first, last in zip([0, *bounds.tolist()], [*bounds.tolist(), len(letters)], strict=True):
        for number, behind in _parts(letters[first:last], starts, ends):
            keep[first + number : first + behind] = False
    return keep


def _parts(
    letters: Sequence[str], starts: Mapping[str, Sequence[str]], ends: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, int]]:
    """The first sentence and the one behind the last of each stretch of a document that is to be left out."""
    text = "".join(letters)
    borders = [0, *accumulate(map(len, letters))]
    for place in borders[:-1]:
        for key in starts.get(text[place : place + BORDER], ()):
            if text.startswith(key, place):
                yield bisect_right(borders, place) - 1, bisect_left(borders, place + len(key))
    for place in borders[1:]:
        end = place
        while end and text[end - 1] in FINAL_STOPS:
            end -= 1
        for key in ends.get(text[max(0, end - BORDER) : end], ()):
            if text.endswith(key, 0, end):
                yield bisect_right(borders, end - len(key)) - 1, bisect_left(borders, place)


@lru_cache(maxsize=1)
def _by_border(excluded: frozenset[str]) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
    """Keys by how they begin, and by how they end."""
    starts: defaultdict[str, list[str]] = defaultdict(list)
    ends: defaultdict[str, list[str]] = defaultdict(list)
    for key in excluded:
        if len(key) >= BORDER:
            starts[key[:BORDER]].append(key)
            ends[key[-BORDER:]].append(key)
    return starts, ends


def _without_stops(letters: str) -> str:
    return letters.rstrip(FINAL_STOPS) or letters


def _letters(text: str) -> str:
    # casefold, not lower: that of a final sigma depends on what follows, which differs where words are joined.
    return "".join(text.split()).casefold()


def _all_letters(texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    if any("\n" in text for text in texts):
        return list(map(_letters, texts))
    return "\n".join(texts).replace(" ", "").replace(PARAGRAPH, "").casefold().split("\n")
