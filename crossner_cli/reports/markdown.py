"""Lines and tables as Markdown, in which whatever data hold is shown as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crossner_cli.reports.blocks import Block, Line

SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return SIGNS.sub(r"\\\1", " ".join(text.split("\n")))


def to_markdown(blocks: Sequence[Block], *, level: int) -> str:
    """Lines and tables as Markdown; numbers to the right.

    Args:
        blocks: What to write.
        level: Of the headings of tables.
    """
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
