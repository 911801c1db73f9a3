"""The input of ``predict``: files and stdin, read in chunks of documents."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from crossner_cli import figures
from crossner_cli.data.documents import Cut, Document
from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.parquet import read_schema
from crossner_cli.data.formats.words import TEXT
from crossner_cli.data.text import Word, segment
from crossner_cli.data.unlabelled import ENDINGS, format_of_file, read_documents, read_file
from crossner_cli.errors import BadLine, CrossNERError, suggest_path
from crossner_cli.run.storage import walk_files

STDIN = "-"
FOLDER_ENDINGS = tuple(ENDINGS)  # endings of the files of a folder that are read
# Large enough to batch sentences of similar length, small enough for memory.
CHUNK_SENTENCES, CHUNK_WORDS = 2_048, 32_768


class Chunk(NamedTuple):
    """Documents that are tagged together, and the number of the first one among all that were read, from 1."""

    first: int
    documents: Sequence[Document]


@dataclass(frozen=True)
class Inputs:
    """Files and stdin, in the order they are read.

    Args:
        paths: The files and folders; ``-`` is stdin, and so is an empty list.
        format: The format of all inputs; None finds it by the ending of each file name and the first lines.
        stdin: The stream that is read as stdin; None is the stdin of this process.
        column: The column or key that holds the text.
        notes: Notes of ``check``: how files are read, and which files of a folder are not.
    """

    paths: Sequence[Path]
    format: str | None = None
    stdin: BinaryIO | None = None
    texts: Sequence[str] = ()
    column: str = TEXT
    notes: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Refuse inputs that cannot be read, and files beside texts: the first document of each file is read."""
        if self.texts and self.paths:
            raise CrossNERError(
                f"--text is given beside {self.paths[0]}.", hint="Tag texts and files with two commands."
            )
        for path in self.paths:
            if str(path) != STDIN and not os.path.lexists(path):
                hint = "To tag a text, give it with --text, as: crossner predict --text 'Anna met Peter.'"
                raise CrossNERError(f"There is no file {path}.", hint=suggest_path(path) + hint)
        for path in self.files:
            if str(path) != STDIN and (path.is_file() or not os.access(path, os.R_OK)):
                repairs = Repairs(skips_bad_lines=True)
                next(self._read_files([path], repairs, lambda _: []), None)
                self.notes.extend(repairs.notes)

    @cached_property
    def files(self) -> list[Path]:
        """The files, those of folders sorted, without hidden ones; those with other endings are noted."""
        found: list[Path] = []
        for path in self.paths:
            if str(path) == STDIN or not path.is_dir():
                found.append(path)
                continue
            below = [each for each in sorted(walk_files(path)) if not each.name.startswith(".")]
            chosen = [each for each in below if each.suffix.lower() in FOLDER_ENDINGS]
            if left := [each.name for each in below if each.suffix.lower() not in FOLDER_ENDINGS]:
                named = figures.join_first(left)
                self.notes.append(f"Not read of {path}, because of their endings: {len(left)} files ({named}).")
            if not chosen:
                hint = f"Files are read that end in {' '.join(FOLDER_ENDINGS)}. To read another one as text, name it."
                raise CrossNERError(f"The folder {path} holds no files to tag.", hint=hint)
            found += chosen
        return found

    def format_of(self, path: Path) -> str:
        """Return the format that an input is read as."""
        return self.format or format_of_file(path)

    def shared_schema(self) -> Any:
        """Read the schema of the rows if all inputs are Parquet with the same columns; return None if not."""
        # Rows of a folder's files get a further column, the name of the file.
        if not self.files or {*self.files} != {*self.paths} or {*map(self.format_of, self.files)} != {"parquet"}:
            return None
        first, *others = (read_schema(path, self.column) for path in self.files)
        return first.remove_metadata() if all(schema.equals(first) for schema in others) else None

    def read_chunks(self, repairs: Repairs, *, done: int = 0) -> Iterator[Chunk]:
        """Read all inputs, chunk by chunk.

        Args:
            repairs: Counts repairs, and decides whether bad lines are skipped.
            done: Number of documents that are tagged already. They are read again, so that repairs in them are counted,
                but they are not segmented.
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
        if self.texts:
            lines = [text.encode("utf-8", "surrogateescape") for given in self.texts for text in given.split("\n")]
            yield from read_documents(lines, "--text", repairs, input_format="text", cut=cut)
        else:
            yield from self._read_files(self.files or [Path(STDIN)], repairs, cut)

    def _read_files(self, paths: Iterable[Path], repairs: Repairs, cut: Cut) -> Iterator[Document]:
        """Read files and stdin; a document of a folder's file gets its name, under ``file``."""
        given: dict[str, Any] = {"input_format": self.format, "column": self.column, "cut": cut}
        try:
            for path in paths:
                if str(path) == STDIN:
                    yield from read_documents(self._stdin(), "stdin", repairs, **given)
                    continue
                named = {} if path in self.paths else {"file": str(path)}
                for each in read_file(path, repairs, **given):
                    yield replace(each, given={**named, **each.given}) if named else each
        except BadLine as problem:
            hint = f"{problem.hint} Or leave such lines out: --skip-bad-lines."
            raise CrossNERError(problem.problem, hint=hint) from None

    def _stdin(self) -> BinaryIO:
        if self.stdin is None and sys.stdin is None:  # closed by the parent process
            raise CrossNERError("There is no stdin to read from.", hint="Name the files to tag.")
        return self.stdin or sys.stdin.buffer


def group_documents(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Group whole documents into chunks of limited size; those before a problem come before it."""
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
