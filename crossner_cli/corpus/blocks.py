"""Raw text in parts that processes share, and the sentences of a part in blocks of thousands.

Repeated sentences are found by their fingerprints.
"""

from __future__ import annotations

import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crossner_cli.corpus.raw_files import find_status, raw_format, read_texts, refuse_labelled
from crossner_cli.data.files import is_compressed, read_pieces
from crossner_cli.data.leaks import FINAL_STOPS, PARAGRAPH, find_kept, make_leak_keys
from crossner_cli.data.text import STOPS, segment
from crossner_cli.data.word_scan import Flags, hash_lines

BYTES_OF_PART, BYTES_OF_PIECE, TEXTS_OF_PIECE = 1 << 25, 1 << 18, 1000
CHARACTERS_AT_ONCE = 1 << 20  # each takes some sixty bytes where names are looked for
SPACES = [chr(code) for code in range(0x3001) if chr(code).isspace() and chr(code) not in f" \n{PARAGRAPH}"]
_STOP = re.compile(rf"[{''.join(sorted(STOPS))}]")
_CLOSING_MARKS = frozenset("\"'”’»)]}")
FINGERPRINT = np.dtype("<u8")
ROWS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Part:
    """A part of a corpus, read by one process: a file, or its bytes from ``start`` to before ``end``.

    A line belongs to the part in which it begins. ``size`` is about the number of bytes read.
    """

    path: Path
    start: int = 0
    end: int | None = None
    size: int = 0


@dataclass(frozen=True)
class Block:
    """Some sentences of a part, each with single spaces between its words, and the document of each, (S,).

    Documents are counted through the part, ascending; a line of plain text is one.
    """

    texts: list[str]
    documents: NDArray[np.int64]

    def keep(self, chosen: NDArray[np.bool_]) -> Block:
        """Return the chosen sentences, (S,)."""
        return self if chosen.all() else Block(list(compress(self.texts, chosen.tolist())), self.documents[chosen])


def cut_into_parts(files: Sequence[Path], bytes_of_part: int = BYTES_OF_PART) -> list[Part]:
    """Cut a corpus into parts: plain text at lines, all else by file.

    Raises:
        CrossNERError: A file of text cannot be read, or is labelled data.
    """
    parts: list[Part] = []
    for path in files:
        refuse_labelled(path)
        status = find_status(path)
        size = status.st_size if status else 0
        if status is None or not stat.S_ISREG(status.st_mode) or raw_format(path) != "text" or is_compressed(path):
            parts.append(Part(path, size=size))
        else:
            starts = range(0, max(size, 1), bytes_of_part)
            parts += [Part(path, start, end := min(start + bytes_of_part, size), end - start) for start in starts]
    return parts


def read_blocks(
    part: Part, counts: Counter[str], *, one_a_line: bool, excluded: frozenset[str], column: str = "text"
) -> Iterator[Block]:
    """Read the sentences of a part in blocks.

    Args:
        part: What to read.
        counts: Where ``documents``, ``blank_lines``, ``sentences`` and ``dropped_leaks`` are counted.
        one_a_line: A line is a sentence; else its sentences are found as ``predict`` finds them.
        excluded: Keys of sentences to leave out, as ``leak_key`` makes them.
        column: The field of records that holds the text.

    Raises:
        CrossNERError: The file cannot be read, or is not UTF-8.
    """
    before = 0
    for texts in _read_documents(part, counts, one_a_line, column):
        found = _take_lines(texts) if one_a_line else _split(texts)
        counts["sentences"] += len(found.texts)
        if excluded and texts:
            keep = find_kept(found.texts, found.documents, texts, excluded)
            counts["dropped_leaks"] += len(keep) - int(keep.sum())
            found = found.keep(keep)
        yield from _cut_blocks(Block(found.texts, found.documents + before))
        before += len(texts)


def _cut_blocks(found: Block) -> Iterator[Block]:
    """Cut a block whose document is a book into smaller ones."""
    ends = np.cumsum([len(text) for text in found.texts])
    pieces = ends // CHARACTERS_AT_ONCE
    bounds = [0, *(np.flatnonzero(np.diff(pieces)) + 1).tolist(), len(found.texts)]
    for start, end in pairwise(bounds):
        yield Block(found.texts[start:end], found.documents[start:end])


def normalise_spaces(text: str, *, paragraphs: bool = False) -> str:
    """Make every run of white space within a line one space, and none at its ends.

    With ``paragraphs``, paragraph separators are spaces, too.
    """
    raw = np.frombuffer(text.encode(), np.uint8)
    has_others = len(raw) > len(text) or bool(((raw < 32) & (raw != 10)).any())
    is_space = (raw == 32) | (raw == 10)
    # Of the text whose spaces are as they should be, and that is most, nothing is searched a second time.
    if has_others:
        for space in (*SPACES, PARAGRAPH) if paragraphs else SPACES:
            text = text.replace(space, " ")
    elif not (is_space[1:] & is_space[:-1]).any():
        return text.strip(" ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \n", "\n").replace("\n ", "\n").strip(" ")


