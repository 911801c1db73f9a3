"""Calibration: scores become probabilities of being right, fitted on some entities and true of others."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import score
from crossner_cli.taggers.tagging import (
    CALIBRATION,
    Calibration,
    ScoredEntity,
    Tagged,
    calibrate,
    fit_calibration,
    log_odds,
    measure_reliability,
    read_calibration,
    score_entities,
)

ENTITIES = st.lists(st.tuples(st.floats(0, 1), st.booleans()).map(lambda pair: ScoredEntity(*pair)), max_size=30)


def too_sure(count: int, seed: int, slope: float = 0.5, intercept: float = -0.7) -> list[ScoredEntity]:
    """Entities whose chance of being right follows from their scores by a known rule."""
    generator = random.Random(seed)
    true = Calibration(slope, intercept, 0, 0)
    scores = [generator.betavariate(3, 1) for _ in range(count)]
    return [ScoredEntity(score, generator.random() < true(score)) for score in scores]


def loss(entities: list[ScoredEntity], slope: float, intercept: float) -> float:
    """What the fit is to make small, entity by entity."""
    total = ((slope - 1) ** 2 + intercept**2) / 2
    for entity in entities:
        odds = slope * log_odds(entity.score) + intercept
        total += math.log1p(math.exp(-abs(odds))) + max(0.0, -odds if entity.is_correct else odds)
    return total


def test_the_rule_behind_many_entities_is_found_and_holds_for_others() -> None:
    found = fit_calibration(too_sure(20_000, 1))
    assert found.slope == pytest.approx(0.5, abs=0.03)
    assert found.intercept == pytest.approx(-0.7, abs=0.06)
    assert found.entities == 20_000 and 0 < found.correct < 20_000
    few, others = fit_calibration(too_sure(1500, 2)), too_sure(2000, 3)
    before, after = measure_reliability(others)["ece"], measure_reliability(calibrate(others, few))["ece"]
    assert before > 0.15 and after < 0.05


@given(ENTITIES)
def test_no_neighbour_of_the_fit_is_better(entities: list[ScoredEntity]) -> None:
    found = fit_calibration(entities)
    if found.slope > 0:
        best = loss(entities, found.slope, found.intercept)
        for slope, intercept in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01), (0.01, 0.01), (-0.01, -0.01)):
            assert best <= loss(entities, found.slope + slope, found.intercept + intercept) + 1e-9


@given(ENTITIES, st.floats(0, 1), st.floats(0, 1))
def test_probabilities_are_in_the_order_of_the_scores(entities: list[ScoredEntity], one: float, other: float) -> None:
    found = fit_calibration(entities)
    low, high = sorted((one, other))
    assert 0 <= found(low) <= found(high) <= 1


def test_entities_that_are_none_certain_or_misleading_are_fitted() -> None:
    none = fit_calibration([])
    assert none == Calibration(1.0, 0.0, 0, 0)
    assert [none(score) for score in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([0.0, 0.25, 0.5, 1.0], abs=1e-5)
    for is_correct in (True, False):
        certain = fit_calibration([ScoredEntity(1.0, is_correct)] * 500 + [ScoredEntity(0.0, is_correct)] * 2)
        assert math.isfinite(certain.slope) and math.isfinite(certain.intercept)
        assert (certain(0.9) > 0.9) is is_correct
    misleading = fit_calibration([ScoredEntity(0.95, False)] * 300 + [ScoredEntity(0.05, True)] * 100)
    assert misleading.slope == 0, "every entity gets the share that is right"
    assert misleading(0.1) == misleading(0.9) == pytest.approx(0.25, abs=0.01)


def test_an_entity_is_right_where_words_and_type_are_those_of_a_gold_one() -> None:
    gold = [("B-x", "I-x", "O", "B-y"), ("O", "B-x")]
    tagged = [
        Tagged(("B-x", "I-x", "O", "B-x"), (0.9, 0.6, 1.0, 0.8)),
        Tagged(("I-x", "B-x"), (0.3, 0.7)),
    ]
    assert score_entities(gold, tagged) == [(0.6, True), (0.8, False), (0.3, False), (0.7, True)]
    counted = score(gold, [each.tags for each in tagged]).per_type
    assert sum(each.correct for each in counted.values()) == 2
    assert sum(each.predicted for each in counted.values()) == 4


@given(ENTITIES)
def test_the_bins_hold_every_entity_once(entities: list[ScoredEntity]) -> None:
    found = measure_reliability(entities)
    assert sum(each["entities"] for each in found["bins"]) == len(entities)
    for each in found["bins"]:
        if each["entities"]:
            assert each["from"] - 1e-9 <= each["mean_score"] <= each["to"] + 1e-9
    if not entities:
        assert found["ece"] is None
        return
    expected = 0.0
    for low in range(10):
        inside = [entity for entity in entities if low == min(9, int(10 * entity.score))]
        expected += abs(sum(entity.score - entity.is_correct for entity in inside)) / len(entities)
    assert found["ece"] == pytest.approx(expected)


def test_numbers_in_the_folder_are_read_back_and_what_are_none_is_told(tmp_path: Path) -> None:
    description = {"method": "linear", "hyperparameters": {}, "tag_set": {}}
    found = fit_calibration(too_sure(50, 4))
    (tmp_path / "tagger.json").write_text(json.dumps(description))
    assert read_calibration(tmp_path) is None
    (tmp_path / "tagger.json").write_text(json.dumps({**description, CALIBRATION: found.to_json()}))
    assert read_calibration(tmp_path) == found
    for wrong in (5, {}, {**found.to_json(), "slope": math.nan}, {**found.to_json(), "intercept": True}):
        (tmp_path / "tagger.json").write_text(json.dumps({**description, CALIBRATION: wrong}))
        with pytest.raises(CrossNERError, match="calibration must hold the numbers slope"):
            read_calibration(tmp_path)
