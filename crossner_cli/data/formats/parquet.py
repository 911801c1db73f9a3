"""Parquet: labelled rows of Hugging Face data sets, documents, and tagged documents.

It needs pyarrow, the pip extra ``parquet``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from crossner_cli.data.documents import SENTENCES, Document, TaggedDocument, Totals
from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.csv_files import COLUMN_HINT
from crossner_cli.data.formats.format import Format, Source, read_each
from crossner_cli.data.formats.hugging_face import names_in, names_of_tags
from crossner_cli.data.formats.jsonl import ENTITIES, parse_documents, read_object, to_record
from crossner_cli.data.formats.records import Record
from crossner_cli.data.formats.spans import Item
from crossner_cli.data.formats.words import TAGS, TEXT, WORDS
from crossner_cli.data.formats.writer import Piece, Writer, to_text
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import import_optional
from crossner_cli.run.storage import to_json

# Columns of tagged documents, and the column for other keys of objects that were not read from Parquet.
COLUMNS, GIVEN = (TEXT, WORDS[0], TAGS[0], "entities", SENTENCES, "calibrated"), "given"
ROWS_READ, ROWS_WRITTEN = 1_024, 16_384
NO_TEXT_HINT = f"{COLUMN_HINT} Words are read from a column {WORDS[0]!r}."


def read_labelled_rows(path: Path, repairs: Repairs) -> Iterator[Item]:
    """Read the rows of a file; the names of its tags stand in its schema, or in files beside it.

    Raises:
        CrossNERError: It is not a Parquet file, or damaged, or a row is malformed.
    """
    file = _open(path)
    try:
        described = json.loads((file.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))
        names = names_in(described.get("info", {}).get("features"))
    except (ValueError, AttributeError, RecursionError):
        names = ()

    def read_row(record: Record, repairs: Repairs) -> list[Item]:
        known = {key: value for key, value in record.value.items() if value is not None or key in ENTITIES}
        return read_object(Record(known, record.number, record.place), repairs, find_names=find_names)

    find_names = cache(lambda: names or names_of_tags(path))
    return read_each(_read_rows(file, path), read_row, repairs)


def _read_documents(source: Source) -> Iterator[Document]:
    """Read rows as documents; their other columns are passed through."""
    if source.path is None:
        raise CrossNERError(f"{source.name}: parquet cannot be read from a stream.", hint="Name the file.")
    return parse_documents(_read_rows(_open(source.path, source.column), source.path), source)


class ParquetWriter(Writer):
    """Writes a table, with the columns of the rows that were read if all are Parquet with the same ones."""

    has_parts = True

    def check(self) -> None:
        """Refuse to write without pyarrow."""
        _pyarrow("pyarrow.parquet")

    def write(self, numbered: Sequence[tuple[int, TaggedDocument]], totals: Totals) -> list[Piece]:
        """Write a part of the documents."""
        rows = [to_row(tagged, self.is_calibrated) for _, tagged in numbered]
        return [(f"{numbered[0][0]:09}.parquet", rows_to_bytes(rows, output_schema(self.passed_through)))]

    def join(self, parts: Sequence[Path], target: Path) -> None:
        """Write the rows of all parts into one file, in row groups of similar size."""
        join_files(parts, output_schema(self.passed_through), target)


def to_row(tagged: TaggedDocument, is_calibrated: bool) -> dict[str, Any]:
    """Make a row of Parquet: ``to_record``, and other keys that were read as one JSON object in ``given``."""
    record = to_record(tagged, is_calibrated)
    others = {key: value for key, value in tagged.document.given.items() if key not in COLUMNS}
    return {GIVEN: to_json(others, default=to_text) if others else None, **record}


def _pyarrow(name: str = "pyarrow") -> Any:
    """Import pyarrow, or a part of it; refuse if it is not installed."""
    return import_optional(name, "Parquet is read and written with pyarrow", extra="parquet")


def read_schema(path: Path, column: str = TEXT) -> Any:
    """Read the columns of a Parquet file, as pyarrow's schema; refuse a file without text or words."""
    with _open(path, column) as file:
        return file.schema_arrow


