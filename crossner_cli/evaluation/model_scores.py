"""Scores of one model: of each seed in both modes, with mean and deviation, and how far its scores can be believed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crossner_cli.data.tags import AnyScheme
from crossner_cli.evaluation.scores import Scores, mean_and_deviation
from crossner_cli.run.storage import write_csv
from crossner_cli.taggers.calibration import Calibration, ScoredEntity, calibrate, measure_reliability

AVERAGES = ("f1", "precision", "recall", "macro_f1")
PER_TYPE_COLUMNS = ("precision", "recall", "f1", "support", "predicted", "correct")


@dataclass(frozen=True)
class Scored:
    """One tagger's scores.

    Args:
        scores: In the mode asked for.
        other: In the other mode.
        counts: Numbers about the reading: words that the encoder could not read or had to shorten, speed.
        entities: What it predicted, with its own scores.
        calibration: What makes probabilities of them; None where the tagger has none for this decoding.
        tags: Its tags of each sentence, where they are wanted.
        scheme: Their scheme.
    """

    scores: Scores
    other: Scores
    counts: dict[str, float]
    entities: Sequence[ScoredEntity] = ()
    calibration: Calibration | None = None
    tags: Sequence[Sequence[str]] = ()
    scheme: AnyScheme = "bio"


def summarise(scored: dict[str, Scored]) -> dict[str, Any]:
    """Mean and sample deviation over seeds, and every seed's scores."""
    first = next(iter(scored.values()))
    averages = {name: mean_and_deviation([getattr(each.scores, name) for each in scored.values()]) for name in AVERAGES}
    return {
        **averages,
        "other_mode": {"mode": first.other.mode, "f1": mean_and_deviation([each.other.f1 for each in scored.values()])},
        "scheme": first.scheme,
        "support": first.scores.support,
        "repaired": sum(each.scores.repaired for each in scored.values()),
        "illegal_in_gold": first.scores.illegal_in_gold,
        "unreadable_words": int(first.counts.get("unreadable_words", 0)),
        "shortened_words": int(first.counts.get("shortened_words", 0)),
        "unknown_words": int(first.counts.get("unknown_words", 0)),
        "discarded_sequences": int(sum(each.counts.get("discarded_sequences", 0) for each in scored.values())),
        "seconds": round(sum(each.counts.get("seconds", 0.0) for each in scored.values()), 2),
        "words_per_second": _rate(list(scored.values())),
        "reliability": _reliability(list(scored.values())),
        "per_type": _type_rows(scored),
        "seeds": {
            seed: {**asdict(each.scores), "other_mode_f1": each.other.f1, **each.counts}
            for seed, each in scored.items()
        },
    }  # fmt: skip


def _reliability(scored: Sequence[Scored]) -> dict[str, Any] | None:
    """How far scores can be believed before and after calibration, over the entities of all seeds."""
    entities = [entity for each in scored for entity in each.entities]
    if not entities:
        return None
    after = [calibrate(each.entities, each.calibration) for each in scored if each.calibration is not None]
    return {
        "before": measure_reliability(entities),
        "after": measure_reliability([entity for each in after for entity in each])
        if len(after) == len(scored)
        else None,
    }


def _rate(scored: Sequence[Scored]) -> int | None:
    rates = [each.counts["words_per_second"] for each in scored if "words_per_second" in each.counts]
    return round(statistics.fmean(rates)) if rates else None


def _type_rows(scored: dict[str, Scored]) -> list[dict[str, Any]]:
    """Scores by type, as means over seeds; a seed that neither has nor predicts a type counts as 0."""
    rows = []
    sides = [each.scores.per_type for each in scored.values()]
    for name in sorted({name for side in sides for name in side}):
        found = [asdict(side[name]) if name in side else {} for side in sides]
        row: dict[str, Any] = {"type": name}
        for column in ("precision", "recall", "f1", "predicted", "correct"):
            row[column] = statistics.fmean([each.get(column, 0) for each in found])
        row["support"] = max(each.get("support", 0) for each in found)
        row["f1_deviation"] = mean_and_deviation([each.get("f1", 0.0) for each in found])["deviation"]
        rows.append(row)
    return rows


def write_per_type(path: Path, models: dict[str, Any]) -> None:
    """A row a model, seed and type."""
    rows = [
        [label, seed, name, *(row[column] for column in PER_TYPE_COLUMNS)]
        for label, model in models.items()
        for seed, scores in model["seeds"].items()
        for name, row in scores["per_type"].items()
    ]
    write_csv(path, ("model", "seed", "type", *PER_TYPE_COLUMNS), rows)
