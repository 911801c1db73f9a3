"""Text files line by line: UTF-8 or a clear error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from crossner_cli.errors import CrossNERError

BYTE_ORDER_MARK = "\ufeff"


def open_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Read a text file lazily, one line at a time.

    Lines end at LF or CRLF only: U+0085 and U+2028 are characters of a line. A byte order mark is no part of the text.

    Returns:
        Pairs of line number, from 1, and the line without its ending.

    Raises:
        CrossNERError: The path is missing, a folder or not readable, or a line is not UTF-8.
    """
    with open_bytes(path) as stream:
        for number, line in enumerate(_read_bytes(path, stream), start=1):
            text = _decode(path, number, line)
            yield number, text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text


def read_pieces(path: Path, start: int, end: int, size: int) -> Iterator[str]:
    """Read the lines that begin in a part of a text file, in pieces of whole lines, as ``open_lines`` reads them.

    Args:
        path: The file.
        start: First byte of the part.
        end: The byte behind it.
        size: About how many bytes a piece has.

    Returns:
        Lines with a line feed between, none after the last.

    Raises:
        CrossNERError: The file cannot be read, or a line is not UTF-8.
    """
    with open_bytes(path) as stream:
        # A line belongs to the part in which it begins: not the one that the byte before the part is of.
        stream.seek(max(start - 1, 0))
        if start:
            stream.readline()
        while (place := stream.tell()) < end:
            data = stream.read(min(size, end - place))
            if not data.endswith(b"\n"):
                data += stream.readline()
            if not data:
                return
            text = _decode_lines(path, place, data).replace("\r\n", "\n").removesuffix("\n").removesuffix("\r")
            yield text if place else text.removeprefix(BYTE_ORDER_MARK)


def _decode_lines(path: Path, place: int, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        begin = data.rfind(b"\n", 0, problem.start) + 1
        with open_bytes(path) as stream:
            before = sum(1 for _ in _lines_before(stream, place + begin))
        line = data[begin:].partition(b"\n")[0].removesuffix(b"\r")
        return _decode(path, before + 1, line)


def _lines_before(stream: BinaryIO, place: int) -> Iterator[bytes]:
    while stream.tell() < place:
        yield stream.readline()


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


def _read_bytes(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    while True:
        try:
            line = stream.readline()
        except OSError as problem:
            raise CrossNERError(f"{path} cannot be read: {problem.strerror}.", hint="Name a text file.") from None
        if not line:
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _decode(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise CrossNERError(
            f"{path}:{number}: byte 0x{line[problem.start]:02x} at position {problem.start} of the line is not UTF-8.",
            hint=f"Save the file as UTF-8, as with: iconv -f LATIN1 -t UTF-8 {path} > converted.txt",
        ) from None
