"""Numbers that the five papers print: facts to stand beside measured ones, never among them.

``published_results.csv`` has a row a number. What the paper prints is in ``printed`` (the method) and ``variant``;
``method`` and ``regime`` are the names that crossner has for them, empty without one. ``adapted`` tells whether the
encoder was adapted to raw text. A ``target`` may be ``domain:type``, or ``average`` over the five CrossNER domains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas

if TYPE_CHECKING:
    from crossner_cli.reports.measured import Provenance

FILE = Path(__file__).parent / "published_results.csv"
PAPERS = {
    "liu2021crossner": "Liu et al. (2021), CrossNER",
    "hu2022laner": "Hu et al. (2022), LANER",
    "liu2020zero": "Liu, Winata and Fung (2020), zero-resource",
    "jia2019": "Jia, Liang and Zhang (2019), cross-domain language models",
    "jiazhang2020": "Jia and Zhang (2020), multi-cell LSTM",
}
RELABELLED = ("politics", "science", "music", "literature", "ai")
# What the numbers of one printed row share.
ROW = ["paper", "table", "printed", "variant", "encoder", "source"]


def published_results(targets: Collection[str] | None = None, metric: str = "F1") -> pandas.DataFrame:
    """Read the printed numbers for some targets, or over all entity types, in the order of the papers."""
    rows = pandas.read_csv(FILE, keep_default_na=False)
    wanted = ~rows["target"].str.contains(":") if targets is None else rows["target"].isin(targets)
    return rows[wanted & (rows["metric"] == metric)].reset_index(drop=True)


def mark_comparable(rows: pandas.DataFrame, measured: Iterable[Provenance]) -> list[bool]:
    """Tell which printed rows can stand beside what was measured; all where nothing was.

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
