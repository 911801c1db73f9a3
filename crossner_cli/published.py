"""Numbers that the five papers print: facts to stand beside measured ones, never among them."""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "published_results.csv"
PAPERS = {
    "liu2021crossner": "Liu et al. (2021), CrossNER",
    "hu2022laner": "Hu et al. (2022), LANER",
    "liu2020zero": "Liu, Winata and Fung (2020), zero-resource",
    "jia2019": "Jia, Liang and Zhang (2019), cross-domain language models",
    "jiazhang2020": "Jia and Zhang (2020), multi-cell LSTM",
}
RELABELLED = ("politics", "science", "music", "literature", "ai")


@dataclass(frozen=True)
class Published:
    """One printed number.

    Args:
        paper: Key of the paper in ``PAPERS``.
        table: Where it is printed.
        method: As printed.
        variant: What tells rows of one method apart.
        encoder: What reads the words.
        source: Source domain, or ``none``.
        target: Target domain; ``domain:type`` is of one entity type, ``average`` of the five of CrossNER.
        metric: ``F1``, ``precision`` or ``recall``.
        value: In percent.
        notes: On how many runs, and what to beware of.
    """

    paper: str
    table: str
    method: str
    variant: str
    encoder: str
    source: str
    target: str
    metric: str
    value: float
    notes: str

    @property
    def row(self) -> tuple[str, ...]:
        """What numbers of one row of the printed table share."""
        return self.paper, self.table, self.method, self.variant, self.encoder, self.source


def published_results(targets: Collection[str] | None = None, metric: str = "F1") -> list[Published]:
    """Printed numbers for some targets, in the order of the papers; without targets all that are over all types."""
    with FILE.open(encoding="utf-8", newline="") as stream:
        rows = [Published(value=float(row.pop("value")), **row) for row in csv.DictReader(stream)]
    return [
        row for row in rows
        if row.metric == metric and (row.target in targets if targets is not None else ":" not in row.target)
    ]  # fmt: skip
