"""The input of ``predict``: files and stdin, read in chunks of documents."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from crossner_cli.data.documents import (
    Cut,
    Document,
    Format,
    format_of_file,
    read_documents,
    read_parquet_documents,
    read_schema,
)
from crossner_cli.data.files import Repairs, open_bytes
from crossner_cli.data.text import Word, segment
from crossner_cli.errors import BadLine, CrossNERError, suggest_path

STDIN = "-"
# Large enough to batch sentences of similar length together, small enough to hold in memory.
CHUNK_SENTENCES, CHUNK_WORDS = 2_048, 32_768


class Chunk(NamedTuple):
    """Documents that are tagged together, and the number of the first one among all that were read, from 1."""

    first: int
    documents: Sequence[Document]


@dataclass(frozen=True)
class Inputs:
    """Files and stdin, in the order they are read.

    Args:
        paths: The files; ``-`` is stdin, and so is an empty list.
        format: The format of all inputs; None chooses it by the ending of each file name.
        stdin: The stream that is read as stdin; None is the stdin of this process.
        texts: Texts that are read instead of files and stdin.
    """

    paths: Sequence[Path]
    format: Format | None = None
    stdin: BinaryIO | None = None
    texts: Sequence[str] = ()

    def check(self) -> None:
        """Refuse files that cannot be read, and files beside texts."""
        if self.texts and self.paths:
            raise CrossNERError(
                f"--text is given beside {self.paths[0]}.", hint="Tag texts and files with two commands."
            )
        for path in self.paths:
            if str(path) != STDIN and not os.path.lexists(path):
                hint = "To tag a text, give it with --text, as: crossner predict --text 'Anna met Peter.'"
                raise CrossNERError(f"There is no file {path}.", hint=suggest_path(path) + hint)
            if str(path) != STDIN and path.is_dir():
                raise CrossNERError(f"{path} is a folder.", hint="Name its files, as: crossner predict DIR/*.txt")
            if str(path) != STDIN and (path.is_file() or not os.access(path, os.R_OK)):
                open_bytes(path).close()  # explains what is wrong with it

    def format_of(self, path: Path) -> Format:
        """The format that an input is read as."""
        return self.format or format_of_file(path)

    def shared_schema(self) -> Any:
        """Read the schema of the rows if all inputs are Parquet with the same columns; return None if not."""
        if not self.paths or not all(self.format_of(path) == "parquet" for path in self.paths):
            return None
        first, *others = map(read_schema, self.paths)
        return first.remove_metadata() if all(schema.equals(first) for schema in others) else None

    def read_chunks(self, repairs: Repairs, *, done: int = 0) -> Iterator[Chunk]:
        """Read all inputs, chunk by chunk.

        Args:
            repairs: Counts repairs, and decides whether bad lines are skipped.
            done: Number of documents that are tagged already. They are read again, so that repairs in them are
                counted, but not segmented.

        Raises:
            CrossNERError: An input is malformed.
        """
        passed = 0

        def cut(text: str) -> Sequence[Sequence[Word]]:
            return segment(text) if passed == done else []

        def documents() -> Iterator[Document]:
            nonlocal passed
            for document in self._read(repairs, cut):
                if passed == done:
                    yield document
                else:
                    passed += 1

        first = done + 1
        for chunk in group_documents(documents()):
            yield Chunk(first, chunk)
            first += len(chunk)

    def _read(self, repairs: Repairs, cut: Cut) -> Iterator[Document]:
        try:
            if self.texts:
                lines = [text.encode("utf-8", "surrogateescape") for given in self.texts for text in given.split("\n")]
                yield from read_documents(lines, "--text", repairs, input_format="text", cut=cut)
                return
            for path in self.paths or [Path(STDIN)]:
                if str(path) == STDIN:
                    yield from read_documents(self._stdin(), "stdin", repairs, input_format=self.format, cut=cut)
                elif self.format_of(path) == "parquet":
                    yield from read_parquet_documents(path, repairs, cut=cut)
                else:
                    with open_bytes(path) as stream:
                        yield from read_documents(stream, str(path), repairs, input_format=self.format, cut=cut)
        except BadLine as problem:
            hint = f"{problem.hint} Or leave such lines out: --skip-bad-lines."
            raise CrossNERError(problem.problem, hint=hint) from None

    def _stdin(self) -> BinaryIO:
        if self.stdin is None and sys.stdin is None:  # closed by whoever started this process
            raise CrossNERError("There is no stdin to read from.", hint="Name the files to tag.")
        return self.stdin or sys.stdin.buffer


def group_documents(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Group documents, none of them split, into chunks of limited size; those before a problem come before it."""
    chunk: list[Document] = []
    sentences = words = 0
    try:
        for document in documents:
            chunk.append(document)
            sentences += max(1, len(document.sentences))
            words += sum(map(len, document.sentences))
            if sentences >= CHUNK_SENTENCES or words >= CHUNK_WORDS:
                yield chunk
                chunk, sentences, words = [], 0, 0
    except CrossNERError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
