"""Documents to be tagged: plain text, JSON, CSV, columns or Parquet, read piece by piece in constant memory.

Parquet needs pyarrow, the pip extra ``parquet``.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from crossner_cli.data.files import Repairs, number_lines, open_bytes
from crossner_cli.data.formats.columns import parse_columns
from crossner_cli.data.formats.records import parse_lines, read_records
from crossner_cli.data.formats.spans import abbreviate, check_strings
from crossner_cli.data.formats.words import SENTENCES, TAGS, TEXT, WORDS, sentence_borders
from crossner_cli.data.tables import COLUMN_HINT, read_csv
from crossner_cli.data.tags import OUTSIDE, is_tag
from crossner_cli.data.text import Word, segment
from crossner_cli.errors import BadLine, CrossNERError
from crossner_cli.run.environment import import_optional

Format = Literal["text", "conll", "jsonl", "json", "csv", "parquet"]
Cut = Callable[[str], Sequence[Sequence[Word]]]
ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    **dict.fromkeys((".conll", ".tsv", ".bio", ".iob", ".iob2", ".bioes"), "conll"),
    ".parquet": "parquet",
    ".pq": "parquet",
}
JSONL_HINT = 'A line is {"text": "Anna met Peter."} or {"words": ["Anna", "met", "Peter", "."]}.'
# Files that hold text and are not read, by their endings.
NEVER_READ = {".conllu": "CoNLL-U", ".conllup": "CoNLL-U"}
FORMATS_HINT = f"Text, columns (CoNLL), Parquet and JSONL are read. In JSONL, {JSONL_HINT[0].lower()}{JSONL_HINT[1:]}"
JSON_START = re.compile(r'\s*\[?\s*\{\s*"')
# Lines that tell whether a file that is called text is text.
HEAD, FEWEST_ROWS = 20, 3
# Columns of tagged documents, and the column for other keys of objects that were not read from Parquet.
COLUMNS, GIVEN = (TEXT, WORDS[0], TAGS[0], "entities", SENTENCES, "calibrated"), "given"
ROWS_READ, ROWS_WRITTEN = 1_024, 16_384
NO_TEXT_HINT = f"{COLUMN_HINT} Words are read from a column {WORDS[0]!r}."


@dataclass(frozen=True)
class Document:
    """One object of the output: a text, its words with their place in it, and the object it was read from.

    The text of words alone is the words joined by single spaces; a blank line has no sentence.
    """

    text: str
    sentences: Sequence[Sequence[Word]]
    given: dict[str, Any] = field(default_factory=dict)


def format_of_file(name: str | Path) -> Format:
    """The format that the ending of a file's name stands for."""
    return ENDINGS.get(Path(name).suffix.lower(), "text")


def read_file(
    path: Path, repairs: Repairs, *, input_format: Format | None = None, column: str = TEXT, cut: Cut = segment
) -> Iterator[Document]:
    """Read the documents of a file, as ``read_documents`` does, also Parquet, and JSON: an array, read whole."""
    found = input_format or format_of_file(path)
    if found == "parquet":
        yield from read_parquet_documents(path, repairs, column=column, cut=cut)
    elif found == "json":
        records = ((each.place, each.value) for each in read_records(path, repairs, JSONL_HINT))
        yield from _parse_all(records, repairs, cut, column)
    else:
        with open_bytes(path) as stream:
            yield from read_documents(stream, str(path), repairs, input_format=input_format, column=column, cut=cut)


def read_documents(
    stream: Iterable[bytes],
    name: str,
    repairs: Repairs,
    *,
    input_format: Format | None = None,
    column: str = TEXT,
    cut: Cut = segment,
) -> Iterator[Document]:
    """Read documents one at a time.

    A line of text is a document, and a blank one is a document without words, so that lines of input and output
    correspond. So is an object of JSONL, a row of CSV, and in columns a sentence; tags there are ignored.

    Args:
        stream: Lines as bytes.
        name: The file's name, for messages; its ending tells the format.
        repairs: Counts repairs, and notes how a file was read whose name does not tell.
        input_format: The format, if neither the ending nor the first lines tell it.
        column: The column of CSV or key of JSONL that holds the text.
        cut: Finds the sentences and words of a text.

    Raises:
        CrossNERError: A line is malformed or not UTF-8, or the format cannot be read from a stream.
    """
    found = input_format or format_of_file(name)
    if found == "text" and input_format is None:
        head = list(islice(stream, HEAD))
        found = _recognise(name, [line.decode("utf-8-sig", errors="replace") for line in head])
        stream = chain(head, stream)
        if found != "text":
            repairs.notes.append(f"{name}: read as {found}, as its first lines look; --input-format text reads text.")
    if found in ("parquet", "json"):
        raise CrossNERError(f"{name}: {found} cannot be read from a stream.", hint="Name the file.")
    if found == "jsonl":
        records = parse_lines(number_lines(stream, name, repairs), name, repairs, hint=JSONL_HINT)
        return _parse_all(((each.place, each.value) for each in records), repairs, cut, column)
    if found == "csv":
        return _parse_all(read_csv(stream, name, repairs, column), repairs, cut, column)
    if found == "conll":
        located = parse_columns(stream, name, repairs, tags_required=False)
        return (document_of_words(each.sentence.words) for each in located)
    return (Document(line, cut(line)) for _, line in number_lines(stream, name, repairs))


