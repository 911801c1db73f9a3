"""Published files of word vectors, read in the memory of the vectors that are kept.

The format is recognised from the content of a file, not from its name. In text a word may hold spaces; in binary it
ends at its first space.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from gzip import GzipFile
from itertools import chain, takewhile
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from crossner_cli.data.files import BYTE_ORDER_MARK, open_bytes
from crossner_cli.errors import CrossNERError
from crossner_cli.recurrent.word_vectors import Vectors, WordVectors, fallback_forms

BLOCK = 2**20
LONGEST_LINE, LONGEST_WORD, LARGEST_SIZE = 2**24, 2**16, 2**15

_WHOLE = re.compile(rb"\d{1,18}")
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:[nN][aA][nN]|[iI][nN][fF])")
_FORMATS = "GloVe text, word2vec text or fastText .vec, and word2vec binary are read, plain or as gzip."
_CORRECT = "Correct or remove the entry. If its word holds a number after a space, write _ for the space."
_DAMAGED = "Fetch it again; it is cut off or damaged."


def read_vectors(path: Path, words: Iterable[str], *, exact_only: bool = False) -> WordVectors:
    """Read the vectors of some words from a file of any size.

    A word is looked up as it is, else in lower case, else with its digits replaced by 0, as it is or in lower case;
    the order of the file makes no difference.

    Args:
        path: GloVe text, word2vec text or fastText ``.vec``, or word2vec binary; plain or gzip.
        words: Words to look up; repetitions count once.
        exact_only: Look words up as they are and in no other form.

    Raises:
        CrossNERError: The file cannot be read, has another format, or is cut off; or the vector of a kept word has
            another length than the first one, or a value that is not a finite number.
    """
    wanted = {word: _forms(word, exact_only) for word in words}
    with open_bytes(path) as file:
        source = _Source(path, file)
        head = source.read()
        layout = _recognise(path, head)
        scan = _Scan(layout.size, frozenset(chain.from_iterable(wanted.values())))
        (_scan_binary if layout.binary else _scan_text)(source, head, layout, scan)
    if layout.binary and scan.entries < (layout.announced or 0):
        raise CrossNERError(
            f"{path} has {scan.entries:,} of the {layout.announced:,} vectors it announces.", hint=_DAMAGED
        )
    if not scan.entries:
        raise _not_vectors(path, "holds no vectors, only a header")
    # Each word gets the vector of its best form.
    best = {word: next((form for form in forms if form in scan.found), b"") for word, forms in wanted.items()}
    found = {word: form for word, form in best.items() if form}
    odd = [(scan.repeated, "repeated (the first counts)"), (scan.undecodable, "not UTF-8 (skipped)")]
    notes = [f"{count:,} {what}" for count, what in odd if count]
    if layout.announced not in (None, scan.entries):
        notes.insert(0, f"{layout.announced:,} vectors announced, {scan.entries:,} there")
    return WordVectors(
        source=path.name,
        words=tuple(found),
        rows=np.array([scan.found[form] for form in found.values()], dtype=np.float32).reshape(-1, scan.size),
        asked=len(wanted),
        entries=scan.entries,
        written=tuple(form.decode() for form in found.values()),
        notes=tuple(notes),
    )


def read_vector_width(path: Path) -> int:
    """Read the width of the vectors of a file, D, from its beginning alone.

    Raises:
        CrossNERError: The file cannot be read, or has a format that ``read_vectors`` does not know.
    """
    with open_bytes(path) as file:
        return _recognise(path, _Source(path, file).read()).size


def _forms(word: str, exact_only: bool) -> list[bytes]:
    """Return the forms to look up, best first, without empty ones and invalid UTF-8, which no file holds."""
    texts = (word,) if exact_only else (word, *fallback_forms(word))
    written = (text.encode("utf-8", "surrogatepass") for text in texts)
    return [form for form in dict.fromkeys(written) if form and _is_utf8(form)]


class _Source:
    """The bytes of a file, unpacked if it is gzip, block by block."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._offset = path, 0
        # A pipe can be peeked into, but not rewound.
        head = self._checked(cast(io.BufferedReader, file).peek, 2)
        self._stream: BinaryIO | GzipFile = GzipFile(fileobj=file) if head.startswith(b"\x1f\x8b") else file

    def read(self) -> bytes:
        """Read the next block; nothing at the end."""
        block = self._checked(self._stream.read, BLOCK)
        self._offset += len(block)
        return block

    def _checked(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            return read(size)
        except (EOFError, OSError, zlib.error) as problem:
            raise CrossNERError(
                f"{self.path} cannot be read after byte {self._offset:,} of its content: {problem}.", hint=_DAMAGED
            ) from None

    def whole_lines(self, rest: bytes) -> Iterator[bytes]:
        """Blocks of whole lines, beginning with ``rest``; a last line without an end gets one."""
        while block := self.read():
            cut = block.rfind(b"\n") + 1
            if cut:
                yield rest + block[:cut]
                rest = b""
            rest += block[cut:]
            if len(rest) > LONGEST_LINE:
                raise _not_vectors(self.path, f"has a line of more than {LONGEST_LINE:,} bytes")
        yield rest + b"\n"


class _Layout(NamedTuple):
    """Values of a vector, number of entries by the header, format, and the byte at which the entries begin."""

    size: int
    announced: int | None
    binary: bool
    start: int


def _recognise(path: Path, head: bytes) -> _Layout:
    if not head:
        raise _not_vectors(path, "is empty")
    start = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
    first, _, following = head[start:].partition(b"\n")
    header = first.split()
    if len(header) == 2 and all(map(_WHOLE.fullmatch, header)) and 1 <= int(header[1]) <= LARGEST_SIZE:
        line, end, _ = following.lstrip(b"\r\n").partition(b"\n")
        if end and b" " not in line:
            raise _not_vectors(path, f"does not separate values by spaces: {_shown(line)}")
        fields = _fields(line)
        is_text = not following or 0 < len(fields) <= 2 * sum(map(bool, map(_NUMBER.fullmatch, fields)))
        return _Layout(int(header[1]), int(header[0]), not is_text, len(head) - len(following))
    size = len(list(takewhile(_NUMBER.fullmatch, reversed(_fields(first)))))
    # A word and one number is a list of counts, as vocabularies are.
    if not 2 <= size <= LARGEST_SIZE:
        raise _not_vectors(path, f"has no word with its vector, separated by spaces, on line 1: {_shown(first)}")
    return _Layout(size, None, False, start)


def _not_vectors(path: Path, problem: str) -> CrossNERError:
    return CrossNERError(f"{path} {problem}.", hint=_FORMATS)


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace"))


def _fields(line: bytes) -> list[bytes]:
    """Return the fields after the first one, which is the word or its beginning, whatever it looks like."""
    return line.rstrip(b" \r").split(b" ")[1:]


def _is_utf8(text: bytes) -> bool:
    return text.isascii() or text.decode("utf-8", "ignore").encode() == text


class _Scan:
    """The results of a pass over a file."""

    def __init__(self, size: int, forms: frozenset[bytes]) -> None:
        self.size, self.forms = size, forms
        self.found: dict[bytes, Vectors] = {}
        self.entries = self.repeated = self.undecodable = 0

    def keep(self, form: bytes, values: Sequence[bytes] | Vectors, place: str) -> None:
        """Keep a vector unless its word had one before."""
        if form in self.found:
            self.repeated += 1
            return
        if len(values) != self.size:
            raise CrossNERError(
                f"{place}: {form.decode()!r} has {len(values):,} values, expected {self.size:,} as on the first line.",
                hint=_CORRECT,
            )
        try:
            numbers = list(map(float, values))
        except ValueError as problem:
            raise CrossNERError(f"{place}: vector of {form.decode()!r}: {problem}.", hint=_CORRECT) from None
        with np.errstate(over="ignore"):
            row = np.array(numbers, dtype=np.float32)
        if not np.isfinite(row).all():
            odd = row[~np.isfinite(row)][0]
            raise CrossNERError(f"{place}: {form.decode()!r} has the value {odd}, which is not finite.", hint=_CORRECT)
        self.found[form] = row


def _scan_text(source: _Source, head: bytes, layout: _Layout, scan: _Scan) -> None:
    # Values are parsed only if the text before the first space may be a wanted word.
    firsts = {form.partition(b" ")[0] for form in scan.forms}
    number = 1 if layout.announced is None else 2
    for block in source.whole_lines(head[layout.start :]):
        start = 0
        # Far faster than to split the block, which looks at its bytes one by one.
        while (end := block.find(b"\n", start)) >= 0:
            space = block.find(b" ", start, end)
            if block[start : space if space >= 0 else end] in firsts:
                _take_line(block[start:end], f"{source.path}:{number}", scan)
            scan.entries += end > start
            number, start = number + 1, end + 1
        if not _is_utf8(block):
            scan.undecodable += sum(not _is_utf8(line) for line in block.split(b"\n"))


def _take_line(line: bytes, place: str, scan: _Scan) -> None:
    """Keep the vector of a line whose word is wanted; its first field is, or begins, a wanted word."""
    fields = line.rstrip(b" \r").split(b" ")
    word = b" ".join(fields[: -scan.size])
    if word in scan.forms:
        scan.keep(word, fields[-scan.size :], place)
    elif fields[0] in scan.forms and (len(fields) <= scan.size or (b"." in fields[1] and _NUMBER.fullmatch(fields[1]))):
        # Too few values, or too many: "New York" is another word than "New", and "New 0.12" is not a word.
        scan.keep(fields[0], fields[1:], place)


def _scan_binary(source: _Source, head: bytes, layout: _Layout, scan: _Scan) -> None:
    data, base, width = head[layout.start :], layout.start, 4 * layout.size
    while True:
        position = _take_entries(data, base, width, source.path, scan)
        base += position
        block = source.read()
        if not block:
            break
        data = data[position:] + block
    if data[position:].strip(b"\n"):
        raise CrossNERError(
            f"{source.path}: byte {base:,}: the file ends within entry {scan.entries + 1:,} of {layout.announced:,}, "
            f"each of {layout.size:,} values.",
            hint=_DAMAGED,
        )


def _take_entries(data: bytes, base: int, width: int, path: Path, scan: _Scan) -> int:
    """Go through the whole entries in ``data``, which begins at byte ``base``, and return where they end."""
    position, forms = 0, scan.forms
    while True:
        begin = position + (data[position : position + 1] == b"\n")
        space = data.find(b" ", begin)
        if (space if space >= 0 else len(data)) - begin > LONGEST_WORD:
            raise CrossNERError(
                f"{path}: byte {base + begin:,}: no word ends within {LONGEST_WORD:,} bytes.",
                hint=f"The header says {scan.size:,} values a vector. {_FORMATS}",
            )
        end = space + 1 + width
        if space < 0 or end > len(data):
            return position
        word = data[begin:space]
        if word in forms:
            row = np.frombuffer(data, dtype="<f4", count=scan.size, offset=space + 1).astype(np.float32)
            scan.keep(word, row, f"{path}: byte {base + begin:,}")
        elif not _is_utf8(word):
            scan.undecodable += 1
        scan.entries += 1
        position = end
