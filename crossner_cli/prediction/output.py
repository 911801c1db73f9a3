"""Output that is complete or absent, and continued by the same command after a kill.

``FILE`` is first written as ``.FILE.draft``, a file or a folder of parts, beside ``.FILE.progress.json``, which records
what the output depends on, how many documents and bytes the draft holds, and their counts. What a kill left after that
point is cut off, so the result has the same bytes as that of a command that was never interrupted. Documents that wait
until all are tagged are put in order in ``.FILE.whole``. ``.FILE.lock`` is held while a process writes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import filelock

from crossner_cli.data.documents import Totals
from crossner_cli.data.formats.brat import CONFIGURATION
from crossner_cli.data.formats.known import FORMATS
from crossner_cli.data.formats.writer import Piece, Writer
from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import describe_differences
from crossner_cli.run.storage import check_output_folder, flush_folder, write_json

SECONDS_BETWEEN_RECORDS = 5.0
ENDINGS = {ending: name for name, row in FORMATS.items() if row.writes for ending in row.endings}


def choose_format(name: str, output: Path | None, *, on_terminal: bool = False) -> str:
    """Choose the format of an output: the one given, else that of the ending of its name, else JSONL.

    On a terminal, where ``output`` is None, it is text.

    Raises:
        CrossNERError: The format cannot be written to stdout, or needs a package that is not installed.
    """
    if name == "auto":
        ending = "" if output is None else output.suffix.lower()
        if ending and ending not in ENDINGS:
            hint = f"Choose one of {' '.join(ENDINGS)}, or name the format, as --format jsonl."
            raise CrossNERError(f"--output {output}: {ending} is not the ending of a format.", hint=hint)
        name = "text" if output is None and on_terminal else ENDINGS.get(ending, "jsonl")
    writer = make_writer(name)
    if output is None and writer.has_parts:
        example = "tagged" if writer.is_folder else f"tagged.{name}"
        raise CrossNERError(f"--format {name} cannot be written to stdout.", hint=f"Give --output {example}.")
    writer.check()
    return name


def make_writer(name: str, **settings: Any) -> Writer:
    """Make the writer of a format, given its settings."""
    writes = FORMATS[name].writes
    assert writes is not None, name
    return writes(name, **settings)


class Stream:
    """An output that is written as it is made: stdout or a pipe; it never continues an earlier command.

    Documents that are kept until all are tagged wait in a temporary file.

    Args:
        stream: Where to write; None on a process that writes nothing.
        is_own: True if the stream is closed in the end.
    """

    def __init__(self, stream: BinaryIO | None, writer: Writer, *, is_own: bool = False) -> None:
        self.stream, self.writer, self.is_own = stream, writer, is_own
        self.totals = Totals()
        self.notes: list[str] = []
        self._is_begun = False
        is_kept = stream is not None and writer.is_kept
        self._kept = tempfile.TemporaryFile() if is_kept else None  # noqa: SIM115 - until close

    def write(self, pieces: Sequence[Piece], totals: Totals) -> None:
        """Write and flush."""
        if self._kept is not None:
            self._kept.writelines(data for _, data in pieces)
        elif self.stream is not None:
            begin = [] if self._is_begun else self.writer.begin()
            self.stream.write(b"".join(data for _, data in [*begin, *pieces]))
            self.stream.flush()
        self._is_begun = True

    def finish(self) -> None:
        """Write what comes after all documents, and before it the documents that were kept."""
        if self._kept is not None and self.stream is not None:
            self.writer.write_kept(self._kept, self.stream)
            self.stream.flush()
        else:
            self.write(self.writer.end(), self.totals)

    def close(self) -> None:
        """Close the stream if it was opened for this output."""
        if self._kept is not None:
            self._kept.close()
        if self.is_own and self.stream is not None:
            with contextlib.suppress(BrokenPipeError):
                self.stream.close()


class Draft:
    """An output that is renamed when complete.

    ``totals`` counts the documents that the draft holds, ``notes`` describe what an interrupted command left.

    Args:
        writer: How it begins and ends, and whether the draft is a folder of parts.
        depends_on: Everything that its bytes depend on; None if it cannot be continued, as when stdin is read.

    Raises:
        CrossNERError: Another process writes it.
    """

    def __init__(self, path: Path, writer: Writer, depends_on: Mapping[str, Any] | None) -> None:
        self.path, self.writer, self.depends_on = path, writer, depends_on
        self.draft = path.with_name(f".{path.name}.draft")
        self.whole = path.with_name(f".{path.name}.whole")  # the draft put in order
        self.progress = path.with_name(f".{path.name}.progress.json")
        self.totals, self.bytes = Totals(), 0
        self.notes: list[str] = []
        self._is_finished = False
        self._written_at = time.monotonic()
        self._lock = filelock.FileLock(path.with_name(f".{path.name}.lock"), timeout=0)
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise CrossNERError(
                f"Another process is writing {path}.", hint="Wait for it, or name another --output."
            ) from None
        try:
            if self._find_interrupted():
                self._cut_off()
            else:
                self._begin()
        except BaseException:
            self._release()
            raise

    def write(self, pieces: Sequence[Piece], totals: Totals) -> None:
        """Add to the draft, and record the progress every few seconds; ``totals`` counts all documents up to here."""
        self._add(pieces)
        self.bytes += sum(len(data) for _, data in pieces)
        self.totals = totals
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN_RECORDS:
            self._record_progress()

    def finish(self) -> None:
        """Write the end, flush everything, and rename the draft."""
        self._add(self.writer.end())  # not counted: a command that continues here writes it again
        whole = self.draft
        if self.writer.has_parts and not self.writer.is_folder:
            whole = self.draft / "whole"
            self.writer.join(self._parts(), whole)
        elif self.writer.is_kept:
            whole = self.whole
            with self.draft.open("rb") as kept, whole.open("wb") as stream:
                self.writer.write_kept(kept, stream)
        _flush(whole)
        self.progress.unlink(missing_ok=True)  # the draft that it describes is about to be renamed
        replaced = self.path.with_name(f".{self.path.name}.replaced")
        if self.path.is_dir():
            _remove(replaced)  # a kill may have left half of it
            self.path.replace(replaced)
        whole.replace(self.path)
        flush_folder(self.path.parent)
        self._is_finished = True
        _remove(replaced)

    def close(self) -> None:
        """Keep an unfinished draft if it can be continued, else remove it."""
        try:
            _remove(self.whole)
            if not self._is_finished and self.depends_on is not None and self.totals.documents:
                self._record_progress()
            else:
                _remove(self.progress)
                _remove(self.draft)
        finally:
            self._release()

    def _find_interrupted(self) -> bool:
        """Return whether there is a draft that this command continues, and take over its counts."""
        record: Any = None
        with contextlib.suppress(OSError, ValueError):
            record = json.loads(self.progress.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or not isinstance(record.get("depends_on"), dict):
            return False
        if self.depends_on is None:
            changed = ["stdin cannot be read again"]
        else:
            changed = describe_differences(record["depends_on"], self.depends_on)
        if not changed and not self._holds(record):
            changed = ["the draft has changed"]
        if changed:
            self.notes.append(f"{self.path}: the output of an interrupted command is dropped ({'; '.join(changed)}).")
            return False
        self.totals.include(record["totals"])
        self.bytes = record["bytes"]
        self.notes.append(f"{self.path}: continued after the {self.totals.documents:,} documents tagged before.")
        return True

    def _holds(self, record: dict[str, Any]) -> bool:
        """Return whether the draft holds the bytes that were recorded."""
        if not self.writer.has_parts:
            return self.draft.is_file() and self.draft.stat().st_size >= int(record["bytes"])
        known = [path for path in self._parts() if _number(path) <= record["totals"]["documents"]]
        return sum(path.stat().st_size for path in known) == int(record["bytes"])

    def _begin(self) -> None:
        _remove(self.progress)
        _remove(self.draft)
        if self.writer.has_parts:
            self.draft.mkdir()
        self._add(self.writer.begin())
        self.bytes = 0 if self.writer.has_parts else self.draft.stat().st_size

    def _cut_off(self) -> None:
        """Remove what was written after the last record."""
        if not self.writer.has_parts:
            os.truncate(self.draft, self.bytes)
            return
        for path in self.draft.iterdir():
            if not 0 < _number(path) <= self.totals.documents:
                path.unlink()
        self._add(self.writer.begin())

    def _add(self, pieces: Sequence[Piece]) -> None:
        if self.writer.has_parts:
            for name, data in pieces:
                (self.draft / name).write_bytes(data)
        else:
            with self.draft.open("ab") as stream:
                stream.writelines(data for _, data in pieces)

    def _parts(self) -> list[Path]:
        return sorted(path for path in self.draft.glob("*") if _number(path))

    def _record_progress(self) -> None:
        if self.depends_on is None:
            return
        if not self.writer.has_parts:
            _flush(self.draft)
        record = {"depends_on": self.depends_on, "bytes": self.bytes, "totals": self.totals.to_json()}
        write_json(self.progress, record)
        self._written_at = time.monotonic()

    def _release(self) -> None:
        Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()


Output = Stream | Draft


def check_output(output: Path, *, is_folder: bool, is_forced: bool, inputs: Sequence[Path]) -> None:
    """Refuse a file or folder that cannot be written, and one that must not be replaced."""
    another = "Name another --output."
    place = output.resolve()
    if any(place in (path, *path.parents) for path in map(Path.resolve, inputs)):
        raise CrossNERError(f"--output {output} is or holds a file to tag.", hint=another)
    if is_folder:
        check_output_folder(output, CONFIGURATION, force=is_forced)
        if output.is_dir() and not all(map(_is_ours, output.iterdir())):  # such as a project that somebody annotated
            raise CrossNERError(f"--output {output} holds files that are not tagged documents.", hint=another)
    elif output.is_dir():
        raise CrossNERError(f"--output {output} is a folder, and a file is to be written.", hint=another)
    elif output.is_file() and not is_forced:
        raise CrossNERError(f"--output {output} exists.", hint="--force replaces it; or name another --output.")
    elif not output.parent.is_dir():
        raise CrossNERError(
            f"There is no folder {output.parent} to write {output.name} into.",
            hint=f"mkdir -p {shlex.quote(str(output.parent))}",
        )


def _is_ours(path: Path) -> bool:
    """Return whether a file of a brat folder has a name that is written here."""
    return path.name == CONFIGURATION or (path.suffix in (".txt", ".ann") and len(path.stem) >= 9 and _number(path) > 0)


def _number(part: Path) -> int:
    """Return the number of the first document of a part; 0 for another file."""
    stem = part.name.partition(".")[0]
    return int(stem) if stem.isdecimal() else 0


def _remove(path: Path) -> None:
    """Remove a file or a folder if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Write a file, or all files of a folder, through to the disk."""
    if path.is_dir():
        os.sync()  # a folder may hold millions of files
        return
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
