"""The options of ``crossner adapt``. This module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from crossner_cli.errors import CrossNERError
from crossner_cli.option_fields import OnDevice, option
from crossner_cli.options import ENCODER_HELP

SizeName = Literal["quick", "standard", "thorough"]


@dataclass(frozen=True, kw_only=True)
class Adapt(OnDevice):
    """Take a tagger to a new domain: run every stage that helps, and compare the result with simpler taggers.

    The stages are ordinary ones of the run directory: an interrupted command continues, and each stage can be used,
    changed and made again by its own command.
    """

    command = "adapt"
    makes_stage: ClassVar[bool] = False
    source: list[str] = option([], "Labelled source domain, as prepare-data takes it; default: conll2003. Repeatable.")
    target: list[str] = option([], "Labelled target domain, likewise. Repeatable: several files are read as one.")
    corpus: list[Path] = option([], "Raw text of the target, as prepare-data takes it. Repeatable.")
    entities: list[Path] = option(
        [],
        "Names and their types: with them, sentences of the raw text become labels of a further source. Repeatable.",
        needs="corpus",
    )
    silver: str | None = option(None, "Sentences that a teacher labelled; without, one is trained and labels raw text.")
    map_types: str = option("auto", "Source types to rename as in the target, as prepare-data takes them.")
    dev_from_train: float | None = option(
        None, "Share of train to use as dev in a domain without dev.", minimum=0.0, maximum=0.9
    )
    encoder: str = option("minilm", ENCODER_HELP)
    seeds: str | None = option(
        None,
        "Seeds of the taggers after the source, as 1,2,3; their student has the first. Default: 1 to 5, by --size.",
    )
    size: SizeName = option(
        "standard",
        "quick: no teachers; standard: three, for 6,000 sentences of raw text; thorough: five, for 20,000. With 100"
        " target sentences, 3, 12 and some 45 minutes besides the source, on two cores.",
    )
    plan: bool = option(False, "Print the commands and stop.")

    def check_needs(self) -> None:
        """Refuse options without effect or without what they need."""
        super().check_needs()
        if not self.target:
            raise CrossNERError(
                "adapt needs a target: sentences of your domain with labels.", hint="Add --target DATASET."
            )
