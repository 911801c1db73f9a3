"""What people give to be tagged: plain text, JSONL, columns or Parquet, read piece by piece in constant memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from crossner_cli.data.jsonl_files import LIST_HINT, is_writable, parse_records
from crossner_cli.data.parquet_files import TEXT, WORDS, read_rows
from crossner_cli.data.readers import BAD_LINE, Repairs, numbered_lines, parse_columns
from crossner_cli.data.sentence_borders import sentence_borders
from crossner_cli.data.tags import OUTSIDE, split_tag
from crossner_cli.data.text import Word, segment
from crossner_cli.errors import BadLine, CrossNERError

Format = Literal["text", "conll", "jsonl", "parquet"]
Cut = Callable[[str], Sequence[Sequence[Word]]]
ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".conll": "conll", ".tsv": "conll", ".bio": "conll", ".iob": "conll",
    ".iob2": "conll", ".bioes": "conll", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
JSONL_HINT = 'A line is {"text": "Anna met Peter."} or {"words": ["Anna", "met", "Peter", "."]}.'
# What has text in it and is not read, by its ending, and what makes something of it that is.
NEVER_READ = {".json": "JSON", ".conllu": "CoNLL-U", ".conllup": "CoNLL-U", ".csv": "CSV"}
WAYS_OUT = {
    "JSON": f"{JSONL_HINT} {LIST_HINT}; objects over several"
    " lines: jq -c . FILE > LINES.jsonl; to rename a key: jq -c '.text = .sentence' FILE > LINES.jsonl.",
    "CSV": "Make JSONL of it, of the column that holds the text: python -c \"import pandas; pandas.read_csv('FILE')"
    ".rename(columns={'COLUMN': 'text'}).to_json('LINES.jsonl', orient='records', lines=True)\".",
    "CoNLL-U": "Keep the words: grep -vE '^(#|[0-9]+[-.])' FILE | cut -f 2 > WORDS.conll.",
}
JSON_START = re.compile(r'\s*\[?\s*\{\s*"')
# Lines that are looked at to tell whether what is called text is text.
HEAD, FEWEST_ROWS = 20, 3


@dataclass(frozen=True)
class Document:
    """What becomes one object of the output.

    Args:
        text: As given; of words alone, the words joined by single spaces.
        sentences: Its words with their place in ``text``; none in a blank line.
        given: The object it was read from, to be passed through.
    """

    text: str
    sentences: Sequence[Sequence[Word]]
    given: dict[str, Any] = field(default_factory=dict)


def format_of_file(name: str | Path) -> Format:
    """The format that the ending of a file's name stands for."""
    return ENDINGS.get(Path(name).suffix.lower(), "text")


def read_documents(
    stream: Iterable[bytes], name: str, repairs: Repairs, *, input_format: Format | None = None, cut: Cut = segment
) -> Iterator[Document]:
    """Read documents one at a time.

    A line of text is a document, and so is an object of JSONL; blank lines are documents without words, so that lines
    of input and output correspond. In columns a sentence is a document; tags there are not read.

    Args:
        stream: Lines as bytes.
        name: File name for messages; its ending tells the format.
        repairs: Where repairs are counted.
        input_format: The format, where the ending is not to be asked.
        cut: What finds the sentences and words of a text.

    Raises:
        CrossNERError: A line is malformed or not UTF-8, or what is taken for text looks like another format.
    """
    found = input_format or format_of_file(name)
    if found == "parquet":
        raise CrossNERError(f"{name}: Parquet cannot be read from a stream.", hint="Name the file.")
    if found == "jsonl":
        return _read_jsonl(stream, name, repairs, cut)
    if found == "conll":
        located = parse_columns(stream, name, repairs, tags_required=False)
        return (document_of_words(each.sentence.words) for each in located)
    if input_format is None:
        head = list(islice(stream, HEAD))
        _check_text(name, [line.decode("utf-8-sig", errors="replace") for line in head])
        stream = chain(head, stream)
    return (Document(line, cut(line)) for _, line in numbered_lines(stream, name, repairs))


def _check_text(name: str, head: Sequence[str]) -> None:
    """Refuse what would be tagged as if it were text, given the first lines of a file."""
    looks_like = format_of(head)
    start = repr(next(iter(head), "").strip()[:60])
    if looks_like != "text":
        raise CrossNERError(
            f"{name} is read as plain text, but its first lines look like {looks_like}: {start}.",
            hint=f"Say what it is: --input-format {looks_like}, or --input-format text.",
        )
    other = NEVER_READ.get(Path(name).suffix.lower()) or _unread_format_of(head)
    if other is not None:
        raise CrossNERError(
            f"{name} is {other}, which is not read: {start}.",
            hint=f"{WAYS_OUT[other]} Or, of text: --input-format text.",
        )


def document_of_words(words: Sequence[str], given: dict[str, Any] | None = None) -> Document:
    """A document of words joined by single spaces: of one sentence, unless ``given`` tells where each ends."""
    found, start = [], 0
    for word in words:
        found.append(Word(word, start, start + len(word)))
        start += len(word) + 1
    return _document_of_found(" ".join(words), found, given or {})


def _document_of_found(text: str, found: Sequence[Word], given: dict[str, Any]) -> Document:
    return Document(text, [found[first:end] for first, end in sentence_borders(given, len(found))], given)


