"""Files of raw text, in the formats in which corpora are published: text, JSONL and Parquet, plain or compressed."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from crossner_cli.corpus.mediawiki_dump import is_dump
from crossner_cli.data.documents import FORMATS_HINT, HEAD, format_of
from crossner_cli.data.files import COMPRESSED_ENDINGS, open_decompressed, open_lines
from crossner_cli.data.jsonl import is_writable
from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import MANIFEST, read_manifest
from crossner_cli.run.environment import import_optional
from crossner_cli.run.storage import digest_file, digest_files, walk_files

RawFormat = Literal["text", "jsonl", "parquet", "xml", "tar"]
FORMATS: dict[str, RawFormat] = {
    ".txt": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet",
    ".tar": "tar", ".tgz": "tar",
}  # fmt: skip
# A folder's .json files are mostly descriptions of a data set, and a dump is named to be read with its category.
FOLDER_ENDINGS = (".txt", ".jsonl", ".ndjson", ".parquet")
PARQUET_ROWS, PARQUET_BUFFER = 1000, 1 << 20
COLUMN_HINT = "Name the column that holds the text: --text-column NAME."


class CorpusFiles(NamedTuple):
    """The files of a corpus.

    Args:
        files: Each once: in the order given, those of a folder sorted.
        named: How many were named, some perhaps more than once.
        passed_over: Files in folders whose names tell no format of raw text, and of those that do the hidden ones and
            the links to nothing.
        stages: Stages of run directories that lie in a folder, and of which nothing is read.
    """

    files: list[Path]
    named: int
    passed_over: list[Path]
    stages: list[Path]

    def notes(self) -> list[str]:
        """What a person may not expect of them."""
        notes = []
        if self.named > len(self.files):
            notes.append(f"{self.named - len(self.files)} corpus files were named more than once and are read once.")
        if self.passed_over:
            names = _first_of([path.name for path in self.passed_over], 5)
            notes.append(
                f"{len(self.passed_over)} files in folders of the corpus are not read, since they are hidden, links"
                f" to nothing, or their names end in none of {' '.join(FOLDER_ENDINGS)}, plain or compressed: {names}."
                " Named themselves, they are."
            )
        if self.stages:
            names = _first_of([str(stage) for stage in self.stages], 5)
            notes.append(
                f"{len(self.stages)} stages of run directories in folders of the corpus are not read: {names}. Named"
                " itself, one is."
            )
        return notes


def corpus_files(paths: Sequence[Path]) -> CorpusFiles:
    """Find the files of a corpus.

    Args:
        paths: Files, of any name, and folders, of which those below count whose name tells a format of raw text.

    Raises:
        CrossNERError: A folder holds none.
    """
    named: list[Path] = []
    passed_over: list[Path] = []
    stages: list[Path] = []
    for path in paths:
        status = status_of(path)
        if status is None or not stat.S_ISDIR(status.st_mode):
            named.append(path)
            continue
        below = sorted(walk_files(path))
        made = {file.parent for file in below if file.name == MANIFEST} - {path}
        made = set(filter(_is_stage, made))
        stages += sorted(made)
        is_read = {file: _is_read(file, path) for file in below if made.isdisjoint(file.parents)}
        chosen = [file for file in is_read if _is_corpus_name(file.name) and is_read[file]]
        if not chosen:
            endings = ", ".join(f"*{ending}" for ending in FOLDER_ENDINGS[1:])
            raise CrossNERError(
                f"{path} holds no *.txt file, and none of {endings}, plain or compressed as .gz, .bz2 or .zst"
                + (", but in stages of a run directory." if made else "."),
                hint="Name the files of the corpus themselves.",
            )
        named += chosen
        passed_over += [file for file in is_read if _is_corpus_name(file.name) and not is_read[file]]
        passed_over += [file for file in is_read if not _is_corpus_name(file.name) and is_read[file]]
    return CorpusFiles(each_once(named), len(named), passed_over, stages)


def digest_corpus(path: Path) -> str:
    """SHA-256 of a file of raw text, or over the names and digests of those that are read of a folder.

    Raises:
        CrossNERError: The folder holds none.
        OSError: One cannot be read.
    """
    return digest_files(path, corpus_files([path]).files) if path.is_dir() else digest_file(path)


def each_once(paths: Sequence[Path]) -> list[Path]:
    """Each file by the first of its names; one that the system knows nothing of is told apart by its path."""
    unique: dict[Any, Path] = {}
    for path in paths:
        status = status_of(path)
        unique.setdefault(path if status is None else (status.st_dev, status.st_ino), path)
    return list(unique.values())


def read_texts(path: Path, *, column: str = "text", counts: Counter[str]) -> Iterator[str]:
    """Read the texts of a file in constant memory, one at a time.

    The name tells the format, the content the compression: ``.jsonl``, ``.ndjson`` and ``.json`` hold an object a line,
    ``.parquet`` a table, anything else lines of text.

    Args:
        path: The file.
        column: Where JSONL and Parquet have the text.
        counts: Gets the number of records whose text is null, as ``null_texts``.

    Returns:
        A line of text, or the text of a record, which may have several lines.

    Raises:
        CrossNERError: The file is cut off, broken, no text, or has no such column; the line or record is told.
    """
    form = raw_format(path)
    if form == "xml":
        raise CrossNERError(
            f"{path} is XML, and text is expected.",
            hint="A MediaWiki dump is read as raw text of the target: --corpus DUMP --wikipedia-category NAME.",
        )
    if form == "tar":
        raise CrossNERError(f"{path} is an archive of files.",
                            hint=f"Unpack it, and name the folder: tar -xf {shlex.quote(str(path))}")  # fmt: skip
    if form == "parquet":
        return _parquet_texts(path, column, counts)
    return _jsonl_texts(path, column, counts) if form == "jsonl" else (line for _, line in open_lines(path))


def refuse_labelled(path: Path) -> None:
    """Refuse labelled data, and JSONL that is called text: tags and field names would be adapted to as if text.

    Raises:
        CrossNERError: The first lines look so, or cannot be read.
    """
    status = status_of(path)
    if status is None or not stat.S_ISREG(status.st_mode):  # what is no plain file can be read but once
        return
    if raw_format(path) != "text":
        return
    if _plain_ending(path.name) == ".csv":
        raise CrossNERError(f"{path} is CSV, which is not read.", hint=FORMATS_HINT)
    head = [line for _, line in islice(open_lines(path), HEAD)]
    if any("\0" in line for line in head):
        raise CrossNERError(
            f"{path} is to be raw text in UTF-8, but its first lines hold zero bytes, as UTF-16 does.",
            hint=f"iconv -f UTF-16LE -t UTF-8 {shlex.quote(str(path))} > TEXT.txt",
        )
    looks_like = format_of(head)
    if looks_like != "text":
        first = next(line for line in head if line.strip())
        raise CrossNERError(
            f"{path} is to be raw text, but its first lines look like {looks_like}: {first.strip()[:60]!r}.",
            hint="Give text files, a sentence, a paragraph or a document a line."
            + (" JSONL is read if the file's name ends in .jsonl." if looks_like == "jsonl" else ""),
        )


def raw_format(path: Path) -> RawFormat:
    """The format that a file's name tells, endings of compression left aside; text where it tells none."""
    if is_dump(path):
        return "xml"
    return FORMATS.get(_plain_ending(path.name), "text")


