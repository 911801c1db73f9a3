"""Scores of entities that can be read as probabilities: fitted on dev sentences, measured on any.

A tagger's own score of an entity is the lowest probability among the tags of its words. Taggers are surer than they are
right, so ``p = sigmoid(slope * log(score / (1 - score)) + intercept)`` is fitted to whether the entities predicted on
dev are right (Platt, 1999). A higher score stays a higher one. A Gaussian prior of unit width around slope 1 and
intercept 0, which leave scores as they are, keeps few entities from saying much.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from crossner_cli.data.tags import Span, to_spans
from crossner_cli.errors import CrossNERError
from crossner_cli.taggers.folder import DESCRIPTION, read_description
from crossner_cli.taggers.tagging import Tagged

METHOD = "logistic regression on the log-odds of the lowest tag probability of an entity, fitted on dev"
BINS, ENTRY = 10, "calibration"
# Of a score that is 0 or 1 in the number format it was computed in.
FURTHEST = 1e-6
MOST_STEPS, SMALL_ENOUGH = 100, 1e-10


class ScoredEntity(NamedTuple):
    """A predicted entity: its score, and whether a gold entity has the same words and type."""

    score: float
    is_correct: bool


@dataclass(frozen=True)
class Calibration:
    """A map from scores to probabilities.

    Args:
        slope: Of the log-odds of a score; never negative.
        intercept: Added to them.
        entities: Number of predicted entities that the two were fitted to.
        correct: Number of these that were right.
    """

    slope: float
    intercept: float
    entities: int
    correct: int

    def __call__(self, score: float) -> float:
        """The probability that an entity of this score is right."""
        return _sigmoid(self.slope * log_odds(score) + self.intercept)

    def to_json(self) -> dict[str, Any]:
        """The record that ``read_calibration`` reads."""
        return {"method": METHOD, **dataclasses.asdict(self)}


def read_calibration(folder: Path) -> Calibration | None:
    """The calibration of a tagger's folder; None where the tagger was saved without one.

    Raises:
        CrossNERError: The folder is no tagger's, or what it holds are no finite numbers.
    """
    record = read_description(folder).get(ENTRY)
    if record is None:
        return None
    names = [field.name for field in dataclasses.fields(Calibration)]
    values: list[Any] = [record.get(name) for name in names] if isinstance(record, dict) else [None]
    if not all(type(value) in (int, float) and math.isfinite(value) for value in values):
        raise CrossNERError(
            f"{folder / DESCRIPTION}: {ENTRY} must hold the numbers {', '.join(names)}.", hint="Train the tagger again."
        )
    return Calibration(*values)


def score_entity(tagged: Tagged, span: Span) -> float:
    """Return the tagger's own score of an entity: the lowest probability among its tags."""
    return min(tagged.probabilities[span.start : span.end])


def score_entities(gold: Sequence[Sequence[str]], tagged: Sequence[Tagged]) -> list[ScoredEntity]:
    """Score every predicted entity of some sentences; a tag that continues nothing opens one, as in conlleval."""
    found: list[ScoredEntity] = []
    for gold_tags, each in zip(gold, tagged, strict=True):
        right = set(to_spans(gold_tags))
        found += [ScoredEntity(score_entity(each, span), span in right) for span in to_spans(each.tags)]
    return found


def fit_calibration(entities: Sequence[ScoredEntity]) -> Calibration:
    """Find the likeliest slope and intercept under the prior, by Newton's method with halved steps.

    The function is convex, so there is one answer; of no entities it is to leave scores as they are.
    """
    inputs = numpy.array([[log_odds(entity.score), 1.0] for entity in entities]).reshape(-1, 2)
    targets = numpy.array([float(entity.is_correct) for entity in entities])
    prior = numpy.array([1.0, 0.0])

    def loss(weights: Any) -> float:
        odds = inputs @ weights
        penalty = ((weights - prior) ** 2).sum() / 2
        return float(numpy.logaddexp(0.0, odds).sum() - (targets * odds).sum() + penalty)

    weights = prior.copy()
    for _ in range(MOST_STEPS):
        found = 0.5 * (1.0 + numpy.tanh(0.5 * (inputs @ weights)))
        gradient = inputs.T @ (found - targets) + (weights - prior)
        curvature = (inputs * (found * (1.0 - found))[:, None]).T @ inputs + numpy.eye(2)
        step = _shortened(loss, weights, numpy.linalg.solve(curvature, gradient))
        weights = weights - step
        if abs(step).max() < SMALL_ENOUGH:
            break
    slope, intercept = (float(weight) for weight in weights)
    correct = sum(entity.is_correct for entity in entities)
    if slope < 0:  # scores that say nothing: every entity gets the share that is right
        slope, intercept = 0.0, math.log((correct + 1) / (len(entities) - correct + 1))
    return Calibration(slope, intercept, len(entities), correct)


def _shortened(loss: Callable[[Any], float], weights: Any, step: Any) -> Any:
    """The step, halved until it leads down."""
    now = loss(weights)
    while abs(step).max() > SMALL_ENOUGH and loss(weights - step) > now:
        step = step / 2
    return step


def measure_reliability(entities: Sequence[ScoredEntity]) -> dict[str, Any]:
    """Measure how far scores can be believed: in ten bins of equal width, mean score and share that is right.

    Returns:
        ``bins``, and ``ece``, the expected calibration error: the mean over entities of the distance between the mean
        score of their bin and the share of it that is right; None of no entities.
    """
    bins: list[dict[str, Any]] = []
    for number in range(BINS):
        inside = [entity for entity in entities if min(int(entity.score * BINS), BINS - 1) == number]
        bins.append(
            {
                "from": number / BINS,
                "to": (number + 1) / BINS,
                "entities": len(inside),
                "mean_score": sum(entity.score for entity in inside) / len(inside) if inside else None,
                "share_correct": sum(entity.is_correct for entity in inside) / len(inside) if inside else None,
            }
        )
    filled = [each for each in bins if each["entities"]]
    distance = sum(each["entities"] * abs(each["mean_score"] - each["share_correct"]) for each in filled)
    return {"ece": distance / len(entities) if entities else None, "bins": bins}


def calibrate(entities: Sequence[ScoredEntity], calibration: Calibration) -> list[ScoredEntity]:
    """Replace the scores of entities by probabilities."""
    return [ScoredEntity(calibration(entity.score), entity.is_correct) for entity in entities]


def log_odds(score: float) -> float:
    """``log(score / (1 - score))``, of a score that is not quite 0 or 1."""
    kept = min(max(score, FURTHEST), 1.0 - FURTHEST)
    return math.log(kept / (1.0 - kept))


def _sigmoid(value: float) -> float:
    return 0.5 * (1.0 + math.tanh(0.5 * value))
