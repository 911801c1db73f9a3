"""Scores out of fold: their intervals, and the forecast of what more sentences bring."""

import pytest

from crossner_cli.data.sentences import Sentence
from crossner_cli.evaluation.folds import FoldPrediction, forecast_gain, score_predictions, summarise_folds
from crossner_cli.evaluation.scores import Scored

SENTENCES = [Sentence((f"word{number}",), ("B-place",)) for number in range(100)]


def score_with_errors(wrong: int) -> dict[str, Scored]:
    """The scores of taggers that give so many of 100 entities another type."""
    tags = ["B-person"] * wrong + ["B-place"] * (100 - wrong)
    predictions = [FoldPrediction(0, (tag,), (0.9,), None) for tag in tags]
    return {"1": score_predictions(SENTENCES, predictions, "conll")}


def test_a_forecast_continues_the_power_law_through_half_and_all() -> None:
    found = forecast_gain(SENTENCES, score_with_errors(40), score_with_errors(20), folds=5, seed=1)
    # 80 sentences are learnt, and the error halves when they double: 16 of 100 sentences, 8 of 200.
    assert found["gain"] == pytest.approx(8) and found["half_f1"] == pytest.approx(60)
    assert 4 < found["low"] < 8 < found["high"] < 12


@pytest.mark.parametrize(("half", "whole"), [(20, 20), (10, 20), (0, 0), (20, 0)])
def test_a_forecast_never_says_that_more_sentences_harm(half: int, whole: int) -> None:
    found = forecast_gain(SENTENCES, score_with_errors(half), score_with_errors(whole), folds=5, seed=1)
    assert 0 <= found["low"] <= found["gain"] <= found["high"] < 10


def test_intervals_are_those_of_a_share_of_so_many_sentences() -> None:
    model = summarise_folds(SENTENCES, score_with_errors(20), "conll", seed=1)
    assert model.intervals is not None
    for name in ("f1", "precision", "recall"):  # each sentence has one entity, so all three are one share
        assert model.intervals[name] == pytest.approx([72, 88], abs=1)  # 80 ± 1.96 * 4
    assert model.intervals["f1 of person"] == [0, 0]
