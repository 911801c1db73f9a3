"""Files as bytes and lines: plain or compressed, UTF-8 or a clear error, with counts of repairs."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from crossner_cli.errors import BadLine, CrossNERError, suggest_path
from crossner_cli.run.environment import import_optional

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BUFFER = 1 << 20
LONGEST_LINE = 1 << 26  # bytes
EXAMPLES = 5
MOST_ZERO_BYTES = 0.1  # share of a text that is not UTF-16

COMPRESSED_ENDINGS = (".gz", ".bz2", ".zst")
# After BZh come the size and the mark of a block, or of the end: "BZh is a word" is text.
BZIP2 = tuple(b"BZh%d" % size + mark for size in range(1, 10) for mark in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"))
COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    **dict.fromkeys(BZIP2, "bzip2"),
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x50\x2a\x4d\x18": "zstd",
}
# First bytes of files that are not text, with the name of the format and the command that makes text of it.
OTHER_CONTENT = {
    b"PK\x03\x04": ("a zip archive, such as a document of Word", "pandoc -t plain FILE.docx > TEXT, or unzip FILE"),
    b"7z\xbc\xaf": ("a 7-Zip archive", "7z x FILE"),
    b"Rar!\x1a\x07": ("a rar archive", "unrar x FILE"),
    b"\xfd7zXZ": ("an xz file", "xz -d FILE"),
    b"%PDF-": ("a PDF", "pdftotext FILE"),
    b"\xff\xfe": ("UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > TEXT"),
    b"\xfe\xff": ("UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > TEXT"),
}

BYTE_ORDER_MARK_REMOVED = "byte-order mark removed"
BAD_LINE = "bad line skipped"


@dataclass
class Repairs:
    """Counts of what was repaired or dropped in reading, and the first places (``file:line``), by kind.

    With ``skips_bad_lines``, a line that cannot be read is dropped and counted instead of refused. ``notes`` say how a
    file was read, ``warnings`` name what may be wrong with it.
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    skips_bad_lines: bool = False
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, kind: str, place: str, times: int = 1) -> None:
        """Count a repair at a place."""
        self.counts[kind] += times
        places = self.examples.setdefault(kind, [])
        if len(places) < EXAMPLES:
            places.append(place)

    def refuse(self, problem: BadLine, place: str) -> None:
        """Raise the problem of a line with its place, or count the line if such lines are dropped."""
        if not self.skips_bad_lines:
            raise BadLine(f"{place}: {problem.problem}", hint=problem.hint) from None
        self.add(BAD_LINE, place)

    def to_json(self) -> dict[str, Any]:
        """Make a record of the count and first places of each kind."""
        return {kind: {"count": count, "first": self.examples[kind]} for kind, count in self.counts.items()}


class BrokenFileError(CrossNERError):
    """A compressed file that ends too early or holds wrong data."""

    def after(self, place: str) -> CrossNERError:
        """Return the same problem with the last place that could be read."""
        return CrossNERError(f"{self.problem.removesuffix('.')}, after {place}.", hint=self.hint)


@dataclass(frozen=True)
class OpenFile:
    """A file being read: its decompressed content, and the file as it is stored.

    ``compression`` is ``gzip``, ``bzip2``, ``zstd`` or empty.
    """

    stream: io.BufferedReader
    stored: BinaryIO
    compression: str

    def position(self) -> int:
        """The bytes of the stored file that were read; 0 for a pipe."""
        try:
            return self.stored.tell()
        except OSError:
            return 0


def check_file(option: str, path: Path, hint: str) -> None:
    """Refuse the value of an option if it is a folder, a pipe or the like, or does not exist."""
    if not path.is_file():
        found = "not a plain file" if path.exists() else "not found"
        raise CrossNERError(f"{option} {path}: {'a folder' if path.is_dir() else found}.", hint=hint)


def refuse_pipe(path: Path) -> None:
    """Refuse an input that can be read only once."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise CrossNERError(
            f"{path} is neither a plain file nor a folder, and inputs are read more than once.",
            hint="Write it to a file first, as with: zcat corpus.gz > corpus.txt",
        )


def open_bytes(path: Path) -> io.BufferedReader:
    """Open a file to read its bytes; refuse one that is missing, a folder, or may not be read."""
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = f"{suggest_path(path)}Give a file that exists and is yours."
        raise CrossNERError(f"{path} cannot be read: {reason}.", hint=hint) from None


@contextmanager
def open_decompressed(path: Path) -> Iterator[OpenFile]:
    """Open a file that is plain or compressed with gzip, bzip2 or zstd, for one pass in constant memory.

    The compression is recognised from the content, not from the name. Nothing is unpacked onto the disk. Reading raises
    ``BrokenFileError`` if the data end too early.

    Raises:
        CrossNERError: The path cannot be read, or holds other content than text.
    """
    with open_bytes(path) as stored:
        head = stored.peek(16)
        refuse_other_content(head, str(path))
        compression = _find_compression(head)
        yield OpenFile(io.BufferedReader(_Decompressed(path, stored, compression), BUFFER), stored, compression)


def is_compressed(path: Path) -> bool:
    """Return whether a file is compressed with gzip, bzip2 or zstd, whatever its name."""
    with open_bytes(path) as stored:
        return bool(_find_compression(stored.peek(16)))


def refuse_other_content(head: bytes, name: str) -> None:
    """Refuse a file whose first bytes are not those of text."""
    for magic, (content, command) in OTHER_CONTENT.items():
        if head.startswith(magic):
            raise CrossNERError(f"{name} is {content}, not text in UTF-8.", hint=f"Convert it first, as: {command}")


def _find_compression(head: bytes) -> str:
    return next((name for magic, name in COMPRESSIONS.items() if head.startswith(magic)), "")


class _Decompressed(io.RawIOBase):
    """The content of a compressed file; every defect raises the same exception."""

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
            # The longest window that zstd --long=31 writes.
            self._stream = zstd.ZstdFile(stored, options={zstd.DecompressionParameter.window_log_max: 31})
            self._problems = (*self._problems, zstd.ZstdError)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes up to broken ones; 0 at the end."""
        try:
            return int(self._stream.readinto1(buffer))
        except EOFError:
            problem = f"{self._path} ({self._compression}) is cut off: its compressed data end too early."
        except self._problems as error:
            reason = getattr(error, "strerror", None) or error
            problem = f"{self._path} ({self._compression or 'plain'}) cannot be read: {reason}."
        raise BrokenFileError(problem, hint="Fetch it again; compare its size or checksum.")


