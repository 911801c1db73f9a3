"""CSV: rows of documents, read one by one."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain

from crossner_cli.data.documents import Document
from crossner_cli.data.files import LONGEST_LINE, number_lines
from crossner_cli.data.formats.format import Format, Source
from crossner_cli.data.formats.jsonl import parse_documents
from crossner_cli.data.formats.records import Record
from crossner_cli.errors import BadLine, CrossNERError

COLUMN_HINT = "Name the column that holds the text: --text-column NAME."
SEPARATORS = ",;\t"
ROW_HINT = 'Write cells with separators, line breaks or quotes between quotes, as "a ""b"", c".'


def _read_documents(source: Source) -> Iterator[Document]:
    return parse_documents(_read_rows(source), source)


def _read_rows(source: Source) -> Iterator[Record]:
    """Yield a mapping for each row, or a ``BadLine``. The first line names the columns.

    Raises:
        CrossNERError: There is no such column, or two have the same name.
    """
    csv.field_size_limit(LONGEST_LINE)
    column = source.column
    lines = (f"{line}\n" for _, line in number_lines(source.lines, source.name, source.repairs))
    head = next(lines, column)
    rows = csv.DictReader(chain([head], lines), delimiter=max(SEPARATORS, key=head.count), strict=True)
    names = list(rows.fieldnames or ())
    if names.count(column) != 1 or len(set(names)) < len(names):
        problem = f"has no column {column!r}" if column not in names else "has two columns of the same name"
        raise CrossNERError(f"{source.name} {problem}: {', '.join(names)}.", hint=COLUMN_HINT)
    while True:
        value: object
        try:
            value = next(rows, None)
        except csv.Error as error:
            value = BadLine(f"it is not a row of CSV ({error}).", hint=ROW_HINT)
        if value is None:
            return
        if isinstance(value, dict) and (None in value or None in value.values()):
            value = BadLine(f"it does not have {len(names)} cells as line 1.", hint=ROW_HINT)
        number = rows.reader.line_num
        yield Record(value, number, f"{source.name}:{number}")


FORMAT = Format("csv", "CSV", "rows", reads_documents=_read_documents, endings=(".csv",))
