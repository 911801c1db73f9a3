"""Text files, plain or compressed, line by line: UTF-8 or a clear error."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from crossner_cli.data.decompression import BrokenFileError, open_bytes, open_decompressed
from crossner_cli.errors import CrossNERError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 1 << 26  # bytes


def check_file(option: str, path: Path, hint: str) -> None:
    """Refuse what an option names where that is no file.

    Raises:
        CrossNERError: It is a folder, a pipe or the like, or nothing at all.
    """
    if path.is_file():
        return
    found = "that is no plain file" if path.exists() else "there is no such file"
    raise CrossNERError(f"{option} {path}: {'that is a folder' if path.is_dir() else found}.", hint=hint)


def open_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Read a text file lazily, one line at a time. Its content tells whether it is compressed.

    Lines end at LF or CRLF only: U+0085 and U+2028 are characters of a line. A byte order mark is no part of the text.

    Returns:
        Pairs of line number, from 1, and the line without its ending.

    Raises:
        CrossNERError: The path is missing, a folder or not readable, what is compressed is cut off or broken, or a line
            is not UTF-8 or longer than 64 MiB.
    """
    number = 0
    with open_decompressed(path) as file:
        while line := _next_line(path, file.stream, number):
            number += 1
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            yield number, _decode(path, number, line.removesuffix(b"\n").removesuffix(b"\r"), file.compression)


def read_pieces(path: Path, start: int, end: int, size: int) -> Iterator[str]:
    """Read the lines that begin in a part of a text file, in pieces of whole lines, as ``open_lines`` reads them.

    Args:
        path: The file, not compressed.
        start: First byte of the part.
        end: The byte behind it.
        size: About how many bytes a piece has.

    Returns:
        Lines with a line feed between, none after the last.

    Raises:
        CrossNERError: The file cannot be read, or a line is not UTF-8 or longer than 64 MiB.
    """
    with open_bytes(path) as stream:
        # A line belongs to the part in which it begins: not the one that the byte before the part is of.
        stream.seek(max(start - 1, 0))
        if start:
            _rest_of_line(path, stream, b"")
        while (place := stream.tell()) < end:
            data = stream.read(min(size, end - place))
            if not data.endswith(b"\n"):
                data = _rest_of_line(path, stream, data)
            if not data:
                return
            text = _decode_lines(path, place, data if place else data.removeprefix(BYTE_ORDER_MARK))
            yield text.replace("\r\n", "\n").removesuffix("\n").removesuffix("\r")


def _next_line(path: Path, stream: BinaryIO, before: int) -> bytes:
    try:
        line = stream.readline(LONGEST_LINE + 1)
    except BrokenFileError as problem:
        raise problem.after(f"line {before}") from None
    if len(line) > LONGEST_LINE:
        raise _too_long(f"{path}:{before + 1}")
    return line


def _rest_of_line(path: Path, stream: BinaryIO, data: bytes) -> bytes:
    """Some lines with the end of the last."""
    rest = stream.readline(LONGEST_LINE + 1)
    if len(rest) > LONGEST_LINE:
        raise _too_long(f"{path}:{_lines_before(path, stream.tell() - len(rest)) + 1}")
    return data + rest


def _too_long(place: str) -> CrossNERError:
    return CrossNERError(
        f"{place}: the line is longer than {LONGEST_LINE >> 20} MiB.",
        hint="Give text files, a sentence, a paragraph or a document a line.",
    )


def _decode_lines(path: Path, place: int, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        begin = data.rfind(b"\n", 0, problem.start) + 1
        line = data[begin:].partition(b"\n")[0].removesuffix(b"\r")
        return _decode(path, _lines_before(path, place + begin) + 1, line)


def _lines_before(path: Path, place: int) -> int:
    """How many lines end before a byte of a file."""
    ends = 0
    with open_bytes(path) as stream:
        while some := stream.read(min(1 << 20, place - stream.tell())):
            ends += some.count(b"\n")
    return ends


def _decode(path: Path, number: int, line: bytes, compression: str = "") -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as problem:
        encoding = "UTF-16" if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")) else "LATIN1"
        unpack = {"gzip": "gzip -dc", "bzip2": "bzip2 -dc", "zstd": "zstd -dc"}.get(compression, "cat")
        raise CrossNERError(
            f"{path}:{number}: byte 0x{line[problem.start]:02x} at position {problem.start} of the line is not UTF-8.",
            hint=f"Save it as UTF-8, as with: {unpack} {shlex.quote(str(path))} | iconv -f {encoding} -t UTF-8 >"
            " converted.txt",
        ) from None
