"""The sentences of raw text, read in parts that processes share."""

from __future__ import annotations

import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from crossner_cli.corpus.raw_files import find_status, raw_format, read_texts, refuse_labelled
from crossner_cli.data.files import is_compressed, read_part
from crossner_cli.data.leaks import FINAL_STOPS, find_kept
from crossner_cli.data.text import STOPS, segment

BYTES_OF_PART = 1 << 26
CHARACTERS_AT_ONCE = 1 << 20  # each takes some sixty bytes where sentences are looked for
PARAGRAPH = "\u2029"
_STOP = re.compile(rf"[{''.join(sorted(STOPS))}]")
_CLOSING_MARKS = frozenset("\"'”’»)]}")


@dataclass(frozen=True)
class Part:
    """A part of a corpus, read by one process: a file, or its bytes from ``start`` to before ``end``.

    A line belongs to the part in which it begins. ``size`` is about the number of bytes read.
    """

    path: Path
    start: int = 0
    end: int | None = None
    size: int = 0


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


def read_sentences(
    part: Part, counts: Counter[str], *, one_a_line: bool, excluded: frozenset[str] = frozenset(), column: str = "text"
) -> Iterator[list[str]]:
    """Read the sentences of each document of a part that is not blank; a line of plain text is a document.

    Args:
        part: What to read.
        counts: Where ``documents``, ``characters``, ``blank_lines``, ``sentences`` and ``dropped_leaks`` are counted.
        one_a_line: True if a line is a sentence; else its sentences are found as in ``predict``.
        excluded: Keys of sentences to leave out, as ``make_leak_key`` makes them.
        column: The field of records that holds the text.

    Raises:
        CrossNERError: The file cannot be read, or is not UTF-8.
    """
    for text in _read_documents(part, counts, column):
        counts["characters"] += len(text)
        sentences = split_lines(text) if one_a_line else split_sentences(text)
        if not sentences:
            counts["blank_lines"] += 1
            continue
        counts["documents"] += 1
        counts["sentences"] += len(sentences)
        if excluded:
            kept = find_kept(sentences, text, excluded)
            counts["dropped_leaks"] += kept.count(False)
            sentences = [sentence for sentence, stays in zip(sentences, kept, strict=True) if stays]
        yield sentences


def _read_documents(part: Part, counts: Counter[str], column: str) -> Iterator[str]:
    """Read the texts of a part, without the zero bytes that damaged files and some databases leave in them."""
    if part.end is None:
        texts = read_texts(part.path, column=column, counts=counts)
    else:
        texts = read_part(part.path, part.start, part.end)
    for text in texts:
        if "\0" in text:
            counts["zero_bytes"] += text.count("\0")
            text = text.replace("\0", "")
        # A byte-order mark before a text would be read as that of the file when the corpus is read again.
        yield text.removeprefix("\ufeff")


def split_lines(text: str) -> list[str]:
    """Return the lines of a text with single spaces, without blank ones."""
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return [line for line in lines if line]


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a document with single spaces between words."""
    text = text.replace(PARAGRAPH, "\n\n")
    lines = [" ".join(line.split()) for line in text.split("\n")] if "\n" in text else [" ".join(text.split())]
    if len(lines) == 1 and not _may_split(lines[0]):
        return lines if lines[0] else []
    return list(_find_sentences("\n".join(lines)))


def _may_split(line: str) -> bool:
    """Return whether the splitter may find a second sentence: a stop with more after it than stops and a closing mark.

    The time does not grow with the square of a row of stops.
    """
    last = (line[:-1] if line[-1:] in _CLOSING_MARKS else line).rstrip(FINAL_STOPS)
    return _STOP.search(line, 0, len(last) - 1) is not None


def _find_sentences(text: str) -> Iterator[str]:
    """Find the sentences of a document; those of a book some at a time, each time from the start of a sentence."""
    start, size = 0, CHARACTERS_AT_ONCE
    while start < len(text):
        piece, is_last = text[start : start + size], start + size >= len(text)
        found = segment(piece)
        if len(found) < 2 and not is_last:
            size *= 2
            continue
        for words in found if is_last else found[:-1]:
            yield " ".join(piece[words[0].start : words[-1].end].split())
        start += len(piece) if is_last else found[-1][0].start
        size = CHARACTERS_AT_ONCE
