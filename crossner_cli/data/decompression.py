"""Files that may be compressed, read as the bytes they stand for. Content tells the compression, not the name."""

from __future__ import annotations

import bz2
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import import_optional

COMPRESSED_ENDINGS = (".gz", ".bz2", ".zst")
BUFFER = 1 << 20
# Behind BZh stand the size and the mark of a block, or of the end: "BZh is a word" is text.
_BZIP2 = tuple(b"BZh%d" % size + mark for size in range(1, 10) for mark in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"))
_SIGNATURES = {
    b"\x1f\x8b": "gzip", **dict.fromkeys(_BZIP2, "bzip2"), b"\x28\xb5\x2f\xfd": "zstd", b"\x50\x2a\x4d\x18": "zstd",
}  # fmt: skip
_ARCHIVES = {
    b"PK\x03\x04": ("a zip archive", "unzip"), b"7z\xbc\xaf": ("a 7-Zip archive", "7z x"), b"Rar!": ("a rar archive",
    "unrar x"), b"\xfd7zXZ": ("an xz file", "unxz"),
}  # fmt: skip


class BrokenFileError(CrossNERError):
    """What is compressed ends too early, or cannot be made sense of."""

    def after(self, place: str) -> CrossNERError:
        """The same problem, with what was read before it."""
        return CrossNERError(f"{self.problem.removesuffix('.')}, after {place}.", hint=self.hint)


@dataclass(frozen=True)
class OpenFile:
    """A file being read.

    Args:
        stream: What it stands for.
        stored: The file as it is stored.
        compression: ``gzip``, ``bzip2``, ``zstd``, or empty.
    """

    stream: io.BufferedReader
    stored: BinaryIO
    compression: str

    def position(self) -> int:
        """Bytes of the stored file that were read; 0 for what is no plain file."""
        try:
            return self.stored.tell()
        except OSError:
            return 0


@contextmanager
def open_decompressed(path: Path) -> Iterator[OpenFile]:
    """Open a file that is plain or compressed with gzip, bzip2 or zstd, for one pass in constant memory.

    Nothing is unpacked onto the disk. Reading raises ``BrokenFileError`` where the data end too early.

    Raises:
        CrossNERError: The path is missing, a folder, not readable, or an archive of files.
    """
    with open_bytes(path) as stored:
        head = _peek(path, stored)
        for signature, (kind, command) in _ARCHIVES.items():
            if head.startswith(signature):
                raise CrossNERError(f"{path} is {kind}; gzip, bzip2 and zstd are read as they are.",
                                    hint=f"Unpack it, and name what was in it: {command} {path}")  # fmt: skip
        compression = _compression(head)
        guarded = _Guarded(path, stored, compression)
        yield OpenFile(io.BufferedReader(guarded, BUFFER), stored, compression)


def open_bytes(path: Path) -> BinaryIO:
    """Open a file to read its bytes.

    Raises:
        CrossNERError: The path is missing, a folder or not readable.
    """
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise CrossNERError(f"{path} does not exist.", hint="Check the path; it is read from where you are.") from None
    except IsADirectoryError:
        raise CrossNERError(f"{path} is a folder, and a text file was expected.", hint="Name a file in it.") from None
    except PermissionError:
        raise CrossNERError(f"{path} may not be read: permission denied.", hint=f"chmod +r {path}") from None
    except OSError as problem:
        raise CrossNERError(f"{path} cannot be opened: {problem.strerror}.", hint="Name a text file.") from None


def is_compressed(path: Path) -> bool:
    """Whether a plain file holds what gzip, bzip2 or zstd wrote, whatever it is called.

    Raises:
        CrossNERError: It cannot be read.
    """
    with open_bytes(path) as stored:
        return bool(_compression(_peek(path, stored)))


def _compression(head: bytes) -> str:
    return next((name for signature, name in _SIGNATURES.items() if head.startswith(signature)), "")


def _peek(path: Path, stored: BinaryIO) -> bytes:
    assert isinstance(stored, io.BufferedReader)
    try:
        return stored.peek(8)
    except OSError as problem:
        raise CrossNERError(f"{path} cannot be read: {problem.strerror}.", hint="Name a file.") from None


class _Guarded(io.RawIOBase):
    """The bytes that a compressed file stands for, every way of being broken as the same exception."""

    def __init__(self, path: Path, stored: BinaryIO, compression: str) -> None:
        super().__init__()
        self._path, self._compression = path, compression
        self._problems: tuple[type[Exception], ...] = (EOFError, OSError, zlib.error)
        self._stream: Any = stored
        if compression == "gzip":
            self._stream = gzip.GzipFile(fileobj=stored)
        elif compression == "bzip2":
            self._stream = bz2.BZ2File(stored)
        elif compression == "zstd":
            name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
            zstd = import_optional(name, f"Files in zstd are read with {name}", extra="corpora")
            self._stream = zstd.ZstdFile(stored)
            self._problems = (*self._problems, zstd.ZstdError)

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes, all there are before those that are broken; 0 at the end."""
        try:
            return int(self._stream.readinto1(buffer))
        except self._problems as problem:
            raise self._broken(problem) from None

    def _broken(self, problem: Exception) -> BrokenFileError:
        if not self._compression:
            reason = problem.strerror if isinstance(problem, OSError) else problem
            return BrokenFileError(f"{self._path} cannot be read: {reason}.", hint="Name a file.")
        if isinstance(problem, EOFError):
            said, hint = "is cut off: its compressed data end too early", "Fetch it again; compare its size or checksum"
        elif "too much memory" in str(problem):
            said, hint = (
                "was compressed with a longer window than is read",
                "Compress it anew: zstd -dc --long=31 FILE |",
            )
            hint += " zstd > OTHER"
        else:
            said, hint = f"is broken ({problem})", "Fetch it again; compare its size or checksum"
        return BrokenFileError(f"{self._path} ({self._compression}) {said}.", hint=f"{hint}.")
