"""Rows of CSV, read one by one."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from crossner_cli.data.files import LONGEST_LINE, Repairs, number_lines
from crossner_cli.errors import BadLine, CrossNERError

COLUMN_HINT = "Name the column that holds the text: --text-column NAME."
SEPARATORS = ",;\t"
ROW_HINT = 'Write cells with separators, line breaks or quotes between quotes, as "a ""b"", c".'


def read_csv(stream: Iterable[bytes], name: str, repairs: Repairs, column: str) -> Iterator[tuple[str, Any]]:
    """Yield the rows of CSV with their places: a mapping each, or a ``BadLine``. The first line names the columns.

    Raises:
        CrossNERError: There is no such column, or two have one name.
    """
    csv.field_size_limit(LONGEST_LINE)
    lines = (f"{line}\n" for _, line in number_lines(stream, name, repairs))
    head = next(lines, column)
    rows = csv.DictReader(chain([head], lines), delimiter=max(SEPARATORS, key=head.count), strict=True)
    names = list(rows.fieldnames or ())
    if names.count(column) != 1 or len(set(names)) < len(names):
        problem = f"has no column {column!r}" if column not in names else "has two columns of one name"
        raise CrossNERError(f"{name} {problem}: {', '.join(names)}.", hint=COLUMN_HINT)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield f"{name}:{rows.reader.line_num}", BadLine(f"it is not a row of CSV ({error}).", hint=ROW_HINT)
            continue
        if row is None:
            return
        is_whole = None not in row and None not in row.values()
        short = BadLine(f"it does not have {len(names)} cells as line 1.", hint=ROW_HINT)
        yield f"{name}:{rows.reader.line_num}", row if is_whole else short
