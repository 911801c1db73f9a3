"""Repeated and nearly repeated sentences, and boilerplate, which a corpus is better without.

Near duplicates: Broder (1997), MinHash; of the pairs of neighbouring words of a sentence, sixteen smallest hashes.
Boilerplate: three rules, two of them and the phrases after Raffel et al. (2020), C4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crossner_cli.corpus.blocks import Block
from crossner_cli.data.leaks import make_leak_keys
from crossner_cli.data.word_scan import ALONE, DIGIT, WORD, Flags, Hashes, Places, hash_lines, mix_hashes, scan_words

SKETCH = 16  # hashes of a sentence
ROWS_OF_BAND, LEAST_SHARED = 4, 12
SEEDS = np.arange(1, SKETCH + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
FINGERPRINT = np.dtype("<u4")
ROWS_AT_ONCE = 1 << 22
FEWEST_WORDS, FEWEST_LETTERS = 3, 0.5
WEB_PHRASES = (
    "javascript",
    "lorem ipsum",
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
    "all rights reserved",
    "click here",
    "{",
)


def drop_boilerplate(block: Block, counts: Counter[str]) -> Block:
    """Leave out sentences of fewer than three words, of less than half letters, or with a phrase of web pages.

    Args:
        block: Some sentences.
        counts: Where ``dropped_few_words``, ``dropped_few_letters`` and ``dropped_web_phrases`` are counted; a
            sentence counts once, for the first of them.
    """
    if not block.texts:
        return block
    text = "\n".join(block.texts)
    scan = scan_words(text)
    visible = np.add.reduceat(scan.codes > 32, scan.line_starts, dtype=np.int64)
    is_letter = ((scan.kinds & (WORD | ALONE)) != 0) & ((scan.kinds & DIGIT) == 0)
    letters = np.add.reduceat(is_letter, scan.line_starts, dtype=np.int64)
    found = {
        "dropped_few_words": scan.words_of_lines < FEWEST_WORDS,
        "dropped_few_letters": letters < FEWEST_LETTERS * visible,
        "dropped_web_phrases": _have_phrases(block.texts, text),
    }
    keep = np.ones(len(block.texts), np.bool_)
    for reason, is_such in found.items():
        counts[reason] += int(np.count_nonzero(keep & is_such))
        keep &= ~is_such
    return block.keep(keep)


def _have_phrases(texts: Sequence[str], text: str) -> Flags:
    small = text.lower()
    present = [phrase for phrase in WEB_PHRASES if phrase in small]
    return np.array([any(phrase in each for phrase in present) for each in small.split("\n")], np.bool_)


def make_fingerprints(block: Block, *, near: bool) -> NDArray[np.uint32]:
    """Return two numbers of each exact sentence, and with ``near`` sixteen of its words, (S, 2|18).

    Sentences that differ only in case, spaces and the final stop are the same.
    """
    if not block.texts:
        return np.zeros((0, 2 + SKETCH * near), FINGERPRINT)
    exact = hash_lines("\n".join(make_leak_keys(block.texts)))
    columns = [exact >> np.uint64(32), exact & np.uint64(0xFFFFFFFF)]
    if near:
        columns += [column >> np.uint64(32) for column in _sketch(block.texts)]
    return np.stack(columns, axis=1).astype(FINGERPRINT)


def _sketch(texts: Sequence[str]) -> list[Hashes]:
    """Return the smallest hashes of the pairs of neighbouring words of each sentence, a column a hash function."""
    scan = scan_words("\n".join(texts))
    words = scan.hash_words(ignore_case=True)
    # The last word of a sentence is paired with nothing: so a sentence of one word has a pair too.
    following = np.append(words[1:], np.uint64(0))
    following[scan.first_words[1:] - 1] = 0
    pairs = mix_hashes(words * np.uint64(3) + following)
    return [np.minimum.reduceat(mix_hashes(pairs ^ seed), scan.first_words[:-1]) for seed in SEEDS]


def find_duplicates(path: Path, *, near: bool) -> tuple[Flags, Flags]:
    """Find the sentences that repeat an earlier one of the corpus.

    A sentence is nearly repeated if in one of four bands its hashes are those of an earlier sentence, and the first
    such sentence shares twelve of its sixteen hashes: about three quarters of all pairs of words of the two.

    Args:
        path: The fingerprints of all sentences in the order of the corpus.
        near: Look for nearly repeated sentences, too.

    Returns:
        Which sentences repeat one, and which others nearly repeat one, (S,) each.
    """
    width = 2 + SKETCH * near
    if not path.stat().st_size:
        return np.zeros(0, np.bool_), np.zeros(0, np.bool_)
    stored = np.memmap(path, FINGERPRINT, "r").reshape(-1, width)
    is_repeated = np.zeros(len(stored), np.bool_)
    is_near = np.zeros(len(stored), np.bool_)
    for rows, _ in _find_repeats(stored, 0, 2):
        is_repeated[rows] = True
    for first in range(2, width, ROWS_OF_BAND):
        for rows, earlier in _find_repeats(stored, first, first + ROWS_OF_BAND):
            left = np.flatnonzero(~(is_repeated[rows] | is_near[rows]))
            rows, earlier = rows[left], earlier[left]
            for begin in range(0, len(rows), ROWS_AT_ONCE // SKETCH):
                some = slice(begin, begin + ROWS_AT_ONCE // SKETCH)
                shared = np.count_nonzero(stored[rows[some], 2:] == stored[earlier[some], 2:], axis=1)
                is_near[rows[some][shared >= LEAST_SHARED]] = True
    return is_repeated, is_near


def _find_repeats(stored: NDArray[np.uint32], first: int, last: int) -> list[tuple[Places, Places]]:
    """Find rows whose columns equal those of an earlier row, and the first such row; in pieces that fit into memory."""
    pieces = max(1, -(-len(stored) // ROWS_AT_ONCE))
    found = []
    for piece in range(pieces):
        keys, rows = _keys_of_piece(stored, first, last, piece, pieces)
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], rows[order]
        begins = np.concatenate(([True], keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, np.bool_)
        earliest = rows[begins][np.cumsum(begins) - 1] if len(keys) else rows
        found.append((rows[~begins], earliest[~begins]))
    return found


def _keys_of_piece(stored: NDArray[np.uint32], first: int, last: int, piece: int, pieces: int) -> tuple[Hashes, Places]:
    """Return one number for the columns of each row that falls into a piece, and these rows."""
    keys, rows = [], []
    for begin in range(0, len(stored), ROWS_AT_ONCE):
        some = stored[begin : begin + ROWS_AT_ONCE]
        key = np.zeros(len(some), np.uint64)
        for column in range(first, last):
            key = mix_hashes(key ^ some[:, column])
        chosen = np.flatnonzero(key % np.uint64(pieces) == piece)
        keys.append(key[chosen])
        rows.append(chosen + begin)
    return np.concatenate(keys), np.concatenate(rows)
