"""The description of a format: how its files are recognised, read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossner_cli.data.documents import Cut, Document
from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.records import Record, read_records
from crossner_cli.data.formats.spans import Item
from crossner_cli.data.formats.writer import Writer
from crossner_cli.data.text import segment
from crossner_cli.errors import BadLine


@dataclass(frozen=True)
class Sample:
    """The beginning of a file, by which its format is recognised.

    Args:
        path: The file or folder.
        head: Its first bytes; empty for a folder.
        values: Its first values if it is JSON, else empty.
    """

    path: Path
    head: bytes = b""
    values: Sequence[Any] = ()


@dataclass(frozen=True)
class Source:
    """Documents without labels to be read.

    Args:
        name: The name of the file or stream, for messages.
        lines: Its content as lines of bytes.
        repairs: Counts repairs, and bad lines if they are skipped.
        column: The column or key that holds the text.
        cut: Finds the sentences and words of a text.
        path: The file; None for a stream.
    """

    name: str
    lines: Iterable[bytes]
    repairs: Repairs
    column: str = "text"
    cut: Cut = segment
    path: Path | None = None


@dataclass(frozen=True, eq=False)
class Format:
    """A format of files of sentences or documents; abilities that it lacks are None.

    Args:
        name: Its name in options such as ``--labels-format`` and ``--format``.
        title: Its name for people.
        unit: The name of what its files hold, in the plural.
        recognises: Counts the values of a sample that are of this format; the format with most is read.
        reads: Reads a file or folder of labelled sentences or texts.
        writes: Writes tagged documents.
        reads_documents: Reads documents without labels.
        endings: Endings of the names of files that ``predict`` reads or writes in this format.
        counts_utf16: True if offsets count UTF-16 code units, not characters.
        left_out: Repairs that leave out a whole text, with a word for each.
    """

    name: str
    title: str
    unit: str = "texts"
    recognises: Callable[[Sample], int] | None = None
    reads: Callable[[Path, Repairs], Iterable[Item]] | None = None
    writes: type[Writer] | None = None
    reads_documents: Callable[[Source], Iterable[Document]] | None = None
    endings: tuple[str, ...] = ()
    counts_utf16: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)


ReadRecord = Callable[[Record, Repairs], Iterable[Item]]


def count_values(is_in_format: Callable[[Any], bool]) -> Callable[[Sample], int]:
    """Make the ``recognises`` of a JSON format from a check of one value."""
    return lambda sample: sum(map(is_in_format, sample.values))


def json_reader(read: ReadRecord, hint: str) -> Callable[[Path, Repairs], Iterator[Item]]:
    """Make the ``reads`` of a JSON format from a reader of one record; the hint shows the form of a record."""
    return lambda path, repairs: read_each(read_records(path, repairs, hint), read, repairs)


def read_each(records: Iterable[Record], read: ReadRecord, repairs: Repairs) -> Iterator[Item]:
    """Read records one by one; a bad one is refused with its place, or skipped and counted.

    Raises:
        CrossNERError: A record is malformed.
    """
    for record in records:
        try:
            if isinstance(record.value, BadLine):
                raise record.value
            items = list(read(record, repairs))
        except BadLine as problem:
            repairs.refuse(problem, record.place)
        else:
            yield from items
