"""Output that appears whole or not at all, and that a command which was killed goes on with where it was.

``FILE`` is drafted as ``.FILE.draft`` beside it, or where it is made of parts as the folder ``.FILE.parts``, with
``.FILE.progress.json``: what made it, how many documents are in it and how many bytes. What a kill left behind that
point is cut off, so that the result has the bytes of a command that was never interrupted. The draft is locked while a
process is at work on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from crossner_cli.errors import CrossNERError
from crossner_cli.prediction.formats import BRAT_CONFIGURATION, OutputFormat, Piece, is_folder
from crossner_cli.run.directory import describe_differences
from crossner_cli.run.storage import flush_folder, write_json

SECONDS_BETWEEN_RECORDS = 5.0
PART = re.compile(r"\d{9,}\.(txt|ann|spacy)")  # as OutputFormat names parts of a folder


class Output(Protocol):
    """Where tagged documents go.

    ``record`` is what was written before: ``documents``, and whatever was given to ``write``. With ``is_closed`` nobody
    reads any more, and nothing is written. ``notes`` says what was found of an interrupted command.
    """

    is_closed: bool
    record: dict[str, Any]
    notes: list[str]

    def write(self, pieces: Sequence[Piece], counts: dict[str, Any]) -> None:
        """Write what is next; ``counts`` says how far the command is with it."""

    def finish(self) -> None:
        """All is written."""

    def close(self) -> None:
        """Stop, finished or not."""


class Stream:
    """An output that is written as it goes: stdout, a pipe, or on a process that writes nothing, None.

    Args:
        stream: Where to write.
        output_format: How the output begins and ends.
        is_own: Whether the stream was opened for this, and is to be closed.
    """

    def __init__(self, stream: BinaryIO | None, output_format: OutputFormat, *, is_own: bool = False) -> None:
        self.stream, self.format, self._is_own = stream, output_format, is_own
        self.is_closed = False
        self.record: dict[str, Any] = {}
        self.notes: list[str] = []
        self._is_begun = False

    def write(self, pieces: Sequence[Piece], counts: dict[str, Any]) -> None:
        """Write and flush; whoever read the output may be gone."""
        self._write([*([] if self._is_begun else self.format.begin()), *pieces])
        self._is_begun = True

    def finish(self) -> None:
        """Write what stands behind all documents."""
        self.write(self.format.end(), {})

    def close(self) -> None:
        """Close the stream, or leave it to whom it belongs."""
        if self._is_own and self.stream is not None:
            with contextlib.suppress(BrokenPipeError):
                self.stream.close()

    def _write(self, pieces: Sequence[Piece]) -> None:
        if self.stream is None or self.is_closed or not pieces:
            return
        try:
            self._flush(b"".join(data for _, data in pieces))
        except BrokenPipeError:
            self.is_closed = True
            _point_to_nowhere(self.stream)

    def _flush(self, data: bytes) -> None:
        assert self.stream is not None
        self.stream.write(data)
        self.stream.flush()


class Draft:
    """An output that is renamed when complete.

    Args:
        path: Its name then.
        output_format: How it begins and ends, and whether it is drafted as a folder.
        made_by: What the bytes depend on; None where an interrupted command cannot be continued, as of stdin.
        is_forced: Whether what is there under the name is to be replaced.

    Raises:
        CrossNERError: Another process is at work on it.
    """

    def __init__(
        self, path: Path, output_format: OutputFormat, made_by: dict[str, Any] | None, *, is_forced: bool
    ) -> None:
        self.path, self.format, self.made_by, self.is_forced = path, output_format, made_by, is_forced
        self._has_parts = output_format.has_parts
        names = (f".{path.name}.parts", f".{path.name}.draft")
        self.draft, self._other = map(path.with_name, names if self._has_parts else names[::-1])
        self.progress = path.with_name(f".{path.name}.progress.json")
        self.is_closed = self.is_finished = False
        self.notes: list[str] = []
        self._written_at = time.monotonic()
        self._lock = self._take_lock()
        try:
            self.record = self._read_record()
            self._restore()
        except BaseException:
            os.close(self._lock)
            raise

    def write(self, pieces: Sequence[Piece], counts: dict[str, Any]) -> None:
        """Add to the draft; the record of it follows every few seconds."""
        self._add(pieces)
        self.record["bytes"] += sum(len(data) for name, data in pieces if not self._has_parts or _number(name))
        self.record.update(counts)
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN_RECORDS:
            self._write_record()

    def _add(self, pieces: Sequence[Piece]) -> None:
        if self._has_parts:
            for name, data in pieces:
                (self.draft / name).write_bytes(data)
        else:
            with self.draft.open("ab") as stream:
                stream.writelines(data for _, data in pieces)

    def finish(self) -> None:
        """Write the end, flush, rename."""
        self._add(self.format.end())  # not counted: what continues an interrupted end cuts it off and writes its own
        whole = self.draft
        if self._has_parts and not is_folder(self.format.name, self.path):
            whole = self.draft / "whole"
            self.format.join(self._parts(), whole)
        _flush(whole)
        # What the record tells of is there no longer once the draft has another name.
        self.progress.unlink(missing_ok=True)
        replaced = self.path.with_name(f".{self.path.name}.replaced")
        if self.path.is_dir():
            _remove(replaced)  # a kill may have left half of it
            self.path.replace(replaced)
        whole.replace(self.path)
        flush_folder(self.path.parent)
        self.is_finished = True
        _remove(replaced)

    def close(self) -> None:
        """Keep what can be continued, remove what cannot."""
        try:
            if self.is_finished:
                if self._has_parts:
                    _remove(self.draft)
            elif self.made_by is not None and self.record["documents"]:
                self._write_record()
            else:
                _remove(self.progress)
                _remove(self.draft)
        finally:
            os.close(self._lock)

    def _take_lock(self) -> int:
        import fcntl

        if self._has_parts:
            self.draft.mkdir(exist_ok=True)
        descriptor = os.open(self.draft, os.O_RDONLY if self._has_parts else os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise CrossNERError(f"Another process is writing {self.path}.",
                                hint="Wait for it, or name another --output.") from None  # fmt: skip
        return descriptor

    def _read_record(self) -> dict[str, Any]:
        """What an interrupted command of this kind has written, else nothing."""
        found: Any = None
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self.progress.read_text(encoding="utf-8"))
        nothing = {"made_by": self.made_by, "forced": self.is_forced, "documents": 0, "bytes": 0}
        if not isinstance(found, dict) or not isinstance(found.get("made_by"), dict) or not found.get("documents"):
            return nothing
        changed = ["stdin cannot be read again"]
        if self.made_by is not None:
            changed = describe_differences(found["made_by"], self.made_by)
            changed += ["--force"] if self.is_forced and not found.get("forced") else []
        if not changed and not self._is_whole(found):
            changed = ["the draft is not what it was"]
        if changed:
            self.notes.append(
                f"{self.path}: what an interrupted command had written is not continued ({'; '.join(changed)})."
            )
            return nothing
        self.notes.append(f"{self.path}: continued behind the {found['documents']:,} documents tagged before.")
        return found

    def _is_whole(self, record: dict[str, Any]) -> bool:
        """Whether the draft holds what a record tells of, by its size."""
        if not self._has_parts:
            return self.draft.stat().st_size >= int(record["bytes"])
        known = [path for path in self._parts() if _number(path.name) <= record["documents"]]
        return sum(path.stat().st_size for path in known) == int(record["bytes"])

    def _restore(self) -> None:
        """Cut the draft off behind what the record tells of; write the beginning of one that begins."""
        if not self._has_parts:
            os.truncate(self.draft, self.record["bytes"])
        for path in self.draft.iterdir() if self._has_parts else ():
            if not 0 < _number(path.name) <= self.record["documents"]:
                path.unlink()
        if not self.record["documents"]:
            _remove(self.progress)
            _remove(self._other)
        if not self.record["documents"] or self._has_parts:
            self.write(self.format.begin(), {})

    def _parts(self) -> list[Path]:
        return sorted(path for path in self.draft.iterdir() if _number(path.name))

    def _write_record(self) -> None:
        if self.made_by is None:
            return
        if not self._has_parts:
            _flush(self.draft)
        write_json(self.progress, self.record)
        self._written_at = time.monotonic()


def _number(name: str) -> int:
    """Number of the first document of a part; 0 of another file."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdecimal() else 0


def is_own_folder(folder: Path) -> bool:
    """Whether a folder holds nothing but what is written here, so that it may be replaced."""
    names = {path.name for path in folder.iterdir()}
    has_brat = BRAT_CONFIGURATION in names
    endings = {"spacy", "txt", "ann"} if has_brat else {"spacy"}
    parts = [PART.fullmatch(name) for name in names - {BRAT_CONFIGURATION}]
    is_all_ours = all(part is not None and part[1] in endings for part in parts)
    return is_all_ours and all((folder / name).is_file() for name in names)


def _remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Write a file through to the disk; of a folder, which may hold millions, everything there is to write."""
    if path.is_dir():
        os.sync()
        return
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _point_to_nowhere(stream: BinaryIO) -> None:
    """Let what is still buffered go nowhere, or Python would try to write it again when it ends."""
    with contextlib.suppress(OSError, ValueError):  # not every stream has a descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