def _recognise(name: str, head: Sequence[str]) -> Format:
    """The format of a file by its first lines; refuse one that would be tagged as if it were text."""
    other = NEVER_READ.get(Path(name).suffix.lower()) or ("JSON" if JSON_START.match("".join(head)) else None)
    found = format_of(head)
    if other is not None and found == "text":
        start = repr(next(iter(head), "").strip()[:60])
        hint = f"JSON is read from a file: --input-format json FILE. {FORMATS_HINT} For text: --input-format text."
        raise CrossNERError(f"{name} is {other}, which is not read as it is: {start}.", hint=hint)
    return found


def format_of(head: Sequence[str]) -> Format:
    """The format that the first lines of a file look like: JSONL, rows of a word and a tag, or text."""
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


def document_of_words(words: Sequence[str], given: dict[str, Any] | None = None) -> Document:
    """A document of words joined by single spaces: of one sentence, unless ``given`` holds the ends of sentences."""
    found, start = [], 0
    for word in words:
        found.append(Word(word, start, start + len(word)))
        start += len(word) + 1
    return _document_of_found(" ".join(words), found, given or {})


def _document_of_found(text: str, found: Sequence[Word], given: dict[str, Any]) -> Document:
    return Document(text, [found[first:end] for first, end in sentence_borders(given, len(found))], given)


def _find_words(text: str, words: Sequence[str], given: dict[str, Any]) -> Document:
    """A document of words that stand in its text, in order."""
    found, end = [], 0
    for number, word in enumerate(words, start=1):
        start = text.find(word, end)
        if start < 0:
            raise BadLine(
                f"word {number}, {word!r}, is not in the text behind the words before it.",
                hint="Give text or words, or words that are cut from the text.",
            )
        end = start + len(word)
        found.append(Word(word, start, end))
    return _document_of_found(text, found, given)


def _parse_all(records: Iterable[tuple[str, Any]], repairs: Repairs, cut: Cut, column: str) -> Iterator[Document]:
    """The documents of records, each given with its place; those without text or words are refused or counted."""
    for place, record in records:
        try:
            if isinstance(record, BadLine):
                raise record
            document = _document_of_record(record, cut, column)
        except BadLine as problem:
            repairs.refuse(problem, place)
        else:
            yield document


def _document_of_record(record: Any, cut: Cut, column: str) -> Document:
    """Words as given, with their places in the text if there is one; else the text, cut into words.

    A list of objects beside a text, as Prodigy's tokens are, holds no words. Of a task of Label Studio
    the data are read.
    """
    if not isinstance(record, dict):
        raise BadLine(f"found {abbreviate(json.dumps(record))}, which is no JSON object.", hint=JSONL_HINT)
    if isinstance(record.get("data"), dict) and column not in record:
        record = record["data"]
    text = record.get(column)
    if text is not None:
        check_strings([text], column, JSONL_HINT)
    lists = {key: record[key] for key in WORDS if record.get(key) is not None}
    key = next((key for key, words in lists.items() if text is None or _are_words(words)), None)
    if key is None:
        if text is None:
            keys = ", ".join(map(repr, record)) or "an empty object"
            raise BadLine(f"found neither {column} nor words, only {keys}.", hint=JSONL_HINT)
        return Document(text, cut(text), record)
    words = record[key]
    if not isinstance(words, list):
        raise BadLine(f"{key} is no list.", hint=JSONL_HINT)
    check_strings(words, key, JSONL_HINT)
    return document_of_words(words, record) if text is None else _find_words(text, words, record)


def _are_words(words: Any) -> bool:
    return isinstance(words, list) and not (words and isinstance(words[0], dict))


def pyarrow_module(name: str = "pyarrow") -> Any:
    """Import pyarrow, or a part of it; refuse if it is not installed."""
    return import_optional(name, "Parquet is read and written with pyarrow", extra="parquet")


def read_schema(path: Path, column: str = TEXT) -> Any:
    """The columns of a Parquet file, as pyarrow's schema; refuse a file without text or words."""
    with open_parquet(path, column) as file:
        return file.schema_arrow


