"""Parquet: rows in and rows out, a batch at a time. Needs pyarrow, the pip extra ``parquet``."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crossner_cli.data.files import Repairs
from crossner_cli.data.jsonl import SENTENCES, TAGS, TEXT, WORDS
from crossner_cli.errors import BadLine, CrossNERError
from crossner_cli.run.environment import import_optional

# Columns of tagged documents, and the column for other keys of objects that were not read from Parquet.
COLUMNS, GIVEN = (TEXT, WORDS[0], TAGS[0], "entities", SENTENCES, "calibrated"), "given"
ROWS_READ, ROWS_WRITTEN = 1_024, 16_384
NO_TEXT_HINT = f"Text is read from a column {TEXT!r}, words from a column {WORDS[0]!r}: rename one."


def pyarrow_module(name: str = "pyarrow") -> Any:
    """Import pyarrow, or a part of it.

    Raises:
        CrossNERError: It is not installed.
    """
    return import_optional(name, "Parquet is read and written with pyarrow", extra="parquet")


def read_schema(path: Path) -> Any:
    """The columns of a Parquet file, as pyarrow's schema.

    Raises:
        CrossNERError: It is no Parquet file, or none of its columns holds text or words.
    """
    with _open(path) as file:
        return _checked_schema(file, path)


def read_rows(path: Path, repairs: Repairs) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read rows one at a time, a row group at once in memory at most, numbered from 1.

    Raises:
        CrossNERError: It is no Parquet file, is damaged, or holds text that is not UTF-8 or a value that Python lacks.
    """
    number = 0
    with _open(path) as file:
        _checked_schema(file, path)
        batches = file.iter_batches(batch_size=ROWS_READ, use_threads=False)
        while (batch := _next_batch(batches, path)) is not None:
            for row in _read_batch(batch):
                number += 1
                if not isinstance(row, BadLine):
                    yield number, row
                    continue
                place = f"{path}, row {number}"
                repairs.refuse(BadLine(f"{place}: {row.problem}", hint=row.hint), place)


def _open(path: Path) -> Any:
    pyarrow, parquet = pyarrow_module(), pyarrow_module("pyarrow.parquet")
    try:
        return parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None


def _checked_schema(file: Any, path: Path) -> Any:
    schema = file.schema_arrow
    columns = ", ".join(schema.names) or "none"
    if not {TEXT, *WORDS} & set(schema.names):
        raise CrossNERError(f"{path} has no column of text or words, only {columns}.", hint=NO_TEXT_HINT)
    if len(set(schema.names)) < len(schema.names):
        raise CrossNERError(f"{path} has two columns of one name: {columns}.", hint="Rename one.")
    return schema


def _next_batch(batches: Iterator[Any], path: Path) -> Any:
    try:
        return next(batches, None)
    except (pyarrow_module().ArrowException, OSError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> CrossNERError:
    reason = " ".join(str(error).split())
    return CrossNERError(f"{path} cannot be read as Parquet: {reason}.", hint="Give a whole Parquet file.")


def _read_batch(batch: Any) -> Sequence[dict[str, Any] | BadLine]:
    """The rows of a batch; in place of a row with a value that Python cannot hold, the problem."""
    try:
        columns = [_read_column(column) for column in batch.columns]
    except (ValueError, OverflowError):
        return [_read_row(batch.slice(number, 1)) for number in range(batch.num_rows)]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _read_row(batch: Any) -> dict[str, Any] | BadLine:
    row: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            (row[name],) = _read_column(column)
        except UnicodeDecodeError:
            return BadLine("it holds text that is not UTF-8.", hint="Write it anew.")
        except (ValueError, OverflowError) as error:
            return BadLine(
                f"the column {name!r} holds a value that cannot be passed through ({error}).",
                hint="Write the column as text, or leave it out.",
            )
    return row


def _read_column(column: Any) -> list[Any]:
    pyarrow = pyarrow_module()
    if column.type == pyarrow.time64("ns"):
        column.cast(pyarrow.time64("us"))  # fails where Python's times, of microseconds, would cut digits off
    values: list[Any] = column.to_pylist()
    return values


def output_schema(passed_through: Any = None) -> Any:
    """The columns of tagged documents, behind those of the rows they were read from.

    Args:
        passed_through: Schema of the rows read; columns of the names written here are replaced. None if not all inputs
            were Parquet of one schema: then other keys of objects are text in one column, as JSON.
    """
    pyarrow = pyarrow_module()
    number, string = pyarrow.int64(), pyarrow.string()
    strings, pairs = pyarrow.list_(string), pyarrow.list_(pyarrow.list_(number))
    entity = {"start": number, "end": number, "type": string, "text": string, "score": pyarrow.float64()}
    kinds = (string, strings, strings, pyarrow.list_(pyarrow.struct(list(entity.items()))), pairs, pyarrow.bool_())
    others = [pyarrow.field(GIVEN, string)] if passed_through is None else passed_through
    kept = [field for field in others if field.name not in COLUMNS]
    return pyarrow.schema([*kept, *map(pyarrow.field, COLUMNS, kinds)])


def rows_to_bytes(rows: Sequence[dict[str, Any]], schema: Any) -> bytes:
    """Write rows as the bytes of a Parquet file."""
    pyarrow, parquet = pyarrow_module(), pyarrow_module("pyarrow.parquet")
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=schema), stream)
    return stream.getvalue()


def join_files(parts: Sequence[Path], schema: Any, target: Path) -> None:
    """Write the rows of some Parquet files into one, in row groups of a like size."""
    pyarrow, parquet = pyarrow_module(), pyarrow_module("pyarrow.parquet")
    waiting: list[Any] = []
    with parquet.ParquetWriter(target, schema) as writer:
        for part in parts:
            waiting.append(parquet.read_table(part, use_threads=False))
            if sum(table.num_rows for table in waiting) >= ROWS_WRITTEN:
                writer.write_table(pyarrow.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pyarrow.concat_tables(waiting))
