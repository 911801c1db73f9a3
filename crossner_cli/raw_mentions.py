"""Which mentions raw text holds: the text is read once, whatever its size, for all mentions together."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from crossner_cli.data_statistics import STOP_WORDS
from crossner_cli.progress import Progress, Work
from crossner_cli.spans import Layout, Mask
from crossner_cli.surface_forms import SurfaceForms, any_within
from crossner_cli.text import find_words

WORDS_AT_ONCE = 1_000_000


def is_content_word(word: str) -> bool:
    """Whether a word tells something: it has a letter or digit and is no function word."""
    return any(map(str.isalnum, word)) and word.lower() not in STOP_WORDS


def mentions_in_raw_text(path: Path, mentions: Sequence[Sequence[str]]) -> Work[tuple[Mask, Mask]]:
    """Look mentions up in a text file, a sentence a line; words of both are found by the same rule, as in ``predict``.

    Args:
        path: The file, UTF-8.
        mentions: The words of each.

    Returns:
        For each mention whether the text holds it, (N,), and whether it holds one of its content words, (N,).
    """
    tokens = [[word.text for word in find_words(" ".join(words))] for words in mentions]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(chain.from_iterable(tokens)), start=1)}
    layout = Layout.of(tokens)
    text = layout.number(tokens, numbers)
    # A mention without any word is nowhere.
    has_words = layout.lengths > 0
    start, end = layout.first[:-1][has_words], (layout.first[1:] - 1)[has_words]
    forms, found = SurfaceForms.build(text, start, end)
    is_seen, is_known = np.zeros(forms.count, np.bool_), np.zeros(len(numbers) + 1, np.bool_)
    size, done = path.stat().st_size, 0
    words = array("i")
    with path.open("rb") as stream:
        for line in chain(stream, [b""]):
            done += len(line)
            words.extend(numbers.get(word.text, 0) for word in find_words(line.decode("utf-8")))
            words.append(0)
            if len(words) >= WORDS_AT_ONCE or not line:
                read = np.array(words, np.int32)
                is_known[read] = True
                for _, each, _ in forms.find(read):
                    is_seen[each] = True
                words = array("i")
                yield Progress("mentions in raw text", done, size, "bytes")
    is_content = np.array([False, *map(is_content_word, numbers)])
    seen, partly = np.zeros(len(tokens), np.bool_), np.zeros(len(tokens), np.bool_)
    seen[has_words] = is_seen[found]
    partly[has_words] = any_within((is_known & is_content)[text], start, end)
    return seen, partly
