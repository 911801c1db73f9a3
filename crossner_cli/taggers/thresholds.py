"""Thresholds of scores that give a precision, found on entities that the tagger had not learnt.

A threshold counts as reaching a precision if the lower bound of its precision does, with a confidence of 90 %. The
bound is Wilson's (1927), Probable Inference, the Law of Succession, and Statistical Inference.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crossner_cli.errors import CrossNERError
from crossner_cli.taggers.description import DESCRIPTION, THRESHOLDS, read_description

if TYPE_CHECKING:
    from crossner_cli.taggers.tagging import ScoredEntity

SCORES = (*(number / 20 for number in range(20)), 0.99, 0.999)  # of the curve of precision and recall
PRECISIONS = ("0.90", "0.95", "0.99")  # whose recall is shown
CONFIDENCE_DEVIATION = 1.2816  # normal quantile of 90 %, one-sided


class Threshold(NamedTuple):
    """A score, how many predicted entities of a type have it or more, and how many of these are right."""

    score: float
    entities: int
    correct: int


Thresholds = Mapping[str, Sequence[Threshold]]  # by type, from the lowest; each has a higher bound than those before it


@dataclass(frozen=True)
class LeastScores:
    """The lowest scores that are written, by type: as they are shown, and as the tagger gives them.

    A type that is not listed is written whatever its score.
    """

    shown: Mapping[str, float] = field(default_factory=dict)
    own: Mapping[str, float] = field(default_factory=dict)

    def keep(self, type_name: str, shown: float, own: float) -> bool:
        """Return whether an entity is written."""
        return shown >= self.shown.get(type_name, 0.0) and own >= self.own.get(type_name, 0.0)


def find_thresholds(entities: Iterable[ScoredEntity]) -> dict[str, list[Threshold]]:
    """Find the thresholds of each type at which the bound of the precision rises."""
    by_type: defaultdict[str, list[ScoredEntity]] = defaultdict(list)
    for entity in entities:
        by_type[entity.type].append(entity)
    found: dict[str, list[Threshold]] = {}
    for name, of_type in sorted(by_type.items()):
        correct, highest = sum(entity.is_correct for entity in of_type), -1.0
        steps = found[name] = []
        last = None
        for number, entity in enumerate(sorted(of_type)):
            left = len(of_type) - number
            if entity.score != last and (bound := bound_precision(correct, left)) > highest:
                highest = bound
                steps.append(Threshold(entity.score, left, correct))
            last = entity.score
            correct -= entity.is_correct
    return found


def choose_threshold(thresholds: Sequence[Threshold], precision: float) -> Threshold | None:
    """Choose the lowest threshold whose bound reaches a precision; None if none does."""
    return next((each for each in thresholds if bound_precision(each.correct, each.entities) >= precision), None)


def bound_precision(correct: int, entities: int) -> float:
    """Return the lower bound of a precision with a confidence of 90 %, by Wilson's score; 0 without entities."""
    if not entities:
        return 0.0
    share, z = correct / entities, CONFIDENCE_DEVIATION
    middle = share + z * z / (2 * entities)
    spread = z * math.sqrt(share * (1 - share) / entities + z * z / (4 * entities * entities))
    return (middle - spread) / (1 + z * z / entities)


def measure_by_score(entities: Sequence[ScoredEntity], gold: int) -> dict[str, Any]:
    """Measure precision and recall, in percent, of the entities of a score or more.

    Args:
        entities: Predicted entities.
        gold: Number of gold entities.

    Returns:
        ``curve``, a list of ``score``, ``entities``, ``precision`` and ``recall`` for each of ``SCORES`` that an entity
        has; and ``recall_at``, the highest recall with each of ``PRECISIONS``, None where no score has it.
    """
    ordered = sorted(entities, reverse=True)
    correct = list(itertools.accumulate(entity.is_correct for entity in ordered))
    ends = [number for number, (one, other) in enumerate(itertools.pairwise(ordered)) if one.score != other.score]
    shares = [(correct[end] / (end + 1), correct[end] / max(1, gold)) for end in [*ends, len(ordered) - 1] if ordered]
    recall_at = {
        wanted: max((100 * recall for precision, recall in shares if precision >= float(wanted)), default=None)
        for wanted in PRECISIONS
    }
    curve = []
    for score in SCORES:
        kept = sum(entity.score >= score for entity in ordered)
        if kept:
            shown = {"precision": 100 * correct[kept - 1] / kept, "recall": 100 * correct[kept - 1] / max(1, gold)}
            curve.append({"score": score, "entities": kept, **shown})
    return {"curve": curve, "recall_at": recall_at}


def read_thresholds(folder: Path) -> Thresholds:
    """Read the thresholds of a tagger's folder, found on dev; none where it was trained without dev.

    Raises:
        CrossNERError: The folder holds no tagger, or they are not scores and counts.
    """
    record = read_description(folder).thresholds
    try:
        return {
            name: [Threshold(float(score), int(entities), int(correct)) for score, entities, correct in steps]
            for name, steps in record.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise CrossNERError(
            f"{folder / DESCRIPTION}: {THRESHOLDS} must hold a score and two counts each.",
            hint="Train the tagger again.",
        ) from None
