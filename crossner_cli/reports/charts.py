"""Charts as inline SVG: bars and a heat map, in the colours of the page; none needs colour alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crossner_cli.reports.markup import escape

ROW, LABEL, BAR, VALUE = 22, 170, 220, 160  # pixels
CELL, HEADING = 34, 130
STRONGEST = 0.6  # opacity that leaves text readable on both backgrounds
LONGEST_LABEL = 24


@dataclass(frozen=True)
class Bar:
    """One bar.

    Args:
        label: What it is.
        value: Its length.
        text: The value as people read it.
        deviation: Half the length of the whisker at its end.
    """

    label: str
    value: float
    text: str
    deviation: float | None = None


def bar_chart(title: str, bars: Sequence[Bar], maximum: float | None = None) -> str:
    """Horizontal bars with their values beside them.

    Args:
        title: What is shown.
        bars: From top to bottom.
        maximum: Value of the full width; default: the largest.
    """
    full = maximum or max((bar.value for bar in bars), default=0) or 1
    rows = "".join(_bar(bar, number, full) for number, bar in enumerate(bars))
    return _figure(title, LABEL + BAR + VALUE, ROW * len(bars), rows)


def _bar(bar: Bar, number: int, full: float) -> str:
    top = ROW * number
    length = BAR * min(1.0, max(0.0, bar.value / full))
    parts = [
        f'<text x="{LABEL - 8}" y="{top + 15}" text-anchor="end">{escape(shorten(bar.label))}</text>',
        f'<rect class="bar" x="{LABEL}" y="{top + 3}" width="{length:.1f}" height="{ROW - 7}"/>',
    ]
    end = LABEL + length
    if bar.deviation:
        half = BAR * bar.deviation / full
        low, high = max(LABEL, end - half), min(LABEL + BAR, end + half)
        parts.append(f'<path class="whisker" d="M{low:.1f} {top + 10.5:.1f}H{high:.1f}"/>')
        end = max(end, high)
    parts.append(f'<text x="{end + 6:.1f}" y="{top + 15}">{escape(bar.text)}</text>')
    return f"<g><title>{escape(f'{bar.label}: {bar.text}')}</title>{''.join(parts)}</g>"


def heat_map(title: str, rows: Sequence[str], columns: Sequence[str], table: Sequence[Sequence[float]]) -> str:
    """A table of counts, each cell as strong as its share of its row; the diagonal is where names agree.

    Args:
        title: What is shown.
        rows: Their names.
        columns: Their names.
        table: A row of counts for each name.
    """
    headings = "".join(
        f'<text transform="translate({LABEL + CELL * number + 21} {HEADING - 6}) rotate(-50)">'
        f"{escape(shorten(name))}</text>"
        for number, name in enumerate(columns)
    )
    cells = "".join(
        f'<text x="{LABEL - 8}" y="{HEADING + CELL * number + 22}" text-anchor="end">{escape(shorten(name))}</text>'
        + "".join(_cell(name, column, value, sum(table[number]), number, place)
                  for place, (column, value) in enumerate(zip(columns, table[number], strict=True)))
        for number, name in enumerate(rows)
    )  # fmt: skip
    width = LABEL + CELL * len(columns) + HEADING
    return _figure(title, width, HEADING + CELL * len(rows), headings + cells)


def _cell(row: str, column: str, value: float, total: float, number: int, place: int) -> str:
    left, top = LABEL + CELL * place, HEADING + CELL * number
    strength = STRONGEST * value / total if total else 0.0
    kind = "diagonal" if row == column else "cell"
    shown = f"{value:.0f}" if value >= 0.5 or not value else f"{value:.1f}"
    text = f'<text x="{left + CELL / 2}" y="{top + 22}" text-anchor="middle">{shown}</text>' if value else ""
    return (
        f"<g><title>{escape(f'{row} -> {column}: {value:g}')}</title>"
        f'<rect class="{kind}" x="{left}" y="{top}" width="{CELL}" height="{CELL}" fill-opacity="{strength:.3f}"/>'
        f"{text}</g>"
    )


def shorten(text: str) -> str:
    """A label that fits beside a bar; its whole is in the tooltip."""
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"


def _figure(title: str, width: int, height: int, content: str) -> str:
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">{content}</svg></figure>'
    )
