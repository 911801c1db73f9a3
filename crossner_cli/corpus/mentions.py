"""The mentions of a corpus level on disk, and the subwords that each of them joins."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossner_cli.errors import CrossNERError

if TYPE_CHECKING:
    from tokenizers import Encoding

MENTION = np.dtype("<u4")
COLUMNS = 3  # line, first character, character after the last


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
                f"{path}: {size} bytes are not a whole number of mentions.", hint="Run prepare-data again."
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
        # Characters are counted across lines, so that all lines are searched at once.
        width = 1 + max([line.start + len(line.text) for line in lines] + rows[:, 2].tolist())
        base = [(line.number - lines[0].number) * width + line.start for line in lines]
        begins = (rows[:, 0] - lines[0].number) * width + rows[:, 1]
        ends = begins + rows[:, 2] - rows[:, 1]
        ends_of_subwords = [end for encoding in encoded for _, end in encoding.offsets]
        # A subword may include the space before its word, so it is identified by its last character.
        places = np.repeat(base, lengths) + np.array(ends_of_subwords, np.int64) - 1
        mention = np.searchsorted(begins, places, side="right") - 1
        is_within = np.zeros(len(places), np.bool_)
        if len(rows):
            is_within = (mention >= 0) & (places < ends[mention])
        joins = np.zeros(len(places), np.bool_)
        joins[1:] = is_within[1:] & is_within[:-1] & (mention[1:] == mention[:-1])
        # The pieces of an overlong line are separate lines.
        starts = np.cumsum(lengths)[:-1]
        joins[starts[starts < len(joins)]] = False
        return joins
