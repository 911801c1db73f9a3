"""The numbers that the five papers print, to show beside measured ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import pandas

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Table
from crossner_cli.reports.runs import Provenance

# Numbers that the papers print, one per row. ``printed`` (the method) and ``variant`` are the paper's words,
# ``method`` and ``regime`` the names that crossner has for them, empty without one; ``adapted`` says whether the
# encoder was adapted to raw text; a ``target`` may be ``domain:type``, or ``average`` over the five CrossNER domains.
PUBLISHED = Path(__file__).parent / "published_results.csv"
PAPERS = {
    "liu2021crossner": "Liu et al. (2021), CrossNER",
    "hu2022laner": "Hu et al. (2022), LANER",
    "liu2020zero": "Liu, Winata and Fung (2020), zero-resource",
    "jia2019": "Jia, Liang and Zhang (2019), cross-domain language models",
    "jiazhang2020": "Jia and Zhang (2020), multi-cell LSTM",
}
RELABELLED = ("politics", "science", "music", "literature", "ai")
# The columns that the numbers of one printed row share.
ROW = ["paper", "table", "printed", "variant", "encoder", "source"]


def read_published(targets: Collection[str] | None = None, metric: str = "F1") -> pandas.DataFrame:
    """Read the printed numbers for some targets, or over all entity types, in the order of the papers."""
    rows = pandas.read_csv(PUBLISHED, keep_default_na=False)
    wanted = ~rows["target"].str.contains(":") if targets is None else rows["target"].isin(targets)
    return rows[wanted & (rows["metric"] == metric)].reset_index(drop=True)


def mark_comparable(rows: pandas.DataFrame, measured: Iterable[Provenance]) -> list[bool]:
    """Say which printed rows can stand beside what was measured; all where nothing was.

    The method must be the same, and the regime where the row names one. A row with adaptation to raw text stands
    beside adapted taggers only.
    """
    ways = {(one.method, one.regime, one.corpus_share != 0) for one in measured}
    return [
        not ways
        or any(
            row.method == method and row.regime in ("", regime) and (row.adapted == "no" or is_adapted)
            for method, regime, is_adapted in ways
        )
        for row in rows.itertuples()
    ]


def published_tables(published: pandas.DataFrame) -> list[Block]:
    """Show the printed numbers in a table for each table of a paper, its rows as printed."""
    blocks: list[Block] = []
    for (paper, place), numbers in published.groupby(["paper", "table"], sort=False):
        targets = list(numbers["target"].unique())
        numbers = numbers.assign(row=numbers.groupby(ROW, sort=False).ngroup())
        values = numbers.pivot(index="row", columns="target", values="value").reindex(columns=targets)
        rows = [
            ("; ".join(filter(None, (row.printed, row.variant, row.encoder))), row.source, *map(_score, cells))
            for row, cells in zip(numbers.drop_duplicates("row").itertuples(), values.to_numpy(), strict=True)
        ]
        title = f"Published, not measured here: {PAPERS[paper]}, {place.lower()}, F1"
        blocks.append(Table(title, ("method and encoder", "source", *targets), rows, texts=(0, 1)))
        for remark, noted in numbers[numbers["notes"] != ""].groupby("notes", sort=False):
            blocks.append(Line(f"{', '.join(noted['printed'].unique())}: {remark}"))
    if published["target"].isin(RELABELLED).any():
        text = (
            "Published numbers on the CrossNER domains were measured before their labels were corrected (2021-01-05)."
        )
        blocks.append(Line(text))
    return blocks


def _score(mean: float) -> str:
    return figures.score(None if pandas.isna(mean) else mean)
