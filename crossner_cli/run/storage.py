"""Digests, JSON records, tables and arrays, and files and folders that are written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import shlex
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_cli.errors import CrossNERError

if TYPE_CHECKING:
    from filelock import FileLock

# An absolute path up to its last name, where it begins a word; not of a web address or a relative path.
ABSOLUTE = re.compile(r"(?<![\w/\\.:~<])(?:/(?=[^\s/])(?:[^/\n,;:()]+/)*|[A-Za-z]:\\(?:[^\\\n,;:()]+\\)*)")
COPY_HINT = "Copy the files themselves into the folder."


def digest_file(path: Path) -> str:
    """Compute the SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_folder(folder: Path) -> str:
    """Compute the SHA-256 over the names and digests of every file below a folder."""
    return digest_files(folder, (path for path in walk_files(folder) if path.is_file()))


def digest_files(folder: Path, files: Iterable[Path]) -> str:
    """Compute the SHA-256 over the names and digests of files below a folder, given in any order."""
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(os.fsencode(f"{path.relative_to(folder).as_posix()} {digest_file(path)}\n"))
    return total.hexdigest()


def digest_path(path: Path) -> str:
    """Compute the SHA-256 of a file or a folder."""
    return digest_folder(path) if path.is_dir() else digest_file(path)


def check_digest(path: Path, wanted: str | None, *, hint: str) -> None:
    """Refuse a file that differs from the one in its manifest; ``wanted`` is None if the manifest does not list it."""
    if wanted is not None and not path.is_file():
        raise CrossNERError(f"{path}, which its manifest lists, is missing.", hint=hint)
    if wanted is not None and digest_file(path) != wanted:
        raise CrossNERError(
            f"{path} is not the file listed in its manifest: it was changed, cut or made again.", hint=hint
        )


def walk_files(folder: Path) -> Iterator[Path]:
    """Find every file below a folder, also through links, each folder once; a broken link counts as a file.

    Raises:
        OSError: A folder cannot be read.
    """
    seen: set[Path] = set()

    def refuse(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        if (real := Path(place).resolve()) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        yield from (Path(place) / name for name in files)


def to_json(record: Any, **form: Any) -> str:
    """Write a record as JSON; NaN and the infinities, which JSON lacks, become null."""
    try:
        return json.dumps(record, allow_nan=False, **form)
    except ValueError:
        return json.dumps(_replace_infinite(record), allow_nan=False, **form)


def _replace_infinite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_infinite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_infinite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path, *, hint: str) -> Any:
    """Read a JSON file of a folder that may come from anywhere.

    Raises:
        CrossNERError: It is missing, not JSON in UTF-8, or nested too deeply.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise CrossNERError(f"{path} cannot be read: it is nested too deeply.", hint=hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CrossNERError(f"{path} cannot be read: {reason}.", hint=hint) from None


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON object that ``write_json`` wrote."""
    hint = "Move its folder away, or make it again with --force."
    record = read_json(path, hint=hint)
    if not isinstance(record, dict):
        raise CrossNERError(f"{path} is broken: it does not hold a JSON object.", hint=hint)
    return record


def check_model_folder(folder: Path) -> None:
    """Refuse links out of a model's folder, except those of the hub's cache, and what is not a file, as a pipe."""
    place = folder.resolve()
    blobs = place.parent.parent / "blobs" if place.parent.name == "snapshots" else place
    for where, folders, files in os.walk(folder):
        for path in (Path(where) / name for name in (*folders, *files)):
            target = path.resolve()
            if path.is_symlink() and place not in target.parents and blobs not in target.parents:
                raise CrossNERError(f"{path} is a link out of its folder, to {target}.", hint=COPY_HINT)
            if not path.is_dir() and not path.is_file():
                raise CrossNERError(f"{path} is not a file.", hint="Remove it from the folder.")