def read_parquet_documents(path: Path, repairs: Repairs, *, cut: Cut = segment) -> Iterator[Document]:
    """Read the rows of a Parquet file as documents, one at a time; their other columns are passed through.

    Raises:
        CrossNERError: It is no Parquet file, has neither a text nor a words column, or a row has no text.
    """
    return _parsed(((f"{path}, row {number}", row) for number, row in read_rows(path, repairs)), repairs, cut)


def _read_jsonl(stream: Iterable[bytes], name: str, repairs: Repairs, cut: Cut) -> Iterator[Document]:
    lines, previous, skipped = 0, 0, repairs.counts[BAD_LINE]  # the last: those of files before this one

    def counted() -> Iterator[bytes]:
        nonlocal lines
        for line in stream:
            lines += 1
            yield line

    def blank_before(number: int) -> Iterator[Document]:
        # What is between two objects are blank lines, or bad ones that were skipped.
        for _ in range(number - previous - 1 - (repairs.counts[BAD_LINE] - skipped)):
            yield Document("", [])

    for number, record in parse_records(counted(), name, repairs, hint=JSONL_HINT):
        yield from blank_before(number)
        previous = number
        yield from _parsed([(f"{name}:{number}", record)], repairs, cut)
        skipped = repairs.counts[BAD_LINE]
    yield from blank_before(lines + 1)


def _parsed(records: Iterable[tuple[str, dict[str, Any]]], repairs: Repairs, cut: Cut) -> Iterator[Document]:
    """The documents of records that hold one, each with its place."""
    for place, record in records:
        try:
            document = _document_of_record(record, place, cut)
        except BadLine as problem:
            repairs.refuse(problem, place)
        else:
            yield document


def _document_of_record(record: dict[str, Any], place: str, cut: Cut) -> Document:
    """Words as given, found in the text where there is one; else the text, cut into words.

    Beside a text a list of objects, as Prodigy's tokens are, holds no words.
    """
    text = record.get(TEXT)
    if text is not None:
        _check_strings([text], f"{place}: text", "a string")
    lists = {key: record[key] for key in WORDS if record.get(key) is not None}
    key = next((key for key, words in lists.items() if text is None or not _holds_objects(words)), None)
    if key is None:
        if text is None:
            raise BadLine(
                f"{place}: found neither text nor words, only {', '.join(map(repr, record)) or 'an empty object'}.",
                hint=JSONL_HINT,
            )
        return Document(text, cut(text), record)
    words = record[key]
    if not isinstance(words, list):
        raise BadLine(f"{place}: {key} is no list.", hint=JSONL_HINT)
    _check_strings(words, f"{place}: {key}", "strings")
    return document_of_words(words, record) if text is None else _find_words(text, words, record, place)


def _holds_objects(words: Any) -> bool:
    return isinstance(words, list) and bool(words) and isinstance(words[0], dict)


def _check_strings(values: list[Any], what: str, expected: str) -> None:
    wrong = next((value for value in values if not isinstance(value, str)), None)
    if wrong is not None or None in values:
        raise BadLine(f"{what} holds a value of type {type(wrong).__name__}, expected {expected}.", hint=JSONL_HINT)
    if not is_writable("".join(values)):
        raise BadLine(f"{what} holds half a surrogate pair, which is no character.",
                      hint="Write whole characters, as \\ud83d\\ude00 or the character itself.")  # fmt: skip


def _find_words(text: str, words: list[str], record: dict[str, Any], place: str) -> Document:
    found, end = [], 0
    for number, word in enumerate(words, start=1):
        start = text.find(word, end)
        if start < 0:
            raise BadLine(
                f"{place}: word {number}, {word!r}, is not in the text behind the words before it.",
                hint="Give text or words, or words that are cut from the text.",
            )
        end = start + len(word)
        found.append(Word(word, start, end))
    return _document_of_found(text, found, record)


def format_of(head: Sequence[str]) -> Format:
    """What the first lines of a file look like: JSONL of words or text, rows of a word and a tag, or text."""
    lines = [stripped for line in head if (stripped := line.strip())]
    if lines and all(_is_record(line) for line in lines):
        return "jsonl"
    if len(lines) >= FEWEST_ROWS and all(_is_row(line) for line in lines):
        return "conll"
    return "text"


def _unread_format_of(head: Sequence[str]) -> str | None:
    """What the first lines look like, where it is no text and not read either."""
    if JSON_START.match("".join(head)):
        return "JSON"
    lines = [line for line in head if line.strip() and not line.startswith("#")]
    columns = [line.split("\t") for line in lines]
    return "CoNLL-U" if lines and all(len(each) == 10 and each[0][:1].isdecimal() for each in columns) else None


def _is_record(line: str) -> bool:
    if not line.startswith("{"):
        return False
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and bool({"text", "words", "tokens"} & record.keys())


def _is_row(line: str) -> bool:
    """Whether a line is a word and a tag, perhaps with columns between."""
    fields = line.split("\t") if "\t" in line else line.split(" ")
    if len(fields) < 2 or (len(fields) > 4 and "\t" not in line):
        return False
    if fields[-1] == OUTSIDE:
        return True
    try:
        split_tag(fields[-1])
    except ValueError:
        return False
    return True