def read_parquet_documents(
    path: Path, repairs: Repairs, *, column: str = TEXT, cut: Cut = segment
) -> Iterator[Document]:
    """Read the rows of a Parquet file as documents, one at a time; their other columns are passed through.

    A row group is in memory at most.

    Raises:
        CrossNERError: It is no Parquet file or damaged, has neither a text nor a words column, or a row has no text or
            a value that Python lacks.
    """
    with open_parquet(path, column) as file:
        rows = enumerate(read_rows(file, path), start=1)
        yield from _parse_all(((f"{path}, row {number}", row) for number, row in rows), repairs, cut, column)


def read_rows(file: Any, path: Path) -> Iterator[dict[str, Any] | BadLine]:
    """Read the rows of an open Parquet file; a row that Python cannot hold is given as its problem.

    Raises:
        CrossNERError: The file is damaged.
    """
    batches = file.iter_batches(batch_size=ROWS_READ, use_threads=False)
    while True:
        try:
            batch = next(batches, None)
        except (pyarrow_module().ArrowException, OSError) as error:
            raise _unreadable(path, error) from None
        if batch is None:
            return
        yield from _read_batch(batch)


def open_parquet(path: Path, column: str = TEXT) -> Any:
    """Open a Parquet file that has this column, or one of text or words.

    Raises:
        CrossNERError: It is none or damaged, has no column of text or words, or two columns of one name.
    """
    pyarrow, parquet = pyarrow_module(), pyarrow_module("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError:
        raise CrossNERError(f"{path}: the name of a column is not UTF-8.", hint="Rename the column.") from None
    names = file.schema_arrow.names
    if not {column, *WORDS} & set(names):
        raise CrossNERError(
            f"{path} has no column of {column} or words, only {', '.join(names) or 'none'}.", hint=NO_TEXT_HINT
        )
    if len(set(names)) < len(names):
        raise CrossNERError(f"{path} has two columns of one name: {', '.join(names)}.", hint="Rename one.")
    return file


def _unreadable(path: Path, error: Exception) -> CrossNERError:
    reason = " ".join(str(error).split())
    return CrossNERError(f"{path} cannot be read as Parquet: {reason}.", hint="Give a whole Parquet file.")


def _read_batch(batch: Any) -> Sequence[dict[str, Any] | BadLine]:
    """The rows of a batch; in place of a row with a value that Python cannot hold, the problem."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns.append(column.to_pylist())
        except (ValueError, OverflowError) as error:
            if batch.num_rows > 1:
                return [row for number in range(batch.num_rows) for row in _read_batch(batch.slice(number, 1))]
            if isinstance(error, UnicodeDecodeError):
                return [BadLine("it holds text that is not UTF-8.", hint="Write it anew.")]
            problem = f"the column {name!r} holds a value that cannot be passed through ({error})."
            return [BadLine(problem, hint="Write the column as text, or leave it out.")]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def output_schema(passed_through: Any = None) -> Any:
    """The columns of tagged documents, behind those of the rows they were read from, without those of the same names.

    If not all inputs were Parquet of one schema, ``passed_through`` is None and other keys are text in one column, as
    JSON.
    """
    pyarrow = pyarrow_module()
    number, string = pyarrow.int64(), pyarrow.string()
    strings, pairs = pyarrow.list_(string), pyarrow.list_(pyarrow.list_(number))
    entity = {"start": number, "end": number, "type": string, "text": string, "score": pyarrow.float64()}
    kinds = (string, strings, strings, pyarrow.list_(pyarrow.struct(list(entity.items()))), pairs, pyarrow.bool_())
    others = [pyarrow.field(GIVEN, string)] if passed_through is None else passed_through
    kept = [field for field in others if field.name not in COLUMNS]
    return pyarrow.schema([*kept, *map(pyarrow.field, COLUMNS, kinds)])


def rows_to_bytes(rows: Sequence[dict[str, Any]], schema: Any) -> bytes:
    """Write rows as the bytes of a Parquet file."""
    pyarrow, parquet = pyarrow_module(), pyarrow_module("pyarrow.parquet")
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=schema), stream)
    return stream.getvalue()


def join_files(parts: Sequence[Path], schema: Any, target: Path) -> None:
    """Write the rows of some Parquet files into one, in row groups of a like size."""
    pyarrow, parquet = pyarrow_module(), pyarrow_module("pyarrow.parquet")
    waiting: list[Any] = []
    with parquet.ParquetWriter(target, schema) as writer:
        for part in parts:
            waiting.append(parquet.read_table(part, use_threads=False))
            if sum(table.num_rows for table in waiting) >= ROWS_WRITTEN:
                writer.write_table(pyarrow.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pyarrow.concat_tables(waiting))