def write_json(path: Path, record: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write a JSON file that is either the old one or the new one, even after a power cut."""
    text = to_json(record, indent=1, ensure_ascii=False) + "\n"
    # File names may hold bytes that are not UTF-8; written with a backslash they are valid JSON.
    write_atomically(path, text.encode("utf-8", "backslashreplace").decode())


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows below the names of their columns, for programs and spreadsheets."""
    import pandas

    table = pandas.DataFrame([*rows], columns=list(columns), dtype=object)  # whole numbers stay whole numbers
    table.to_csv(path, index=False, lineterminator="\n", encoding="utf-8", errors="backslashreplace")


def save_array(path: Path, array: Any) -> None:
    """Write an array as ``numpy.save`` does, which does not report a full disk."""
    import numpy as np

    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
        stream.write(np.ascontiguousarray(array).tobytes())


def write_atomically(path: Path, text: str) -> None:
    """Write a text file under another name, flush it to disk, rename."""
    draft = path.with_name(f".{path.name}.draft")  # the next write replaces that of a crash
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
    """Flush a file, or a folder's entries, so that a rename survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Flush every file and folder below ``folder``, and itself."""
    for path in (*folder.rglob("*"), folder):
        flush_folder(path)


def name_is_taken(path: Path) -> bool:
    """Return whether something has this name, even a broken link."""
    return path.exists() or path.is_symlink()


def remove_folder(folder: Path) -> None:
    """Remove a folder; if it is a link, only the link."""
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def check_output_folder(folder: Path, record: str, *, force: bool) -> None:
    """Refuse an ``--output`` folder that cannot be written in the end.

    Args:
        folder: The folder to make.
        record: The file that every folder of this kind holds.
        force: Replace a folder of this kind.
    """
    if not folder.parent.is_dir():
        raise CrossNERError(
            f"There is no folder {folder.parent} to write {folder.name} into.",
            hint=f"mkdir -p {shlex.quote(str(folder.parent))}",
        )
    is_empty = folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())
    if is_empty or not name_is_taken(folder):
        return
    if not (folder / record).is_file():
        raise CrossNERError(
            f"--output {folder} exists and was not made by this command (it has no {record}).", hint="Name another one."
        )
    if not force:
        raise CrossNERError(f"--output {folder} exists.", hint="--force replaces it; or name another --output.")


def take_lock(path: Path, place: str, *, hint: str) -> FileLock:
    """Lock the file that stands for a place, and write the name of this process into it.

    Raises:
        CrossNERError: Another process has it.
        OSError: The file cannot be written.
    """
    from filelock import FileLock, Timeout  # takes a while to import, and help does not need it

    # A soft lock, the fallback where a disk has no locks, would outlive a process that is killed.
    lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        holder = "Another process"
        with contextlib.suppress(OSError):
            holder = path.read_text(encoding="utf-8", errors="replace")[:200].strip() or holder
        raise CrossNERError(f"{holder} is at work on {place}.", hint=hint) from None
    with contextlib.suppress(OSError):
        path.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    return lock


@contextlib.contextmanager
def output_folder(folder: Path, record: str, *, force: bool) -> Iterator[Path]:
    """Give a draft folder to write into, which becomes ``folder`` at the end and is removed on an error.

    Raises:
        CrossNERError: Another process writes the folder, or it exists.
    """
    check_output_folder(folder, record, force=force)
    folder = folder.resolve()
    draft, replaced, path = (folder.with_name(f".{folder.name}.{word}") for word in ("draft", "replaced", "lock"))
    lock = take_lock(path, f"--output {folder}", hint="Wait for it, or name another --output.")
    try:
        for left in (draft, replaced):  # by a process that was killed
            remove_folder(left)
        check_output_folder(folder, record, force=force)  # another process may have made it just now
        draft.mkdir()
        yield draft
        flush_tree(draft)
        if folder.exists():
            folder.replace(replaced)
        draft.replace(folder)
        flush_folder(folder.parent)
    finally:
        for left in (draft, replaced):
            remove_folder(left)
        path.unlink(missing_ok=True)
        lock.release()


def strip_folders(value: Any) -> Any:
    """Remove the folders of every absolute path in a text, or in the texts of lists and mappings.

    So published files do not show the folders of a disk.
    """
    if isinstance(value, str):
        return ABSOLUTE.sub("", value)
    if isinstance(value, Mapping):
        return {strip_folders(key): strip_folders(each) for key, each in value.items()}
    return [strip_folders(each) for each in value] if isinstance(value, list | tuple) else value
