"""What ``predict`` reads: every input in turn, cut into chunks of documents."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from crossner_cli.data.documents import Cut, Document, Format, format_of_file, read_documents, read_parquet_documents
from crossner_cli.data.files import Repairs, open_bytes
from crossner_cli.data.parquet import read_schema
from crossner_cli.data.text import Word, segment
from crossner_cli.errors import BadLine, CrossNERError
from crossner_cli.options import Predict
from crossner_cli.prediction.chunks import chunks
from crossner_cli.prediction.processes import Chunk

STDIN = "-"


def is_stdin(path: Path) -> bool:
    """Whether an input is stdin."""
    return str(path) == STDIN


def check_inputs(options: Predict) -> None:
    """Refuse inputs that cannot be read.

    Raises:
        CrossNERError: A file is not there, Parquet comes through a pipe, or stdin is named twice.
    """
    for path in options.input:
        if is_stdin(path):
            continue
        if path.is_dir() or path.is_file() or not os.access(path, os.R_OK):
            open_bytes(path).close()
        elif _is_parquet(options, path):  # a pipe is not opened to look: whoever writes to it would be told to stop
            raise CrossNERError(f"{path} is no file, and Parquet is read from files alone.",
                                hint=f"Write it to one, as: cat {path} > FILE.parquet")  # fmt: skip
    if sum(map(is_stdin, options.input)) > 1:
        raise CrossNERError("stdin (-) is named more than once.", hint="Name it once; it can be read once.")


def shared_schema(options: Predict) -> Any:
    """The schema of the rows that are read, where all of them are Parquet; else None.

    Raises:
        CrossNERError: The files to tag have different columns.
    """
    if not options.input or not all(_is_parquet(options, path) for path in options.input):
        return None
    schemas = [read_schema(path) for path in options.input]
    for path, schema in zip(options.input, schemas, strict=True):
        if not schema.equals(schemas[0]):
            raise CrossNERError(f"{path} has other columns than {options.input[0]}.",
                                hint="Tag the files one at a time.")  # fmt: skip
    return schemas[0].remove_metadata()


def read_chunks(options: Predict, repairs: Repairs, stdin: BinaryIO | None, done: int = 0) -> Iterator[Chunk]:
    """Read all inputs, chunk by chunk.

    Args:
        options: Which inputs.
        repairs: Where repairs are counted, and what says whether bad lines are left out.
        stdin: Bytes to read for ``-``; default: this process's.
        done: Documents that were tagged before: they are read again, for what they count, but not cut into words.

    Raises:
        CrossNERError: An input is malformed.
    """
    passed = 0

    def cut(text: str) -> Sequence[Sequence[Word]]:
        return segment(text) if passed == done else []

    def documents() -> Iterator[Document]:
        nonlocal passed
        for document in _read_all(options, repairs, stdin, cut):
            if passed == done:
                yield document
            else:
                passed += 1

    first = done + 1
    for chunk in chunks(documents()):
        yield Chunk(first, chunk)
        first += len(chunk)


def _read_all(options: Predict, repairs: Repairs, stdin: BinaryIO | None, cut: Cut) -> Iterator[Document]:
    """The documents of every input, one after another."""
    try:
        for path in options.input or [Path(STDIN)]:
            yield from _read(path, options, repairs, stdin, cut)
    except BadLine as problem:
        raise CrossNERError(
            problem.problem, hint=f"{problem.hint} Or leave such lines out: --skip-bad-lines."
        ) from None


def _read(path: Path, options: Predict, repairs: Repairs, stdin: BinaryIO | None, cut: Cut) -> Iterator[Document]:
    """The documents of one input."""
    input_format = None if options.input_format == "auto" else options.input_format
    if is_stdin(path):
        yield from read_documents(stdin or _own_stdin(), "stdin", repairs, input_format=input_format, cut=cut)
    elif _is_parquet(options, path):
        yield from read_parquet_documents(path, repairs, cut=cut)
    else:
        with open_bytes(path) as stream:
            yield from read_documents(stream, str(path), repairs, input_format=input_format, cut=cut)


def input_format_of(options: Predict, path: Path) -> Format:
    """The format that an input is read as: as asked for, else by the ending of its name."""
    return format_of_file(path) if options.input_format == "auto" else options.input_format


def _is_parquet(options: Predict, path: Path) -> bool:
    return not is_stdin(path) and input_format_of(options, path) == "parquet"


def _own_stdin() -> BinaryIO:
    if sys.stdin is None:  # closed by whoever started this process
        raise CrossNERError("There is no stdin to read from.", hint="Name the files to tag.")
    return sys.stdin.buffer
