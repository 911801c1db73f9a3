"""Sentences of dev and test in raw text, found as they are and inside paragraphs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

FINAL_STOPS = ".!?\N{HORIZONTAL ELLIPSIS}"
BORDER = 20  # fewest letters of a sentence that is searched inside others


def make_leak_key(text: str) -> str:
    """Return a key that is equal for sentences that differ only in case, final stop and word borders."""
    return _strip_stops(_join_letters(text))


def find_kept(sentences: Sequence[str], document: str, excluded: frozenset[str]) -> list[bool]:
    """Find the sentences of a document that are not excluded and hold no part of one that is.

    An excluded sentence may be a sentence of the document, the whole document, or begin or end at the border of a
    sentence: then the splitter has cut it in two, or joined it to its neighbour.

    Args:
        sentences: The sentences of the document, in order.
        document: The whole document.
        excluded: Keys of the sentences to leave out, as ``make_leak_key`` makes them.

    Returns:
        True for each sentence to keep.
    """
    letters = [_join_letters(sentence) for sentence in sentences]
    if len(sentences) > 1 and make_leak_key(document) in excluded:
        return [False] * len(sentences)
    kept = [_strip_stops(each) not in excluded for each in letters]
    for first, end in _find_stretches(letters, *_index_borders(excluded)):
        kept[first:end] = [False] * (end - first)
    return kept


def _find_stretches(
    letters: Sequence[str], starts: Mapping[str, Sequence[str]], ends: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, int]]:
    """Yield the first sentence and the one after the last of each stretch of a document that is excluded."""
    text = "".join(letters)
    borders = [0, *accumulate(map(len, letters))]
    for place in borders[:-1]:
        for key in starts.get(text[place : place + BORDER], ()):
            if text.startswith(key, place):
                yield bisect_right(borders, place) - 1, bisect_left(borders, place + len(key))
    end = 0  # after the last letter that is not a final stop
    for sentence, place in zip(letters, borders[1:], strict=True):
        if stripped := sentence.rstrip(FINAL_STOPS):
            end = place - len(sentence) + len(stripped)
        for key in ends.get(text[max(0, end - BORDER) : end], ()):
            if text.endswith(key, 0, end):
                yield bisect_right(borders, end - len(key)) - 1, bisect_left(borders, place)


@lru_cache(maxsize=1)
def _index_borders(excluded: frozenset[str]) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
    """Return the keys by their first letters, and by their last."""
    starts: defaultdict[str, list[str]] = defaultdict(list)
    ends: defaultdict[str, list[str]] = defaultdict(list)
    for key in excluded:
        if len(key) >= BORDER:
            starts[key[:BORDER]].append(key)
            ends[key[-BORDER:]].append(key)
    return starts, ends


def _strip_stops(letters: str) -> str:
    return letters.rstrip(FINAL_STOPS) or letters


def _join_letters(text: str) -> str:
    # casefold, not lower: that of a final sigma depends on what follows, which differs where words are joined.
    return "".join(text.split()).casefold()
