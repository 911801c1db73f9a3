"""Where the words of much text are, found for all of it at once with NumPy instead of a word at a time.

The words are those of ``text.find_words`` in the ordinary cases: punctuation alone, hyphenated words whole, clitics
off, initials and acronyms with their dot. They differ in what needs a list or a longer look: other abbreviations lose
their dot (``Inc .``), addresses, smileys and ``?!`` come apart, and ``1,2`` stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.text import MARKS, ONE_BY_ONE

Codes = NDArray[Any]  # uint8 for ASCII, else uint32
Flags = NDArray[np.bool_]
Places = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Kind = TypeVar("Kind", bound=np.generic)

WORD, SPACE, JOINS, APOSTROPHE, DIGIT, JOINS_DIGITS, REPEATS, ALONE = (1 << bit for bit in range(8))
CODE_POINTS = 0x110000
MULTIPLIER, INVERSE = 0x9E3779B97F4A7C15, pow(0x9E3779B97F4A7C15, -1, 1 << 64)
# Of a polynomial the low bits tell little; these constants are those of SplitMix64.
MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True)
class WordScan:
    """The words of some lines.

    Args:
        codes: Code points of the lines, each with its line feed, after one line feed, (C,).
        starts: Where each word begins in ``codes``, (W,).
        ends: Where each word ends, exclusive, (W,).
        first_words: For each line the number of words before it, then the number of all, (lines + 1,).
        line_starts: Where each line begins in ``codes``, (lines,).
        kinds: Flags of each character: ``WORD``, ``DIGIT``, ``ALONE`` and others, (C,).
    """

    codes: Codes
    starts: Places
    ends: Places
    first_words: Places
    line_starts: Places
    kinds: NDArray[np.uint8]

    @cached_property
    def words_of_lines(self) -> Places:
        """How many words each line has, (lines,)."""
        return np.diff(self.first_words)

    @cached_property
    def line_of_word(self) -> NDArray[np.int32]:
        """The line of each word, (W,)."""
        return np.repeat(np.arange(len(self.line_starts), dtype=np.int32), self.words_of_lines)

    def hashes(self, *, folded: bool) -> Hashes:
        """A hash of each word, without regard to case if ``folded``, (W,)."""
        codes = _lowered(self.codes) if folded else self.codes
        return _hashes(codes, self.starts, self.ends)


def scan_words(text: str) -> WordScan:
    """Find the words of some lines.

    Args:
        text: Lines with single spaces between their words, and a line feed between lines.
    """
    codes, ascii_codes, kinds = _read(f"\n{text}\n")
    continues = _continues(ascii_codes, kinds)
    visible = (kinds & SPACE) == 0
    starts = np.flatnonzero(visible & ~continues)
    ends = np.flatnonzero(visible[:-1] & ~continues[1:]) + 1
    line_ends = np.flatnonzero(codes == 10)
    return WordScan(codes, starts, ends, np.searchsorted(starts, line_ends), line_ends[:-1] + 1, kinds)


def hash_lines(text: str) -> Hashes:
    """A hash of each line of a text that is not empty, (lines,)."""
    codes = np.frombuffer(f"{text}\n".encode("utf-32-le"), np.uint32)
    ends = np.flatnonzero(codes == 10)
    return _hashes(codes, np.append(0, ends[:-1] + 1), ends)


def _hashes(codes: Codes, starts: Places, ends: Places) -> Hashes:
    """A hash of each of some stretches of characters."""
    powers, inverses = _powers(len(codes) + 1)
    sums = np.empty(len(codes) + 1, np.uint64)
    sums[0] = 0
    np.multiply(codes, powers[: len(codes)], out=sums[1:], dtype=np.uint64, casting="unsafe")
    np.cumsum(sums, out=sums)
    return mix((sums[ends] - sums[starts]) * inverses[starts])


def mix(values: Hashes) -> Hashes:
    """Spread the bits of hashes, so that each of the result depends on each of theirs."""
    values = (values ^ (values >> np.uint64(30))) * MIX[0]
    values = (values ^ (values >> np.uint64(27))) * MIX[1]
    return values ^ (values >> np.uint64(31))


def _read(text: str) -> tuple[Codes, NDArray[np.uint8], NDArray[np.uint8]]:
    """The code points of a text, the same with 128 for all beyond ASCII, and the flags of each, all (C,)."""
    if text.isascii():
        raw = text.encode("ascii")
        codes = np.frombuffer(raw, np.uint8)
        return codes, codes, np.frombuffer(raw.translate(_ascii_kinds()), np.uint8)
    wide = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    narrow = np.minimum(wide, 128).astype(np.uint8)
    kinds = np.frombuffer(bytearray(narrow.tobytes().translate(_ascii_kinds())), np.uint8)
    beyond = np.flatnonzero(narrow == 128)
    kinds[beyond] = _kinds()[wide[beyond]]
    return wide, narrow, kinds


def _continues(codes: Codes, kinds: NDArray[np.uint8]) -> Flags:
    """Tell which characters belong to the word of the character before them, (C,)."""
    word = (kinds & WORD) != 0
    after_word, before_word = _shifted(word, 1), _shifted(word, -1)
    digit = (kinds & DIGIT) != 0
    joins = ((kinds & (JOINS | APOSTROPHE)) != 0) & after_word & before_word
    joins |= ((kinds & JOINS_DIGITS) != 0) & _shifted(digit, 1) & _shifted(digit, -1)
    inner = word | joins
    hyphen, dot = codes == ord("-"), codes == ord(".")
    leads = (hyphen | (codes == ord("@")) | (codes == ord("#"))) & before_word & ~_shifted(inner | hyphen, 1)
    trails = hyphen & after_word & _shifted((kinds & SPACE) != 0, -1)
    trails |= dot & after_word & ~before_word & ~_shifted(dot, -1) & _before_dot(codes, kinds, inner, joins & dot)
    same = ((kinds & REPEATS) != 0) & (codes == _shifted(codes, 1)) & ~_shifted(trails, 1)
    continues = (inner & _shifted(inner, 1)) | (word & _shifted(leads, 1)) | trails | same
    _mark_clitics(codes, inner, continues, np.flatnonzero(((kinds & APOSTROPHE) != 0) & before_word))
    return np.asarray(continues)


def _before_dot(codes: Codes, kinds: NDArray[np.uint8], inner: Flags, inner_dot: Flags) -> Flags:
    """Tell which characters follow an initial within a line, or the last letter of an acronym: their dots."""
    is_initial = (codes >= ord("A")) & (codes <= ord("Z")) & ~_shifted(inner, 1)
    within_line = _shifted(codes, -1) != 10
    is_acronym = _shifted(inner_dot, 1) & ((kinds & DIGIT) == 0)
    return np.asarray((_shifted(is_initial, 1) & within_line) | _shifted(is_acronym, 1))


def _mark_clitics(codes: Codes, inner: Flags, continues: Flags, apostrophes: Places) -> None:
    """Let clitics be words, whether they were cut off before or not: ``company 's``, ``do n't``."""
    if not len(apostrophes):
        return
    last = len(codes) - 1
    following = [np.minimum(apostrophes + step, last) for step in (1, 2, 3)]
    one, two = (codes[places] | 32 for places in following[:2])  # in small letters, where they are letters
    ends_in_one, ends_in_two = ~inner[following[1]], ~inner[following[2]]
    is_clitic = ends_in_one & np.isin(one, [ord(letter) for letter in "smd"])
    long = ((one == ord("r")) | (one == ord("v"))) & (two == ord("e")) | (one == ord("l")) & (two == ord("l"))
    is_clitic |= long & ends_in_two
    continues[apostrophes[is_clitic]] = False
    continues[apostrophes[is_clitic] + 1] = True
    negations = ends_in_one & (one == ord("t")) & ((codes[apostrophes - 1] | 32) == ord("n"))
    negations &= inner[apostrophes] & inner[apostrophes - 2] & (apostrophes >= 2)
    continues[apostrophes[negations] - 1] = False


def _shifted(values: NDArray[Kind], places: int) -> NDArray[Kind]:
    """Values of the characters before (1) or after (-1); nothing at the edge, where there is a line feed."""
    shifted = np.zeros_like(values)
    if places > 0:
        shifted[1:] = values[:-1]
    else:
        shifted[:-1] = values[1:]
    return shifted


def _lowered(codes: Codes) -> Codes:
    if codes.dtype == np.uint8:
        return np.frombuffer(codes.tobytes().lower(), np.uint8)
    return _small_letters()[codes]


@lru_cache(maxsize=1)
def _kinds() -> NDArray[np.uint8]:
    """Flags of every code point, (0x110000,)."""
    kinds = np.zeros(CODE_POINTS, np.uint8)
    # Surrogates are no characters of any text that was read, and private use has no flag.
    codes = np.array([*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE1000)])
    every = "".join(map(chr, codes.tolist()))
    for pattern, flag in ((r"\w", WORD), (f"[{MARKS}]", WORD), (r"\s", SPACE), (r"\d", DIGIT)):
        for match in re.finditer(f"(?:{pattern})+", every):
            kinds[codes[match.start() : match.end()]] |= flag
    for match in re.finditer(f"[{ONE_BY_ONE}]+", every):
        alone = codes[match.start() : match.end()]
        kinds[alone] = (kinds[alone] & ~np.uint8(WORD)) | ALONE
    flags = {JOINS: "-‐‑–.&@·", APOSTROPHE: "'’", JOINS_DIGITS: ",:/", REPEATS: ".-!?*=:`'"}
    for flag, characters in flags.items():
        kinds[[ord(character) for character in characters]] |= flag
    return kinds


@lru_cache(maxsize=1)
def _ascii_kinds() -> bytes:
    """Flags of the code points of one byte, as ``bytes.translate`` takes them."""
    return _kinds()[:256].tobytes()


@lru_cache(maxsize=1)
def _small_letters() -> NDArray[np.uint32]:
    """The small letter of every code point that has one of its own, (0x110000,)."""
    letters = np.arange(CODE_POINTS, dtype=np.uint32)
    lower: Callable[[str], str] = str.lower
    for code in range(0x1F000):  # beyond them only symbols and Han
        small = lower(chr(code))
        if len(small) == 1:
            letters[code] = ord(small)
    return letters


_power_tables: list[tuple[Hashes, Hashes]] = []


def _powers(length: int) -> tuple[Hashes, Hashes]:
    """The first powers of the multiplier, and those of its inverse, (at least ``length``,)."""
    if not _power_tables or len(_power_tables[0][0]) < length:
        size = 1 << (length - 1).bit_length()
        tables = []
        for base in (MULTIPLIER, INVERSE):
            powers = np.full(size, base, np.uint64)
            powers[0] = 1
            tables.append(np.cumprod(powers, dtype=np.uint64))
        _power_tables[:] = [(tables[0], tables[1])]
    return _power_tables[0]