def open_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Read a text file lazily, as ``number_lines`` does; it may be compressed.

    Lines end at LF, CR LF or CR CR LF: U+0085 and U+2028 are characters of a line. A byte order mark is left out.

    Raises:
        CrossNERError: The file cannot be read, is cut off, or a line is not UTF-8 or longer than 64 MiB.
    """
    with open_decompressed(path) as file:
        yield from number_lines(_read_lines(path, file.stream), str(path), Repairs())


def number_lines(stream: Iterable[bytes], name: str, repairs: Repairs) -> Iterator[tuple[int, str]]:
    """Decode lines one at a time, without their ends, numbered from 1.

    Args:
        stream: Lines that end in LF or CRLF, the last one perhaps in neither: a file opened in binary mode.
        name: The file's name, for messages.
        repairs: Counts a byte-order mark, and bad lines if they are skipped.

    Raises:
        CrossNERError: A line is not UTF-8, or the first one is not text.
    """
    for number, raw in enumerate(stream, start=1):
        if number == 1:
            if raw.startswith(BYTE_ORDER_MARK):
                raw = raw[len(BYTE_ORDER_MARK) :]
                repairs.add(BYTE_ORDER_MARK_REMOVED, f"{name}:1")
            # Refused even if bad lines are skipped: no line can be read.
            refuse_other_content(raw, name)
            if compression := _find_compression(raw):
                hint = f"Unpack it first, as: {compression} -d FILE"
                raise CrossNERError(f"{name} is compressed with {compression}, not text in UTF-8.", hint=hint)
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            repairs.refuse(_not_utf8(raw, error.start), f"{name}:{number}")
            continue
        yield number, line.removesuffix("\n").rstrip("\r")


def _not_utf8(line: bytes, place: int) -> BadLine:
    # Bytes 0x80 to 0x9f are control characters in ISO-8859-1, and quotes, dashes and the euro sign in Windows-1252.
    return BadLine(
        f"byte 0x{line[place]:02x} at position {place + 1} is not UTF-8.",
        hint="Convert the file, as: iconv -f WINDOWS-1252 -t UTF-8 FILE > TEXT (western European text of Windows; for"
        " other text name its encoding)",
    )


def _to_mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise json.JSONDecodeError(f"the key {key!r} occurs twice", "", 0)
    return found


parse_json = json.JSONDecoder(object_pairs_hook=_to_mapping).decode  # by default the last of repeated keys is kept


def has_many_zero_bytes(sample: str) -> bool:
    """Return whether the beginning of a file, one character per byte, looks like UTF-16, half of which is zero."""
    return sample.count("\0") > MOST_ZERO_BYTES * len(sample)


def is_writable(text: str) -> bool:
    """Return whether a text can be written as UTF-8, that is, has no half of a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def read_part(path: Path, start: int, end: int) -> Iterator[str]:
    """Read the lines that begin in a part of a text file that is not compressed, as ``open_lines`` reads them.

    Args:
        path: The file.
        start: First byte of the part.
        end: The byte after it.

    Raises:
        CrossNERError: The file cannot be read, or a line is not UTF-8 or longer than 64 MiB.
    """
    with open_bytes(path) as stream:
        stream.seek(max(start - 1, 0))
        if start:
            _read_line(path, stream)  # the rest of a line that begins before the part
        place = stream.tell()
        while place < end and (raw := _read_line(path, stream)):
            try:
                line = (raw if place else raw.removeprefix(BYTE_ORDER_MARK)).decode("utf-8")
            except UnicodeDecodeError as error:
                number = _count_lines(path, place) + 1
                return Repairs().refuse(_not_utf8(raw, error.start), f"{path}:{number}")
            place += len(raw)
            yield line.removesuffix("\n").rstrip("\r")


def _count_lines(path: Path, place: int) -> int:
    """Count the lines that end before a byte of a file."""
    ends = 0
    with open_bytes(path) as stream:
        while some := stream.read(min(BUFFER, place - stream.tell())):
            ends += some.count(b"\n")
    return ends


def _read_lines(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    number = 0
    try:
        while line := _read_line(path, stream):
            number += 1
            yield line
    except BrokenFileError as problem:
        raise problem.after(f"line {number}") from None


def _read_line(path: Path, stream: BinaryIO) -> bytes:
    """Read the rest of the line at the position of a stream; empty at its end."""
    line = stream.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise CrossNERError(
            f"{path} has a line that is longer than {LONGEST_LINE >> 20} MiB.",
            hint="Give text files, a sentence, a paragraph or a document a line.",
        )
    return line
