"""Numbers that the five papers print: facts to stand beside measured ones, never among them."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "published_results.csv"
PAPERS = {
    "liu2021crossner": "Liu et al. (2021), CrossNER",
    "hu2022laner": "Hu et al. (2022), LANER",
    "liu2020zero": "Liu, Winata and Fung (2020), zero-resource",
    "jia2019": "Jia, Liang and Zhang (2019), cross-domain language models",
    "jiazhang2020": "Jia and Zhang (2020), multi-cell LSTM",
}
RELABELLED = ("politics", "science", "music", "literature", "ai")
# Our method for what papers call theirs, and our commands for the regimes they name: the first that is found counts.
METHODS = (
    (r"(BERT|DAPT)[ -]tagger", "linear"), (r"(BERT|DAPT)-CRF", "crf"), ("LANER", "laner"), ("BARTNER", "bartner"),
    (r".*MoEE", "moee"), (r".*w/ MTL", "mtl"), (r"(Bi)?LSTM-CRF|Flair", "bilstm-crf"), ("Coach", "coach"),
    ("Concept Tagger", "concept-tagger"), ("Robust Sequence Tagger", "robust-tagger"),
    (r"Multi-Cell LSTM|MULTI-CELL LSTM|OURS", "multi-cell-lstm"),
    (r"MULTI-?TASK(?!\(NER\+LM\))|DANN|BILSTM-BASED|STACKED BILSTMS|HIDDEN EXPANSION", "multi-task-lstm"),
    # One BiLSTM, alone or with language models, is what this method is without its generator.
    (r"Cross-domain LM|Ours|FINAL|Jia et al|MULTITASK|STM|CO-|MIX-DATA|FINETUNE|SELF-TRAIN|BILSTM", "cross-domain-lm"),
)  # fmt: skip
REGIMES = (
    (r"directly fine-tune|in-domain training only", "finetune"),
    (r"pre-train then fine-tune", "pretrain-source > finetune"), (r"joint(ly train| training)", "joint-train"),
)  # fmt: skip
UNADAPTED, ADAPTED = "w/o DAPT", r"DAPT|masking"


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


class Way(NamedTuple):
    """How a tagger is made, as far as printed rows tell it.

    Args:
        method: As ``crossner methods`` names it; None of one that it does not list.
        regime: The commands that train taggers on the way; None where a row names none.
        is_adapted: Whether its encoder was adapted to raw text.
    """

    method: str | None
    regime: str | None
    is_adapted: bool

    def is_like(self, measured: Way) -> bool:
        """Whether a printed row of this way can stand beside what was measured in that way; without DAPT it always can.

        A row that names no regime is of any.
        """
        return (
            self.method == measured.method
            and self.regime in (None, measured.regime)
            and (measured.is_adapted or not self.is_adapted)
        )


def way_of(number: Published) -> Way:
    """How the tagger of a printed number was made."""
    text = f"{number.method}; {number.variant}"
    return Way(
        next((name for pattern, name in METHODS if re.match(pattern, number.method)), None),
        next((name for pattern, name in REGIMES if re.search(pattern, text)), None),
        re.search(ADAPTED, text.replace(UNADAPTED, "")) is not None,
    )


def published_results(targets: Collection[str] | None = None, metric: str = "F1") -> list[Published]:
    """Printed numbers for some targets, in the order of the papers; without targets all that are over all types."""
    with FILE.open(encoding="utf-8", newline="") as stream:
        rows = [Published(value=float(row.pop("value")), **row) for row in csv.DictReader(stream)]
    return [
        row for row in rows
        if row.metric == metric and (row.target in targets if targets is not None else ":" not in row.target)
    ]  # fmt: skip