def _plain_ending(name: str) -> str:
    """The last ending, in lower case, that does not tell a compression."""
    plain = Path(name.lower())
    return (plain.with_suffix("") if plain.suffix in COMPRESSED_ENDINGS else plain).suffix


def _is_corpus_name(name: str) -> bool:
    """Whether a file in a folder is taken for raw text: known by its ending, or called nothing but compressed."""
    ending = _plain_ending(name)
    return ending in FOLDER_ENDINGS or (not ending and Path(name.lower()).suffix in COMPRESSED_ENDINGS)


def _is_read(path: Path, folder: Path) -> bool:
    """Whether a path below a folder is a plain file that is not hidden, as copies are that editors keep."""
    status, is_hidden = status_of(path), any(part.startswith(".") for part in path.relative_to(folder).parts)
    return status is not None and stat.S_ISREG(status.st_mode) and not is_hidden


def _is_stage(folder: Path) -> bool:
    """Whether a folder with a file called like a manifest is a finished stage."""
    try:
        return bool(read_manifest(folder))
    except CrossNERError:
        return False


def status_of(path: Path) -> os.stat_result | None:
    """What the system knows of a path; None where opening it will say what is wrong."""
    try:
        return path.stat()
    except OSError:
        return None


def _jsonl_texts(path: Path, column: str, counts: Counter[str]) -> Iterator[str]:
    """The texts of objects, one a line; an empty line is an empty text."""
    for number, line in open_lines(path):
        place = f"{path}:{number}"
        if not line.strip():
            yield ""
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as problem:
            reason = problem.msg if isinstance(problem, json.JSONDecodeError) else type(problem).__name__
            raise CrossNERError(f"{place}: found {line[:60]!r}, which is no JSON ({reason}).",
                                hint='A line is one object: {"text": "Anna met Peter."}.') from None  # fmt: skip
        if not isinstance(record, dict):
            raise CrossNERError(f"{place}: found {line[:60]!r}, expected a JSON object.",
                                hint='A line is one object: {"text": "Anna met Peter."}.')  # fmt: skip
        if column not in record:
            raise CrossNERError(f"{place}: found no column {column!r}, only {_listed(record)}.", hint=COLUMN_HINT)
        yield from _text(record[column], f"{place}: {column}", counts)


