"""Files of raw text: lines of text, JSONL and Parquet, plain or compressed."""

from __future__ import annotations

import os
import shlex
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from crossner_cli import figures
from crossner_cli.corpus.mediawiki_dump import is_dump
from crossner_cli.data.files import COMPRESSED_ENDINGS, Repairs, has_many_zero_bytes, is_writable, open_lines
from crossner_cli.data.formats.records import parse_lines
from crossner_cli.data.unlabelled import FORMATS_HINT, HEAD, format_of
from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import MANIFEST, read_manifest
from crossner_cli.run.environment import import_optional
from crossner_cli.run.storage import digest_file, digest_files, walk_files

RawFormat = Literal["text", "jsonl", "parquet", "xml"]
FORMATS: dict[str, RawFormat] = {
    ".txt": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
# The .json files of a folder mostly describe a data set, and a dump is read only if it is named.
FOLDER_ENDINGS = (".txt", ".jsonl", ".ndjson", ".parquet")
PARQUET_ROWS, PARQUET_BUFFER = 1000, 1 << 20
COLUMN_HINT = "Name the column that holds the text: --text-column NAME."


@dataclass(frozen=True)
class CorpusFiles:
    """The files of a corpus, each once, in the order given, those of a folder sorted; and what is not read of folders.

    Ignored are files of unknown formats, hidden ones and links to nothing, and the stages of run directories.
    """

    files: list[Path]
    ignored: list[Path] = field(default_factory=list)
    stages: list[Path] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return a sentence for each kind of file that is ignored."""
        notes = []
        if self.ignored:
            names = figures.join_first([path.name for path in self.ignored])
            notes.append(
                f"{len(self.ignored)} files in folders of the corpus are ignored because they are hidden, links to"
                f" nothing, or have none of the endings {' '.join(FOLDER_ENDINGS)}: {names}. To read one, name it."
            )
        if self.stages:
            names = figures.join_first([str(stage) for stage in self.stages])
            notes.append(f"{len(self.stages)} stages of run directories in folders of the corpus are ignored: {names}.")
        return notes


def find_corpus_files(paths: Sequence[Path]) -> CorpusFiles:
    """Find the files of a corpus: files of any name, and those in folders whose name has an ending of raw text.

    Raises:
        CrossNERError: A folder holds none.
    """
    named: list[Path] = []
    ignored: list[Path] = []
    stages: list[Path] = []
    for path in paths:
        status = find_status(path)
        if status is None or not stat.S_ISDIR(status.st_mode):
            named.append(path)
            continue
        below = sorted(walk_files(path))
        made = set(filter(_is_stage, {file.parent for file in below if file.name == MANIFEST} - {path}))
        stages += sorted(made)
        candidates = [file for file in below if made.isdisjoint(file.parents)]
        chosen = [file for file in candidates if _has_corpus_name(file) and _is_visible(file, path)]
        if not chosen:
            endings = ", ".join(f"*{ending}" for ending in FOLDER_ENDINGS)
            raise CrossNERError(
                f"{path} holds no files of raw text ({endings}; plain, .gz, .bz2 or .zst).",
                hint="Name the files of the corpus themselves.",
            )
        named += chosen
        ignored += [file for file in candidates if _has_corpus_name(file) != _is_visible(file, path)]
    return CorpusFiles(remove_repeated(named), ignored, stages)


def digest_corpus(path: Path) -> str:
    """Return the SHA-256 of a file of raw text, or of the names and digests of the files read in a folder.

    Raises:
        CrossNERError: The folder holds none.
        OSError: One cannot be read.
    """
    return digest_files(path, find_corpus_files([path]).files) if path.is_dir() else digest_file(path)


def remove_repeated(paths: Sequence[Path]) -> list[Path]:
    """Return each file by its first name; a file without a status is identified by its path."""
    unique: dict[Any, Path] = {}
    for path in paths:
        status = find_status(path)
        unique.setdefault(path if status is None else (status.st_dev, status.st_ino), path)
    return list(unique.values())


def read_texts(path: Path, *, column: str = "text", counts: Counter[str]) -> Iterator[str]:
    """Read the texts of a file in constant memory, one at a time.

    The name shows the format, the content the compression: ``.jsonl``, ``.ndjson`` and ``.json`` hold one object per
    line, ``.parquet`` a table, anything else lines of text.

    Args:
        path: The file.
        column: The column of JSONL and Parquet that holds the text, which may have several lines.
        counts: Gets the number of records whose text is null, as ``null_texts``.

    Raises:
        CrossNERError: The file is cut off, broken, not text, or has no such column; the message names the place.
    """
    form = raw_format(path)
    if form == "xml":
        raise CrossNERError(
            f"{path} is XML, not text.",
            hint="A MediaWiki dump is read as raw text of the target: --corpus DUMP --wikipedia-category NAME.",
        )
    if form == "parquet":
        return _parquet_texts(path, column, counts)
    return _jsonl_texts(path, column, counts) if form == "jsonl" else (line for _, line in open_lines(path))


def refuse_labelled(path: Path) -> None:
    """Refuse labelled data, tables, and JSONL named as text: tags and field names would be read as if they were text.

    Raises:
        CrossNERError: The first lines look so, or cannot be read.
    """
    status = find_status(path)
    if status is None or not stat.S_ISREG(status.st_mode):  # a pipe can be read only once
        return
    if raw_format(path) != "text":
        return
    if _plain_ending(path) == ".csv":
        raise CrossNERError(f"{path} is CSV, not raw text.", hint=FORMATS_HINT)
    head = [line for _, line in islice(open_lines(path), HEAD)]
    if has_many_zero_bytes("".join(head)):
        raise CrossNERError(
            f"{path} holds zero bytes, so it is not text in UTF-8; it may be UTF-16 or an archive.",
            hint=f"For UTF-16: iconv -f UTF-16LE -t UTF-8 {shlex.quote(str(path))} > TEXT.txt",
        )
    looks_like = format_of(head)
    if looks_like != "text":
        first = next(line for line in head if line.strip())
        raise CrossNERError(
            f"{path} was given as raw text, but its first lines look like {looks_like}: {first.strip()[:60]!r}.",
            hint="Give text files, one sentence, paragraph or document per line; or JSONL in a file named *.jsonl.",
        )


def raw_format(path: Path) -> RawFormat:
    """Return the format of a file's name, without endings of compression; text if it has none."""
    return "xml" if is_dump(path) else FORMATS.get(_plain_ending(path), "text")


def find_status(path: Path) -> os.stat_result | None:
    """Return the status of a file; None if opening it will explain the problem."""
    try:
        return path.stat()
    except OSError:
        return None


def _plain_ending(path: Path) -> str:
    """Return the last ending, in lower case, that is not one of a compression."""
    plain = Path(path.name.lower())
    return (plain.with_suffix("") if plain.suffix in COMPRESSED_ENDINGS else plain).suffix


def _has_corpus_name(path: Path) -> bool:
    ending = _plain_ending(path)
    return ending in FOLDER_ENDINGS or (not ending and path.suffix.lower() in COMPRESSED_ENDINGS)


def _is_visible(path: Path, folder: Path) -> bool:
    """Return whether a path below a folder is a plain file that is not hidden, as the copies of editors are."""
    status, is_hidden = find_status(path), any(part.startswith(".") for part in path.relative_to(folder).parts)
    return status is not None and stat.S_ISREG(status.st_mode) and not is_hidden


def _is_stage(folder: Path) -> bool:
    """Return whether a folder with a file named like a manifest is a finished stage."""
    try:
        return bool(read_manifest(folder))
    except CrossNERError:
        return False


def _jsonl_texts(path: Path, column: str, counts: Counter[str]) -> Iterator[str]:
    hint, repairs = 'Write one object per line: {"text": "Anna met Peter."}.', Repairs()
    for number, line in open_lines(path):
        if not line.strip():
            yield ""
            continue
        (record,) = parse_lines([(number, line)], str(path), repairs, hint=hint)
        if not isinstance(record.value, dict):
            raise CrossNERError(f"{record.place}: found {line[:60]!r}, which is not a JSON object.", hint=hint)
        _check_column(record.value, column, record.place)
        yield from _check_text(record.value[column], f"{record.place}: {column}", counts)


def _parquet_texts(path: Path, column: str, counts: Counter[str]) -> Iterator[str]:
    """Read the texts of a table, page by page of its column."""
    parquet = import_optional("pyarrow.parquet", "Parquet files are read with pyarrow.parquet", extra="corpora")
    arrow = import_optional("pyarrow", "Parquet files are read with pyarrow", extra="corpora")
    number = 0
    try:
        with parquet.ParquetFile(path, buffer_size=PARQUET_BUFFER, pre_buffer=False) as table:
            _check_column(table.schema_arrow.names, column, str(path))
            for batch in table.iter_batches(PARQUET_ROWS, columns=[column], use_threads=False):
                for value in batch.column(0):
                    number += 1
                    yield from _check_text(value.as_py(), f"{path}, row {number}: {column}", counts)
    except UnicodeDecodeError:
        place = f"{path}, row {number}: {column}" if number else f"{path}: the name of a column"
        raise CrossNERError(f"{place} is not UTF-8.", hint="Write the table again with text in UTF-8.") from None
    except (arrow.ArrowException, OSError) as problem:
        raise CrossNERError(
            f"{path} cannot be read as Parquet, after row {number}: {str(problem).splitlines()[0][:200]}.",
            hint="Fetch it again; compare its size or checksum. Parquet is already compressed: unpack it.",
        ) from None


def _check_column(columns: Iterable[str], column: str, place: str) -> None:
    if column not in columns:
        names = figures.join_first([repr(str(name)[:40]) for name in columns], 20) or "none"
        raise CrossNERError(f"{place}: there is no column {column!r}, only {names}.", hint=COLUMN_HINT)


def _check_text(value: Any, place: str, counts: Counter[str]) -> Iterator[str]:
    if value is None:
        counts["null_texts"] += 1
        return
    if not isinstance(value, str):
        problem = f"{place} holds a value of type {type(value).__name__}, expected a string."
        raise CrossNERError(problem, hint=COLUMN_HINT)
    if not is_writable(value):
        raise CrossNERError(
            f"{place} holds half a surrogate pair, which is not a character.",
            hint="Write whole characters, as \\ud83d\\ude00 or the character itself.",
        )
    yield value
