"""What is shown at the end of a command is made of: lines and tables of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

LONGEST_HEADING = 20
# Before what a reader of the numbers should know.
WARNING = "Warning: "
Row = tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """A sentence between tables; the headline holds the one number that matters first."""

    text: str
    is_headline: bool = False


@dataclass(frozen=True)
class Table:
    """A table of text.

    Args:
        title: What it shows.
        columns: Their names.
        rows: As many texts as columns.
        summary: Rows below a rule, as totals and means.
        texts: Columns of words; the others hold numbers, which are never cut.
    """

    title: str
    columns: Row
    rows: Sequence[Row]
    summary: Sequence[Row] = ()
    texts: tuple[int, ...] = (0,)


Block = Line | Table


def heading(label: str) -> str:
    """The label of a model, in lines short enough for a column of numbers."""
    return "\n".join(line.replace("/ ", "/") for line in textwrap.wrap(label.replace("/", "/ "), LONGEST_HEADING))


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """What a table calls models: a path by as much of its end as no other label has."""
    parts = {label: PurePath(label).parts for label in labels}

    def is_alone(label: str, length: int) -> bool:
        end = parts[label][-length:]
        return all(others[-length:] != end for other, others in parts.items() if other != label)

    return {
        label: next(("/".join(own[-length:]) for length in range(1, len(own)) if is_alone(label, length)), label)
        for label, own in parts.items()
    }  # fmt: skip


def renamed(
    records: Iterable[Mapping[str, Any]], fields: Sequence[str], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Records with what some of their fields hold called otherwise, where there is another name for it."""
    return [{**record, **{field: names.get(record[field], record[field]) for field in fields}} for record in records]
