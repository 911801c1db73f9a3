"""The words of many lines at once, found and hashed with NumPy instead of a word at a time.

The words are those of ``text.find_words`` in ordinary text: punctuation alone, hyphenated words whole, clitics off,
initials and acronyms with their dot. They differ where a list or a longer look is needed: other abbreviations lose
their dot (``Inc .``), addresses, smileys and ``?!`` come apart, and ``1,2`` stays whole.
"""

from __future__ import annotations

import re
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
        text: The lines, each with its line feed, after one line feed, C characters.
        codes: Code points of the text, (C,).
        kinds: Flags of each character: ``WORD``, ``DIGIT``, ``ALONE`` and others, (C,).
        starts: First character of each word in ``text``, (W,).
        ends: Character behind each word, (W,).
        first_words: The number of words before each line, then the number of all, (lines + 1,).
        line_starts: First character of each line in ``text``, (lines,).
    """

    text: str
    codes: Codes
    kinds: NDArray[np.uint8]
    starts: Places
    ends: Places
    first_words: Places
    line_starts: Places

    @cached_property
    def words_of_lines(self) -> Places:
        """The number of words of each line, (lines,)."""
        return np.diff(self.first_words)

    @cached_property
    def line_of_word(self) -> NDArray[np.int32]:
        """The line of each word, (W,)."""
        return np.repeat(np.arange(len(self.line_starts), dtype=np.int32), self.words_of_lines)

    def hash_words(self, *, ignore_case: bool) -> Hashes:
        """Return a hash of each word, (W,)."""
        # Lower-cased, this letter alone becomes two.
        codes = _read_codes(self.text.replace("\u0130", "i").lower()) if ignore_case else self.codes
        return _hash_stretches(codes, self.starts, self.ends)


def scan_words(text: str) -> WordScan:
    """Find the words of some lines.

    Args:
        text: Lines with single spaces between their words, and a line feed between lines.
    """
    text = f"\n{text}\n"
    codes = _read_codes(text)
    ascii_codes, kinds = _classify(codes)
    continues = _continues(ascii_codes, kinds)
    visible = (kinds & SPACE) == 0
    starts = np.flatnonzero(visible & ~continues)
    ends = np.flatnonzero(visible[:-1] & ~continues[1:]) + 1
    line_ends = np.flatnonzero(codes == 10)
    return WordScan(text, codes, kinds, starts, ends, np.searchsorted(starts, line_ends), line_ends[:-1] + 1)


def hash_lines(text: str) -> Hashes:
    """Return a hash of each line of a text that is not empty, (lines,)."""
    codes = _read_codes(f"{text}\n")
    ends = np.flatnonzero(codes == 10)
    return _hash_stretches(codes, np.append(0, ends[:-1] + 1), ends)


def mix_hashes(values: Hashes) -> Hashes:
    """Spread the bits of hashes, so that each bit of the result depends on each of theirs."""
    values = (values ^ (values >> np.uint64(30))) * MIX[0]
    values = (values ^ (values >> np.uint64(27))) * MIX[1]
    return values ^ (values >> np.uint64(31))


def _hash_stretches(codes: Codes, starts: Places, ends: Places) -> Hashes:
    """Return a hash of each of some stretches of characters: a polynomial, as a difference of running sums."""
    powers, inverses = _powers((len(codes) + 1).bit_length())
    sums = np.empty(len(codes) + 1, np.uint64)
    sums[0] = 0
    np.multiply(codes, powers[: len(codes)], out=sums[1:], dtype=np.uint64, casting="unsafe")
    np.cumsum(sums, out=sums)
    return mix_hashes((sums[ends] - sums[starts]) * inverses[starts])


@lru_cache(maxsize=2)
def _powers(bits: int) -> tuple[Hashes, Hashes]:
    """The first powers of the multiplier and of its inverse, (2**bits,) each."""
    tables = []
    for base in (MULTIPLIER, INVERSE):
        powers = np.full(1 << bits, base, np.uint64)
        powers[0] = 1
        tables.append(np.cumprod(powers, dtype=np.uint64))
    return tables[0], tables[1]


def _read_codes(text: str) -> Codes:
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _classify(codes: Codes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the codes with 128 for all beyond ASCII, and the flags of each character, (C,) both."""
    if codes.dtype == np.uint8:
        return codes, np.frombuffer(codes.tobytes().translate(_ascii_kinds()), np.uint8)
    narrow = np.minimum(codes, 128).astype(np.uint8)
    kinds = np.frombuffer(bytearray(narrow.tobytes().translate(_ascii_kinds())), np.uint8)
    beyond = np.flatnonzero(narrow == 128)
    kinds[beyond] = _kinds()[codes[beyond]]
    return narrow, kinds


def _continues(codes: Codes, kinds: NDArray[np.uint8]) -> Flags:
    """Return True for characters that belong to the word of the character before them, (C,)."""
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
    """Return True for characters after an initial within a line, or after the last letter of an acronym."""
    is_initial = (codes >= ord("A")) & (codes <= ord("Z")) & ~_shifted(inner, 1)
    within_line = _shifted(codes, -1) != 10
    is_acronym = _shifted(inner_dot, 1) & ((kinds & DIGIT) == 0)
    return np.asarray((_shifted(is_initial, 1) & within_line) | _shifted(is_acronym, 1))


def _mark_clitics(codes: Codes, inner: Flags, continues: Flags, apostrophes: Places) -> None:
    """Start a word at each clitic, whether it was cut off before or not: ``company 's``, ``do n't``."""
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
    """The values of the characters before (1) or after (-1); 0 at the edge, where there is a line feed."""
    shifted = np.zeros_like(values)
    if places > 0:
        shifted[1:] = values[:-1]
    else:
        shifted[:-1] = values[1:]
    return shifted


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
