"""Digests, JSON records, tables of numbers, and files that are there whole or not at all, whenever the power goes."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from crossner_cli.errors import CrossNERError

FORMULA_SIGNS = ("=", "+", "-", "@")


def digest_file(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_folder(folder: Path) -> str:
    """SHA-256 over the names and digests of every file below a folder."""
    return digest_files(folder, (path for path in files_below(folder) if path.is_file()))


def digest_files(folder: Path, files: Iterable[Path]) -> str:
    """SHA-256 over the names and digests of files below a folder, in whatever order they come."""
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(os.fsencode(f"{path.relative_to(folder).as_posix()} {digest_file(path)}\n"))
    return total.hexdigest()


def files_below(folder: Path) -> Iterator[Path]:
    """Every file below a folder, in folders that links lead to as well, each folder once; a link to nothing is one too.

    Raises:
        OSError: A folder cannot be read.
    """
    seen: set[tuple[int, int]] = set()

    def refuse(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        status = Path(place).stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders.sort()
        yield from (Path(place) / name for name in files)


def digest_path(path: Path) -> str:
    """SHA-256 of a file or a folder."""
    return digest_folder(path) if path.is_dir() else digest_file(path)


def save_array(path: Path, array: Any) -> None:
    """Write an array of NumPy as ``numpy.save`` does, which would not say why a full disk took no more.

    Raises:
        OSError: It cannot be written.
    """
    import numpy as np  # most that is stored is none

    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
        stream.write(np.ascontiguousarray(array).tobytes())


def check_digest(path: Path, wanted: str | None, *, hint: str) -> None:
    """Refuse a file that is another one than its manifest tells of; None where the manifest does not tell.

    Raises:
        CrossNERError: It is.
    """
    if wanted is not None and digest_file(path) != wanted:
        raise CrossNERError(
            f"{path} is not the file that its manifest tells of: it was changed, cut or made again.", hint=hint
        )


def to_json(record: Any, **form: Any) -> str:
    """A record as JSON; numbers that JSON has not got, NaN and the infinities, are null."""
    try:
        return json.dumps(record, allow_nan=False, **form)
    except ValueError:
        return json.dumps(_finite(record), allow_nan=False, **form)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, record: Any) -> None:
    """Write a JSON file that is either the old one or the new one, whenever the power goes."""
    text = to_json(record, indent=1, ensure_ascii=False) + "\n"
    # File names may hold bytes that are not UTF-8; written with a backslash they are what JSON calls them.
    write_atomically(path, text.encode("utf-8", "backslashreplace").decode())


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows below the names of their columns, to be read by programs and by spreadsheets.

    Text that a spreadsheet would run as a formula, since it begins with ``=``, ``+``, ``-`` or ``@``, gets an
    apostrophe before it, which spreadsheets take for "this is text": types and names come from data.
    """
    import pandas

    cells = [[_as_text(cell) for cell in row] for row in rows]
    table = pandas.DataFrame(cells, columns=list(columns), dtype=object)  # as they are: no whole number becomes 1.0
    table.to_csv(path, index=False, lineterminator="\n", encoding="utf-8", errors="backslashreplace")


def _as_text(cell: Any) -> Any:
    is_formula = isinstance(cell, str) and cell.startswith(FORMULA_SIGNS) and cell not in FORMULA_SIGNS
    return f"'{cell}" if is_formula else cell


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON object that ``write_json`` wrote.

    Raises:
        CrossNERError: It cannot be read, or is no JSON object.
    """
    hint = "Move its folder away, or make it again with --force."
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CrossNERError(f"{path} cannot be read: {error}.", hint=hint) from None
    if not isinstance(record, dict):
        raise CrossNERError(f"{path} is broken: it holds no JSON object.", hint=hint)
    return record


def write_atomically(path: Path, text: str) -> None:
    """Write a text file under another name, flush it to disk, rename."""
    draft = path.with_name(f".{path.name}.draft")  # always the same, so that what a crash leaves is overwritten
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Flush a folder's own entries, so that a rename survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Flush every file and folder below ``folder``, and itself."""
    for path in folder.rglob("*"):
        if path.is_dir():
            flush_folder(path)
        else:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    flush_folder(folder)
