"""Files of documents without labels, and their formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from crossner_cli.data.documents import Cut, Document
from crossner_cli.data.files import Repairs, open_bytes
from crossner_cli.data.formats.format import Source
from crossner_cli.data.formats.jsonl import DOCUMENT_HINT
from crossner_cli.data.formats.known import FORMATS
from crossner_cli.data.formats.words import TEXT, WORDS
from crossner_cli.data.tags import OUTSIDE, is_tag
from crossner_cli.data.text import segment
from crossner_cli.errors import CrossNERError

ENDINGS = {ending: name for name, row in FORMATS.items() if row.reads_documents for ending in row.endings}
# Files that hold text and are not read, by their endings.
NEVER_READ = {".conllu": "CoNLL-U", ".conllup": "CoNLL-U"}
FORMATS_HINT = (
    f"Text, columns (CoNLL), Parquet and JSONL are read. In JSONL, {DOCUMENT_HINT[0].lower()}{DOCUMENT_HINT[1:]}"
)
JSON_START = re.compile(r'\s*\[?\s*\{\s*"')
# Lines that show whether a file named as text is text.
HEAD, FEWEST_ROWS = 20, 3


def format_of_file(name: str | Path) -> str:
    """Return the name of the format for the ending of a file's name."""
    return ENDINGS.get(Path(name).suffix.lower(), "text")


def read_file(
    path: Path, repairs: Repairs, *, input_format: str | None = None, column: str = TEXT, cut: Cut = segment
) -> Iterator[Document]:
    """Read the documents of a file, as ``read_documents`` does."""
    with open_bytes(path) as stream:
        yield from read_documents(
            stream, str(path), repairs, input_format=input_format, column=column, cut=cut, path=path
        )


def read_documents(
    lines: Iterable[bytes],
    name: str,
    repairs: Repairs,
    *,
    input_format: str | None = None,
    column: str = TEXT,
    cut: Cut = segment,
    path: Path | None = None,
) -> Iterable[Document]:
    """Read documents one at a time.

    A line of text is a document, and a blank one is a document without words, so that lines of input and output
    correspond. So is an object of JSONL, a row of CSV, and in columns a sentence; tags there are ignored.

    Args:
        lines: The content as bytes.
        name: The file's name, for messages; its ending shows the format.
        repairs: Counts repairs, and notes how a file was read whose name does not show it.
        input_format: The format; None finds it by the ending or the first lines.
        column: The column of CSV or key of JSONL that holds the text.
        cut: Finds the sentences and words of a text.
        path: The file; None for a stream.

    Raises:
        CrossNERError: A line is malformed or not UTF-8, or the format cannot be read from a stream.
    """
    found = input_format or format_of_file(name)
    if found == "text" and input_format is None:
        head = list(islice(lines, HEAD))
        found = _recognise(name, [line.decode("utf-8-sig", errors="replace") for line in head])
        lines = chain(head, lines)
        if found != "text":
            repairs.notes.append(f"{name}: read as {found}, as its first lines look; --input-format text reads text.")
    reads = FORMATS[found].reads_documents
    assert reads is not None
    return reads(Source(name, lines, repairs, column, cut, path))


def _recognise(name: str, head: Sequence[str]) -> str:
    """Find the format of a file by its first lines; refuse one that would be tagged as if it were text."""
    other = NEVER_READ.get(Path(name).suffix.lower()) or ("JSON" if JSON_START.match("".join(head)) else None)
    found = format_of(head)
    if other is not None and found == "text":
        start = repr(next(iter(head), "").strip()[:60])
        hint = f"JSON is read from a file: --input-format json FILE. {FORMATS_HINT} For text: --input-format text."
        raise CrossNERError(f"{name} is {other}, which is not read as it is: {start}.", hint=hint)
    return found


def format_of(head: Sequence[str]) -> str:
    """Find the format that the first lines of a file look like: JSONL, rows of a word and a tag, or text."""
    lines = [stripped for line in head if (stripped := line.strip())]
    if lines and all(map(_is_record, lines)):
        return "jsonl"
    return "conll" if len(lines) >= FEWEST_ROWS and all(map(_is_row, lines)) else "text"


def _is_record(line: str) -> bool:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and bool({TEXT, *WORDS} & record.keys())


def _is_row(line: str) -> bool:
    """Return whether a line is a word and a tag, perhaps with columns between."""
    fields = line.split("\t") if "\t" in line else line.split(" ")
    if len(fields) < 2 or (len(fields) > 4 and "\t" not in line):
        return False
    return fields[-1] == OUTSIDE or is_tag(fields[-1])
