"""Documents that are kept in a file until all are tagged, each behind its score and its size, and then put in order."""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterable
from typing import BinaryIO

HEAD = struct.Struct("<dQ")  # the score of a document, and its size in bytes


def keep(score: float, data: bytes) -> bytes:
    """Return the bytes that are kept of a document."""
    return HEAD.pack(score, len(data)) + data


def write_kept(kept: BinaryIO, output: BinaryIO, *, between: bytes, is_sorted: bool) -> None:
    """Write all kept documents to an output.

    One document is in memory, and the scores and places of all, less than 100 bytes each.

    Args:
        kept: A file that can be sought; it is read from its start.
        output: Where to write.
        between: Bytes that are written between two documents.
        is_sorted: Whether the lowest score comes first; equal scores stay in the order they were kept in.
    """
    scores, starts = array("d"), array("Q")
    kept.seek(0)
    while head := kept.read(HEAD.size):
        score, size = HEAD.unpack(head)
        scores.append(score)
        starts.append(kept.tell() - HEAD.size)
        kept.seek(size, os.SEEK_CUR)
    numbers: Iterable[int] = range(len(scores))
    if is_sorted:
        numbers = sorted(numbers, key=scores.__getitem__)
    for position, number in enumerate(numbers):
        kept.seek(starts[number])
        _, size = HEAD.unpack(kept.read(HEAD.size))
        output.write((between if position else b"") + kept.read(size))
