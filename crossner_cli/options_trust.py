"""The options of the commands that say how far labels and scores can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from crossner_cli.evaluation.finished import FOLDS
from crossner_cli.option_fields import EVERY_COMMAND, option
from crossner_cli.options import Finetune

TaskFormat = Literal["none", "label-studio", "prodigy", "doccano"]


@dataclass(frozen=True, kw_only=True)
class CrossValidate(Finetune):
    """Score a way to train on the target's own training sentences: each is tagged by a tagger that has not seen it."""

    command = "cross-validate"
    makes_taggers: ClassVar[bool] = False

    name: str | None = option(FOLDS, "Folder of this stage in the run.", panel=EVERY_COMMAND, counts=False)
    folds: int = option(5, "Parts of the sentences; each is tagged by a tagger that learnt the others.", minimum=2)
    with_dev: bool = option(False, "Also divide the dev sentences.")
    forecast: bool = option(
        False,
        "Also train on half of the sentences, to estimate what more of them would bring; takes half as long again.",
    )
    keep: Literal["best", "last"] = option("last", "Epoch to keep; best is chosen on dev.")
    silver_weight: float = option(
        0.0,
        "Times that each sentence of prepare-data --silver is read in a pass. A teacher that has learnt the target's"
        " labels makes the scores too good.",
        minimum=0.0,
        maximum=100.0,
    )


@dataclass(frozen=True, kw_only=True)
class CheckLabels(CrossValidate):
    """Find labels of the target that are probably wrong, by taggers that have not seen them.

    The folds of ``cross-validate`` are used if they are in the run, else they are made with these options.
    """

    command = "check-labels"

    name: str | None = option(None, "Folder of this stage in the run.", panel=EVERY_COMMAND, counts=False)
    format: TaskFormat = option("none", "Annotation tool to write the sentences for: label-studio, prodigy or doccano.")
