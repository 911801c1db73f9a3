"""Lines and tables of text: what every command shows at its end, and the same as Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from crossner_cli import figures

LONGEST_HEADING = 20
SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~&])")
Row = tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """A sentence between tables; the headline holds the one number that matters first."""

    text: str
    is_headline: bool = False
    is_warning: bool = False


@dataclass(frozen=True)
class Table:
    """A table of text."""

    title: str
    columns: Row
    rows: Sequence[Row]
    summary: Sequence[Row] = ()  # below a rule, as totals and means
    texts: tuple[int, ...] = (0,)  # columns of words; the others hold numbers, which are never cut


Block = Line | Table


def warning_line(text: str) -> Line:
    """A line on what changes the meaning of a result."""
    return Line(f"Warning: {text}", is_warning=True)


def heading(label: str) -> str:
    """Break the label of a model into lines short enough for a column of numbers."""
    return "\n".join(line.replace("/ ", "/") for line in textwrap.wrap(label.replace("/", "/ "), LONGEST_HEADING))


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """Shorten labels that are paths to their shortest distinct ends."""
    parts = {label: PurePath(label).parts for label in labels}

    def is_alone(label: str, length: int) -> bool:
        end = parts[label][-length:]
        return all(others[-length:] != end for other, others in parts.items() if other != label)

    def short_name(label: str) -> str:
        ends = ("/".join(parts[label][-length:]) for length in range(1, len(parts[label])) if is_alone(label, length))
        return next(ends, label)

    return {label: short_name(label) for label in parts}


def renamed(
    records: Iterable[Mapping[str, Any]], fields: Sequence[str], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Replace the values of some fields by their names, where they have one."""
    return [{**record, **{field: names.get(record[field], record[field]) for field in fields}} for record in records]


def to_markdown(blocks: Sequence[Block], *, level: int) -> str:
    """Write blocks as Markdown, with headings of tables at a level and numbers to the right."""
    parts = []
    for block in blocks:
        if isinstance(block, Line):
            text = escape_markdown(block.text)
            parts.append(f"**{text}**" if block.is_headline else text)
            continue
        border = ["---" if number in block.texts else "---:" for number in range(len(block.columns))]
        columns, *rows = [list(map(escape_markdown, row)) for row in (block.columns, *block.rows, *block.summary)]
        lines = [f"| {' | '.join(row)} |" for row in (columns, border, *rows)]
        parts.append(f"{'#' * level} {escape_markdown(block.title)}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows letter by letter, on one line."""
    return SIGNS.sub(r"\\\1", figures.printable(" ".join(text.split("\n"))))
