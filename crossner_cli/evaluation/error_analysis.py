"""Each gold and each predicted entity in exactly one kind: correct, or one kind of error.

A pair of a gold and a predicted entity is one thing that happened, so both get its kind. Entities of the same words are
a pair: ``correct``, or ``type``. Of the others, those that overlap are paired one to one, the best pair first: the same
type before another, then the longer overlap, then the earlier place. Of the same type, the error is ``boundary_left``
(the first word differs), ``boundary_right`` (the last one) or ``boundary_both``; of another type it is
``boundary_and_type``. A gold entity that is left over is ``missed``, a predicted one ``spurious``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.tags import OUTSIDE
from crossner_cli.evaluation.spans import Mask, Numbers, Spans, ranges

KINDS = (
    "correct", "missed", "spurious", "boundary_left", "boundary_right", "boundary_both", "type", "boundary_and_type",
)  # fmt: skip
ERRORS = KINDS[1:]
CORRECT, MISSED, SPURIOUS, LEFT, RIGHT, BOTH, TYPE, BOUNDARY_AND_TYPE = range(len(KINDS))
NO_PARTNER = -1


@dataclass(frozen=True)
class ErrorAnalysis:
    """Gold and predicted entities, paired and sorted.

    Args:
        gold: Gold entities.
        predicted: Predicted ones, in the same layout.
        gold_kind: Place in ``KINDS`` of each gold entity, (G,).
        predicted_kind: The same of each predicted one, (P,).
        gold_partner: Number of the predicted entity that a gold one is paired with, or ``NO_PARTNER``, (G,).
        predicted_partner: The other way round, (P,).
    """

    gold: Spans
    predicted: Spans
    gold_kind: NDArray[np.int8]
    predicted_kind: NDArray[np.int8]
    gold_partner: Numbers
    predicted_partner: Numbers

    def counts(self, types: Sequence[str]) -> dict[str, Any]:
        """Entities of each kind: ``all`` (a pair counts once), ``gold_by_type`` and ``predicted_by_type``."""
        shape = (len(types), len(KINDS))
        gold = _table(self.gold.type, self.gold_kind, shape)
        predicted = _table(self.predicted.type, self.predicted_kind, shape)
        everything = gold.sum(axis=0)
        everything[SPURIOUS] = predicted[:, SPURIOUS].sum()
        return {
            "all": _named(everything),
            "gold_by_type": {name: _named(gold[number], SPURIOUS) for number, name in enumerate(types)},
            "predicted_by_type": {name: _named(predicted[number], MISSED) for number, name in enumerate(types)},
        }

    def confusion(self, types: Sequence[str]) -> dict[str, dict[str, int]]:
        """How often a gold type was given which predicted type: pairs, missed (to ``O``) and spurious (from ``O``).

        Returns:
            By gold type, by predicted type, each by its ``confusion_name``; ``O`` is last. A row adds up to the gold
            entities of the type, a column to the predicted ones.
        """
        outside = len(types)
        table = np.zeros((outside + 1, outside + 1), np.int64)
        is_paired = self.gold_partner != NO_PARTNER
        partners = self.predicted.type[self.gold_partner[is_paired]]
        table[:outside, :outside] = _table(self.gold.type[is_paired], partners, (outside, outside))
        table[:outside, outside] = np.bincount(self.gold.type[~is_paired], minlength=outside)
        spurious = self.predicted.type[self.predicted_partner == NO_PARTNER]
        table[outside, :outside] = np.bincount(spurious, minlength=outside)
        names = (*map(confusion_name, types), OUTSIDE)
        return {row: dict(zip(names, table[number].tolist(), strict=True)) for number, row in enumerate(names)}

    def right_spans(self) -> tuple[Numbers, Numbers]:
        """Pairs of the same words: numbers of the gold entities and of the predicted ones."""
        gold = np.flatnonzero((self.gold_kind == CORRECT) | (self.gold_kind == TYPE))
        return gold, self.gold_partner[gold]


def confusion_name(entity_type: str) -> str:
    """What confusions call a type: its name, but for a type that is called as what is no entity."""
    return f"B-{OUTSIDE}" if entity_type == OUTSIDE else entity_type


def analyse_errors(gold: Spans, predicted: Spans) -> ErrorAnalysis:
    """Pair the entities and sort what happened to each."""
    gold_kind = np.full(len(gold), MISSED, np.int8)
    predicted_kind = np.full(len(predicted), SPURIOUS, np.int8)
    gold_partner = np.full(len(gold), NO_PARTNER, np.int64)
    predicted_partner = np.full(len(predicted), NO_PARTNER, np.int64)
    exact = _same_words(gold, predicted)
    left = [_others(len(side), found) for side, found in zip((gold, predicted), exact, strict=True)]
    ours, theirs = _pair_up(gold.at(left[0]), predicted.at(left[1]))
    for first, second in (exact, (left[0][ours], left[1][theirs])):
        gold_partner[first], predicted_partner[second] = second, first
        gold_kind[first] = predicted_kind[second] = _kinds(gold.at(first), predicted.at(second))
    return ErrorAnalysis(gold, predicted, gold_kind, predicted_kind, gold_partner, predicted_partner)


def _others(size: int, numbers: Numbers) -> Numbers:
    """The numbers below a size that are not among these."""
    is_other = np.ones(size, np.bool_)
    is_other[numbers] = False
    return np.flatnonzero(is_other)


def _same_words(gold: Spans, predicted: Spans) -> tuple[Numbers, Numbers]:
    _, ours, theirs = np.intersect1d(gold.start, predicted.start, assume_unique=True, return_indices=True)
    same = gold.end[ours] == predicted.end[theirs]
    return ours[same], theirs[same]


def _kinds(gold: Spans, predicted: Spans) -> NDArray[np.int8]:
    """What happened to pairs that share at least a word."""
    same_type = gold.type == predicted.type
    same_start, same_end = gold.start == predicted.start, gold.end == predicted.end
    boundary = np.select([same_start & same_end, same_end, same_start], [CORRECT, LEFT, RIGHT], BOTH)
    other = np.where(same_start & same_end, TYPE, BOUNDARY_AND_TYPE)
    return np.where(same_type, boundary, other).astype(np.int8)


def _pair_up(gold: Spans, predicted: Spans) -> tuple[Numbers, Numbers]:
    """Pair overlapping entities one to one, the best pair first."""
    ours, theirs = _overlapping(gold, predicted)
    overlap = np.minimum(gold.end[ours], predicted.end[theirs]) - np.maximum(gold.start[ours], predicted.start[theirs])
    order = np.lexsort((theirs, ours, -overlap, gold.type[ours] != predicted.type[theirs]))
    ours, theirs = ours[order], theirs[order]
    chosen: list[tuple[Numbers, Numbers]] = []
    # A pair that is the best one of both its entities is what choosing one by one would choose, too.
    while len(ours):
        is_best = _is_first(ours, len(gold)) & _is_first(theirs, len(predicted))
        chosen.append((ours[is_best], theirs[is_best]))
        is_left = ~(_are_in(ours, chosen[-1][0], len(gold)) | _are_in(theirs, chosen[-1][1], len(predicted)))
        ours, theirs = ours[is_left], theirs[is_left]
    empty = np.zeros(0, np.int64)
    return np.concatenate([empty, *(one for one, _ in chosen)]), np.concatenate([empty, *(two for _, two in chosen)])


def _overlapping(gold: Spans, predicted: Spans) -> tuple[Numbers, Numbers]:
    """Every pair that shares a word."""
    first = np.searchsorted(gold.end, predicted.start, side="right")
    count = np.maximum(np.searchsorted(gold.start, predicted.end, side="left") - first, 0)
    return ranges(first, count), np.repeat(np.arange(len(predicted)), count)


def _is_first(numbers: Numbers, size: int) -> Mask:
    """Whether each number occurs at its place for the first time."""
    places = np.full(size, len(numbers), np.int64)
    np.minimum.at(places, numbers, np.arange(len(numbers)))
    first: Mask = places[numbers] == np.arange(len(numbers))
    return first


def _are_in(numbers: Numbers, chosen: Numbers, size: int) -> Mask:
    is_chosen = np.zeros(size, np.bool_)
    is_chosen[chosen] = True
    return is_chosen[numbers]


def _table(rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, int]) -> Numbers:
    """How often each row comes with each column."""
    keys = rows.astype(np.int64) * shape[1] + columns
    return np.bincount(keys, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)


def _named(counts: Numbers, without: int | None = None) -> dict[str, int]:
    return {kind: int(counts[number]) for number, kind in enumerate(KINDS) if number != without}
