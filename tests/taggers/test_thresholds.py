"""Thresholds: the lowest score of a type that has a precision, with a confidence."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.taggers.tagging import ScoredEntity
from crossner_cli.taggers.thresholds import (
    Threshold,
    bound_precision,
    choose_threshold,
    find_thresholds,
    measure_by_score,
)

ENTITIES = st.lists(
    st.builds(ScoredEntity, st.sampled_from([0.1, 0.5, 0.7, 0.9]), st.booleans(), st.sampled_from("ab"))
)


def test_the_bound_is_wilsons() -> None:
    assert bound_precision(0, 0) == 0
    assert bound_precision(45, 50) == pytest.approx(0.8323, abs=1e-4)  # Wilson's formula by hand, z = 1.2816
    assert bound_precision(31, 31) < 0.95 < bound_precision(32, 32)


@given(ENTITIES, st.floats(0.05, 0.99))
def test_the_threshold_is_the_lowest_score_whose_bound_reaches_the_precision(
    entities: list[ScoredEntity], precision: float
) -> None:
    found = find_thresholds(entities)
    assert set(found) == {entity.type for entity in entities}
    for name, thresholds in found.items():
        expected = None
        for score in sorted({entity.score for entity in entities if entity.type == name}, reverse=True):
            kept = [entity.is_correct for entity in entities if entity.type == name and entity.score >= score]
            if bound_precision(sum(kept), len(kept)) >= precision:
                expected = Threshold(score, len(kept), sum(kept))
        assert choose_threshold(thresholds, precision) == expected


def test_the_precision_is_reached_on_other_entities_in_most_draws() -> None:
    draw = random.Random(1)

    def entities(count: int) -> list[ScoredEntity]:
        scores = [draw.random() for _ in range(count)]
        return [ScoredEntity(score, draw.random() < 0.5 + 0.5 * score, "a") for score in scores]

    reached = []
    for _ in range(100):
        threshold = choose_threshold(find_thresholds(entities(200))["a"], 0.9)
        if threshold is not None:
            kept = [each.is_correct for each in entities(5000) if each.score >= threshold.score]
            reached.append(sum(kept) / len(kept) >= 0.9 - 1.96 * (0.9 * 0.1 / len(kept)) ** 0.5)
    assert len(reached) > 50 and sum(reached) / len(reached) >= 0.75


def test_precision_and_recall_by_score_and_what_a_precision_costs() -> None:
    right = [ScoredEntity(score, True) for score in (0.6, 0.92, 0.97)]
    found = measure_by_score([*right, ScoredEntity(0.7, False)], gold=4)
    curve = {point["score"]: (point["entities"], point["precision"], point["recall"]) for point in found["curve"]}
    assert curve[0.0] == (4, 75, 75) and curve[0.9] == (2, 100, 50) and 0.99 not in curve
    assert found["recall_at"] == {"0.90": 50, "0.95": 50, "0.99": 50}
    assert measure_by_score([ScoredEntity(0.5, False)], gold=4)["recall_at"]["0.90"] is None
