"""Writing of tagged documents as bytes."""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal

from crossner_cli.data.documents import TaggedDocument, Totals
from crossner_cli.data.files import is_writable
from crossner_cli.run.storage import to_json

# Name and bytes of a file of a folder; of an output that is one file, the bytes that follow.
Piece = tuple[str, bytes]
KEPT_HEAD = struct.Struct("<dQ")  # the score of a document, and its size in bytes


@dataclass(frozen=True)
class Writer:
    """Writes tagged documents; each format has a subclass, which writes one document or several.

    Args:
        name: The name of the format.
        types: Entity types of the tagger.
        is_calibrated: True if scores are probabilities of being right.
        passed_through: The schema of the rows that are read, if the output is Parquet and all input is.
        is_coloured: True if text goes to a terminal that shows colours.
        order: The value of ``--order``.
        model: The name of the tagger.
    """

    name: str = ""
    types: tuple[str, ...] = ()
    is_calibrated: bool = False
    passed_through: Any = None
    is_coloured: bool = False
    order: Literal["input", "uncertain"] = "input"
    model: str = ""

    has_parts: ClassVar[bool] = False  # documents are first written to several files in a folder
    is_folder: ClassVar[bool] = False
    between: ClassVar[bytes] = b""  # two documents, if the output is an array
    tail: ClassVar[bytes] = b""  # after all documents

    @property
    def is_kept(self) -> bool:
        """Return whether documents are kept until all are tagged, to sort them or because half an array is not JSON."""
        return self.order == "uncertain" or bool(self.between)

    @property
    def notes(self) -> list[str]:
        """Return notes for readers of the output."""
        return []

    def check(self) -> None:
        """Refuse to write if a package is not installed."""

    def head(self) -> bytes:
        """Return the text before all documents."""
        return b""

    def begin(self) -> list[Piece]:
        """Return the pieces that come before all documents."""
        return [] if self.has_parts or self.is_kept else [("", self.head())]

    def end(self) -> list[Piece]:
        """Return the pieces that come after all documents."""
        return [] if self.has_parts or self.is_kept else [("", self.tail)]

    def write(self, numbered: Sequence[tuple[int, TaggedDocument]], totals: Totals) -> list[Piece]:
        """Write documents as bytes.

        Args:
            numbered: At least one document, each with its number among all that were read, from 1. The name of a file
                is the number of its first document.
            totals: Counts the words that are rewritten.
        """
        texts = [self.write_document(tagged, totals).encode() for _, tagged in numbered]
        if self.is_kept:
            scores = [tagged.score for _, tagged in numbered]
            texts = [KEPT_HEAD.pack(score, len(text)) + text for score, text in zip(scores, texts, strict=True)]
        return [("", b"".join(texts))]

    def write_document(self, tagged: TaggedDocument, totals: Totals) -> str:
        """Write one document."""
        raise NotImplementedError

    def write_kept(self, kept: BinaryIO, output: BinaryIO) -> None:
        """Write the whole output, given the file with the results of ``write``.

        One document is in memory, and the scores and places of all, less than 100 bytes each. With the order
        ``uncertain`` the lowest score comes first; equal scores stay in the order of the input.
        """
        output.write(self.head())
        scores, starts = array("d"), array("Q")
        kept.seek(0)
        while head := kept.read(KEPT_HEAD.size):
            score, size = KEPT_HEAD.unpack(head)
            scores.append(score)
            starts.append(kept.tell() - KEPT_HEAD.size)
            kept.seek(size, os.SEEK_CUR)
        numbers: Iterable[int] = range(len(scores))
        if self.order == "uncertain":
            numbers = sorted(numbers, key=scores.__getitem__)
        for position, number in enumerate(numbers):
            kept.seek(starts[number])
            _, size = KEPT_HEAD.unpack(kept.read(KEPT_HEAD.size))
            output.write((self.between if position else b"") + kept.read(size))
        output.write(self.tail)

    def join(self, parts: Sequence[Path], target: Path) -> None:
        """Join the files of a folder into one file."""
        raise NotImplementedError


def encode_json(record: dict[str, Any]) -> str:
    """Write JSON on one line. Values of Parquet that JSON lacks become text, bytes hexadecimal, NaN null."""
    line = to_json(record, ensure_ascii=False, default=to_text)
    # Half a surrogate pair in a passed value can only be written as the escape it was read from.
    return line if is_writable(line) else to_json(record, default=to_text)


def to_text(value: Any) -> str:
    """Write a value that JSON lacks as text."""
    return value.hex() if isinstance(value, bytes) else str(value)


def leave_out_blanks(tagged: TaggedDocument, totals: Totals) -> TaggedDocument:
    """Leave out entities without visible characters, which annotation tools refuse, and count them."""
    visible = [entity for entity in tagged.entities if entity["text"].strip()]
    totals.rewritten_words += len(tagged.entities) - len(visible)
    return replace(tagged, entities=visible)
