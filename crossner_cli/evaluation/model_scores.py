"""Scores of one model: of each seed in both modes, with mean and deviation, and the reliability of its scores."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crossner_cli.data.tags import AnyScheme
from crossner_cli.evaluation.scores import Scores, mean_and_deviation
from crossner_cli.run.results import Average, ModelResult, OtherMode, SeedScores, TypeResult
from crossner_cli.run.storage import write_csv
from crossner_cli.taggers.tagging import Calibration, ScoredEntity, calibrate, measure_reliability

PER_TYPE_COLUMNS = ("precision", "recall", "f1", "support", "predicted", "correct")


@dataclass(frozen=True)
class Scored:
    """The scores of one tagger.

    Args:
        scores: Scores in the chosen mode.
        other: Scores in the other mode.
        counts: Counts of the reading, as words that the encoder could not read or had to shorten, and speed.
        entities: Predicted entities with their own scores.
        calibration: Turns these scores into probabilities; None if the tagger has none for this decoding.
        tags: Its tags of each sentence, if they are wanted.
        scheme: Their scheme.
    """

    scores: Scores
    other: Scores
    counts: Mapping[str, Any]
    entities: Sequence[ScoredEntity] = ()
    calibration: Calibration | None = None
    tags: Sequence[Sequence[str]] = ()
    scheme: AnyScheme = "bio"


def summarise(
    scored: Mapping[str, Scored], *, unknown_types: Sequence[str] = (), extra_types: Sequence[str] = ()
) -> ModelResult:
    """Average the scores of a model over its seeds.

    Args:
        scored: By seed.
        unknown_types: Gold types that the model does not know.
        extra_types: Types of the model or of its predictions that the gold tags lack.
    """
    every = list(scored.values())
    first = every[0]
    rates = [each.counts["words_per_second"] for each in every if "words_per_second" in each.counts]
    return ModelResult(
        f1=average([each.scores.f1 for each in every]),
        precision=average([each.scores.precision for each in every]),
        recall=average([each.scores.recall for each in every]),
        macro_f1=average([each.scores.macro_f1 for each in every]),
        other_mode=OtherMode(first.other.mode, average([each.other.f1 for each in every])),
        scheme=first.scheme,
        support=first.scores.support,
        repaired=sum(each.scores.repaired for each in every),
        illegal_in_gold=first.scores.illegal_in_gold,
        unreadable_words=int(first.counts.get("unreadable_words", 0)),
        shortened_words=int(first.counts.get("shortened_words", 0)),
        unknown_words=int(first.counts.get("unknown_words", 0)),
        discarded_sequences=int(sum(each.counts.get("discarded_sequences", 0) for each in every)),
        seconds=round(sum(each.counts.get("seconds", 0.0) for each in every), 2),
        words_per_second=round(statistics.fmean(rates)) if rates else None,
        reliability=_reliability(every),
        per_type=_average_types([each.scores for each in every]),
        seeds={seed: _seed_scores(each) for seed, each in scored.items()},
        unknown_types=list(unknown_types),
        extra_types=list(extra_types),
    )


def average(values: Sequence[float]) -> Average:
    """Mean and sample standard deviation."""
    return Average(**mean_and_deviation(values))


def _seed_scores(scored: Scored) -> SeedScores:
    return SeedScores(**asdict(scored.scores), other_mode_f1=scored.other.f1, **scored.counts)


def _reliability(scored: Sequence[Scored]) -> dict[str, Any] | None:
    """The reliability of scores before and after calibration, over the entities of all seeds."""
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


def _average_types(scores: Sequence[Scores]) -> list[TypeResult]:
    """Scores by type, as means over seeds; a seed without a type counts as 0."""
    rows = []
    for name in sorted({name for each in scores for name in each.per_type}):
        found = [asdict(each.per_type[name]) if name in each.per_type else {} for each in scores]
        columns = {column: [row.get(column, 0) for row in found] for column in PER_TYPE_COLUMNS}
        means = {column: statistics.fmean(values) for column, values in columns.items() if column != "support"}
        deviation = average(columns["f1"]).deviation
        rows.append(TypeResult(name, **means, support=max(columns["support"]), f1_deviation=deviation))
    return rows


def write_per_type(path: Path, models: Mapping[str, ModelResult]) -> None:
    """Write a row a model, seed and type."""
    rows = [
        [label, seed, name, *(row[column] for column in PER_TYPE_COLUMNS)]
        for label, model in models.items()
        for seed, scores in model.seeds.items()
        for name, row in scores.per_type.items()
    ]
    write_csv(path, ("model", "seed", "type", *PER_TYPE_COLUMNS), rows)
