"""What is told of dev sentences that choose the best epoch: where they choose nothing, and where no epoch is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import types_of
from crossner_cli.options import Optimisation


def why_nothing_scores(dev: Sequence[Sentence], types: Sequence[str], options: Optimisation) -> str:
    """That dev sentences hold no entity, or none of the types that the tagger can find; nothing where they do."""
    gold = types_of([sentence.tags or () for sentence in dev])
    if not gold:
        return f"The {options.select_on}'s dev sentences hold no entity"
    if set(gold) & set(types):
        return ""
    return f"No type of the {options.select_on}'s dev sentences ({', '.join(gold)}) is one of this tagger's " \
           f"({', '.join(types) or 'it has none'})"  # fmt: skip


def note_on_chooser(dev: Sequence[Sentence], types: Sequence[str], options: Optimisation) -> list[str]:
    """Tell of dev sentences that choose nothing, where they are to choose."""
    if options.keep == "last" or not (found := why_nothing_scores(dev, types, options)):
        return []
    return [
        f"{found}: what an epoch gets right there is chance, and where none does the last one is kept. "
        "--select-on the other domain, or call types alike with prepare-data --map-types."
    ]


def note_on_epochs(
    history: Sequence[Mapping[str, Any]], dev: Sequence[Sentence], types: Sequence[str], options: Optimisation
) -> list[str]:
    """Tell of a training that got nothing right after any epoch, where more of it could."""
    if any(epoch["score"] for epoch in history) or why_nothing_scores(dev, types, options):
        return []
    ended = "--epochs"
    if options.max_steps is not None and history[-1]["step"] >= options.max_steps:
        ended = f"--max-steps than {options.max_steps}"
    elif len(history) < options.epochs and options.patience is not None:
        ended = "--patience"
    return [
        f"after none of {len(history)} epochs is one dev entity right, and the last is kept: more {ended}, or a higher "
        "--head-learning-rate."
    ]