def _read_rows(file: Any, path: Path) -> Iterator[Record]:
    """Read the rows of an open Parquet file, with at most one row group in memory.

    Raises:
        CrossNERError: The file is damaged, or holds a value that Python cannot.
    """
    numbers = count(1)
    with file:
        batches = file.iter_batches(batch_size=ROWS_READ, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
                rows = [] if batch is None else batch.to_pylist()
            except (_pyarrow().ArrowException, OSError, ValueError, OverflowError) as error:
                raise _unreadable(path, error) from None
            if batch is None:
                return
            for row in rows:
                number = next(numbers)
                yield Record(row, number, f"{path}, row {number}")


def _open(path: Path, column: str = TEXT) -> Any:
    """Open a Parquet file that has this column, or one of text or words.

    Raises:
        CrossNERError: It is not a Parquet file or damaged, has no column of text or words, or two columns of the same
            name.
    """
    pyarrow, parquet = _pyarrow(), _pyarrow("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
        names = file.schema_arrow.names
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None
    if not {column, *WORDS} & set(names):
        raise CrossNERError(
            f"{path} has no column of {column} or words, only {', '.join(names) or 'none'}.", hint=NO_TEXT_HINT
        )
    if len(set(names)) < len(names):
        raise CrossNERError(f"{path} has two columns of the same name: {', '.join(names)}.", hint="Rename one.")
    return file


def _unreadable(path: Path, error: Exception) -> CrossNERError:
    reason = " ".join(str(error).split())
    return CrossNERError(
        f"{path} cannot be read as Parquet: {reason}.", hint="Give a whole Parquet file of valid text and dates."
    )


def output_schema(passed_through: Any = None) -> Any:
    """Return the columns of tagged documents, after others of the rows they were read from.

    If not all inputs were Parquet of one schema, ``passed_through`` is None and other keys are text in one column, as
    JSON.
    """
    pyarrow = _pyarrow()
    number, string = pyarrow.int64(), pyarrow.string()
    strings, pairs = pyarrow.list_(string), pyarrow.list_(pyarrow.list_(number))
    entity = {"start": number, "end": number, "type": string, "text": string, "score": pyarrow.float64()}
    kinds = (string, strings, strings, pyarrow.list_(pyarrow.struct(list(entity.items()))), pairs, pyarrow.bool_())
    others = [pyarrow.field(GIVEN, string)] if passed_through is None else passed_through
    kept = [field for field in others if field.name not in COLUMNS]
    return pyarrow.schema([*kept, *map(pyarrow.field, COLUMNS, kinds)])


def rows_to_bytes(rows: Sequence[dict[str, Any]], schema: Any) -> bytes:
    """Write rows as the bytes of a Parquet file."""
    pyarrow, parquet = _pyarrow(), _pyarrow("pyarrow.parquet")
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=schema), stream)
    return stream.getvalue()


def join_files(parts: Sequence[Path], schema: Any, target: Path) -> None:
    """Write the rows of some Parquet files into one, in row groups of similar size."""
    pyarrow, parquet = _pyarrow(), _pyarrow("pyarrow.parquet")
    waiting: list[Any] = []
    with parquet.ParquetWriter(target, schema) as writer:
        for part in parts:
            waiting.append(parquet.read_table(part, use_threads=False))
            if sum(table.num_rows for table in waiting) >= ROWS_WRITTEN:
                writer.write_table(pyarrow.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pyarrow.concat_tables(waiting))


FORMAT = Format(
    "parquet",
    "Parquet",
    "rows",
    lambda sample: int(sample.head.startswith(b"PAR1")),
    read_labelled_rows,
    ParquetWriter,
    _read_documents,
    (".parquet", ".pq"),
)
