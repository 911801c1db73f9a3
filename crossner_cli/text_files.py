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


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading.

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