def _read_documents(part: Part, counts: Counter[str], one_a_line: bool, column: str) -> Iterator[list[str]]:
    """Read the documents of a part that are not blank, some at a time."""
    if part.end is not None:
        for piece in read_pieces(part.path, part.start, part.end, BYTES_OF_PIECE):
            given = piece.count("\n") + 1
            piece = _drop_zero_bytes(piece, counts)
            lines = normalise_spaces(piece, paragraphs=one_a_line)
            texts = [line for line in lines.split("\n") if line.strip()]  # a paragraph separator alone is no text
            counts["documents"] += len(texts)
            counts["blank_lines"] += given - len(texts)
            yield texts
        return
    for some in _gather(read_texts(part.path, column=column, counts=counts)):
        # A mark of the byte order before a text would be taken for that of the file where the corpus is read again.
        some = [_drop_zero_bytes(text.removeprefix("\ufeff"), counts) for text in some]
        texts = [normalise_spaces(text, paragraphs=one_a_line) for text in some if text.strip()]
        counts["documents"] += len(texts)
        counts["blank_lines"] += len(some) - len(texts)
        yield texts


def _drop_zero_bytes(text: str, counts: Counter[str]) -> str:
    """Drop and count zero bytes, which damaged files and some databases leave in a text."""
    if "\0" not in text:
        return text
    counts["zero_bytes"] += text.count("\0")
    return text.replace("\0", "")


def _gather(texts: Iterable[str]) -> Iterator[list[str]]:
    """Gather texts: many short ones, or a long one."""
    some: list[str] = []
    size = 0
    for text in texts:
        some.append(text)
        size += len(text)
        if len(some) == TEXTS_OF_PIECE or size >= BYTES_OF_PIECE:
            yield some
            some, size = [], 0
    yield some


def _take_lines(texts: Sequence[str]) -> Block:
    if not any("\n" in text for text in texts):
        return Block(list(texts), np.arange(len(texts)))
    lines = [(number, line) for number, text in enumerate(texts) for line in text.split("\n") if line]
    return Block([line for _, line in lines], np.array([number for number, _ in lines], np.int64))


def _split(texts: Sequence[str]) -> Block:
    found: list[str] = []
    documents: list[int] = []
    for number, text in enumerate(texts):
        if "\n" not in text and not _may_split(text):
            found.append(text)
            documents.append(number)
            continue
        sentences = list(_sentences_of(text))
        found += sentences
        documents += [number] * len(sentences)
    return Block(found, np.array(documents, np.int64))


def _may_split(text: str) -> bool:
    """Return whether the splitter may find a second sentence: a stop with more behind it than stops and a closing mark.

    The time does not grow with the square of a row of stops.
    """
    last = (text[:-1] if text[-1:] in _CLOSING_MARKS else text).rstrip(FINAL_STOPS)
    return PARAGRAPH in text or _STOP.search(text, 0, len(last) - 1) is not None


def _sentences_of(text: str) -> Iterator[str]:
    """The sentences of a document; those of a book are found a block at a time, each from the start of a sentence."""
    start, size = 0, CHARACTERS_AT_ONCE
    while start < len(text):
        block, is_last = text[start : start + size], start + size >= len(text)
        found = segment(block)
        if len(found) < 2 and not is_last:
            size *= 2
            continue
        for words in found if is_last else found[:-1]:
            yield " ".join(block[words[0].start : words[-1].end].split())
        start += len(block) if is_last else found[-1][0].start
        size = CHARACTERS_AT_ONCE


def make_fingerprints(block: Block) -> NDArray[np.uint64]:
    """Return a number of each sentence, (S,): the same where two differ only in case, spaces and the final stop."""
    if not block.texts:
        return np.zeros(0, FINGERPRINT)
    return hash_lines("\n".join(make_leak_keys(block.texts))).astype(FINGERPRINT)


def find_duplicates(path: Path) -> Flags:
    """Find the sentences that repeat an earlier one of the corpus, (S,), by the fingerprints of all in order."""
    if not path.stat().st_size:
        return np.zeros(0, np.bool_)
    stored = np.memmap(path, FINGERPRINT, "r")
    is_repeated = np.ones(len(stored), np.bool_)
    pieces = -(-len(stored) // ROWS_AT_ONCE)
    for piece in range(pieces):  # equal numbers fall into one piece, and pieces fit into memory
        rows = np.flatnonzero(stored % np.uint64(pieces) == piece)
        is_repeated[rows[np.unique(stored[rows], return_index=True)[1]]] = False
    return is_repeated