def _text(value: Any, what: str, counts: Counter[str]) -> Iterator[str]:
    """The text of a record, unless it is null."""
    if value is None:
        counts["null_texts"] += 1
        return
    if not isinstance(value, str):
        raise CrossNERError(f"{what} holds a value of type {type(value).__name__}, expected a string.",
                            hint=COLUMN_HINT)  # fmt: skip
    if not is_writable(value):
        raise CrossNERError(f"{what} holds half a surrogate pair, which is no character.",
                            hint="Write whole characters, as \\ud83d\\ude00 or the character itself.")  # fmt: skip
    yield value


def _listed(names: Any) -> str:
    """Names of columns for a message."""
    return _first_of([repr(str(name)[:40]) for name in names], 20) or "none"


def _first_of(names: Sequence[str], most: int) -> str:
    """Names for a message, the first of many."""
    return ", ".join(names[:most]) + (", …" if names[most:] else "")


def _parquet_texts(path: Path, column: str, counts: Counter[str]) -> Iterator[str]:
    """The texts of a table, read by pages of its column alone."""
    parquet = import_optional("pyarrow.parquet", "Parquet files are read with pyarrow.parquet", extra="corpora")
    arrow = import_optional("pyarrow", "Parquet files are read with pyarrow", extra="corpora")
    with open_decompressed(path) as opened:  # says what is wrong with the path
        if opened.compression:
            raise CrossNERError(f"{path} is Parquet inside {opened.compression}, and Parquet is read from its end.",
                                hint="Unpack it; Parquet is compressed in itself.")  # fmt: skip
    number = 0
    try:
        with parquet.ParquetFile(path, buffer_size=PARQUET_BUFFER, pre_buffer=False) as table:
            _check_column(path, table.schema_arrow, column, arrow)
            for batch in table.iter_batches(PARQUET_ROWS, columns=[column], use_threads=False):
                for value in batch.column(0):
                    number += 1
                    yield from _text(value.as_py(), f"{path}, row {number}: {column}", counts)
    except UnicodeDecodeError:
        raise CrossNERError(f"{path}, row {number}: {column} is not UTF-8.", hint="Write the table anew.") from None
    except (arrow.ArrowException, OSError) as problem:
        said = str(problem).splitlines()[0][:200]
        raise CrossNERError(f"{path} cannot be read as Parquet, after row {number}: {said}.",
                            hint="Fetch it again; compare its size or checksum.") from None  # fmt: skip


def _check_column(path: Path, schema: Any, column: str, arrow: Any) -> None:
    """Refuse a table without the column, or with another type of values in it."""
    if column not in schema.names:
        raise CrossNERError(f"{path}: found no column {column!r}, only {_listed(schema.names)}.", hint=COLUMN_HINT)
    found = schema.field(column).type
    values = found.value_type if arrow.types.is_dictionary(found) else found
    if not any(is_it(values) for is_it in (arrow.types.is_string, arrow.types.is_large_string,
                                           arrow.types.is_string_view)):  # fmt: skip
        raise CrossNERError(f"{path}: the column {column!r} holds {found}, expected strings.", hint=COLUMN_HINT)
