"""Which mentions raw text holds: the text is read once, whatever its size, for all mentions together."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.statistics import STOP_WORDS
from crossner_cli.data.text import find_words
from crossner_cli.evaluation.spans import Mask, Numbers, ranges
from crossner_cli.evaluation.surface_forms import SurfaceForms, any_within
from crossner_cli.run.progress import Progress, Work

WORDS_AT_ONCE = 1_000_000
TASK = "mentions in raw text"


def is_content_word(word: str) -> bool:
    """Whether a word tells something: it has a letter or digit and is no function word."""
    return any(map(str.isalnum, word)) and word.lower() not in STOP_WORDS


def mentions_in_raw_text(
    path: Path, vocabulary: Sequence[str], text: NDArray[Any], start: Numbers, end: Numbers
) -> Work[tuple[Mask, Mask]]:
    """Look mentions up in a text file, a sentence a line.

    Words of the file are found as ``predict`` finds them, and words of mentions are cut by the same rule.

    Args:
        path: The file, UTF-8.
        vocabulary: Words; number 1 is the first.
        text: Words of the sentences that the mentions are in, as numbers, (P,).
        start: Where each mention begins, (N,).
        end: Where it ends, exclusive, (N,).

    Returns:
        For each mention whether the file holds it, (N,), and whether it holds one of its content words, (N,).
    """
    numbers, tokens, first = _cut_words(vocabulary, text, start, end)
    begin, finish = first[:-1], first[1:]
    has_words = finish > begin  # a mention without any is nowhere
    forms, found = SurfaceForms.build(tokens, begin[has_words], finish[has_words])
    is_seen, is_known = np.zeros(forms.count, np.bool_), np.zeros(len(numbers) + 1, np.bool_)
    for read, progress in _read(path, numbers):
        is_known[read] = True
        for _, each, _ in forms.find(read):
            is_seen[each] = True
        yield progress
    seen = np.zeros(len(start), np.bool_)
    seen[has_words] = is_seen[found]
    is_content = np.array([False, *map(is_content_word, numbers)])
    return seen, any_within((is_known & is_content)[tokens], begin, finish)


def _cut_words(
    vocabulary: Sequence[str], text: NDArray[Any], start: Numbers, end: Numbers
) -> tuple[dict[str, int], Numbers, Numbers]:
    """Cut the words of mentions.

    Returns:
        A number for each word that results, from 1; those of all mentions one after another; and where each mention
        begins among them, with their end, (N + 1,).
    """
    lengths = end - start
    used, places = np.unique(text[ranges(start, lengths)], return_inverse=True)
    cut = [[word.text for word in find_words(vocabulary[number - 1])] for number in used.tolist()]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(chain.from_iterable(cut)), start=1)}
    flat = np.array([numbers[word] for words in cut for word in words], np.int64)
    counts = np.array([len(words) for words in cut], np.int64)
    tokens = flat[ranges((np.cumsum(counts) - counts)[places], counts[places])]
    mention_of = np.repeat(np.arange(len(start)), lengths)
    sizes = np.bincount(mention_of, weights=counts[places], minlength=len(start)).astype(np.int64)
    return numbers, tokens, np.concatenate([[0], np.cumsum(sizes)])


def _read(path: Path, numbers: Mapping[str, int]) -> Iterator[tuple[NDArray[np.int32], Progress]]:
    """The words of a file as numbers, 0 for others and after each line, a part at a time."""
    size, done = path.stat().st_size, 0
    words, number_of = array("i"), numbers.get
    with path.open("rb") as stream:
        for line in stream:
            done += len(line)
            words.extend([number_of(word.text, 0) for word in find_words(line.decode("utf-8"))])
            words.append(0)
            if len(words) >= WORDS_AT_ONCE:
                yield np.array(words, np.int32), Progress(TASK, done, size, "bytes")
                words = array("i")
    yield np.array(words, np.int32), Progress(TASK, done, size, "bytes")
