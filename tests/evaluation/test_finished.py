"""Finished evaluate stages: which is found, and what is refused."""

from pathlib import Path

import pytest
from builders.runs import random_gold, write_evaluation, write_manifest

from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import EvaluatedModel, find_evaluation, find_evaluations

WORDS, GOLD = random_gold(5)


def test_changed_and_missing_predictions_are_refused(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "evaluate", WORDS, GOLD, {"linear": {"1": GOLD}})
    path = folder / "predictions.jsonl"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(CrossNERError, match="not the file listed in its manifest"):
        list(map(EvaluatedModel.read, find_evaluation(folder).models()))
    path.unlink()
    with pytest.raises(CrossNERError, match=r"predictions.jsonl .* is missing"):
        list(map(EvaluatedModel.read, find_evaluation(folder).models()))


def test_the_evaluate_stage_of_a_run_is_found_by_name_or_as_the_only_one(tmp_path: Path) -> None:
    write_manifest(tmp_path / "finetune", "finetune")
    for place in (tmp_path / "missing", tmp_path, tmp_path / "finetune"):
        with pytest.raises(CrossNERError, match="no finished evaluate stage"):
            find_evaluation(place)
    first = write_evaluation(tmp_path / "first", WORDS, GOLD, {"linear": {"1": GOLD}})
    assert find_evaluation(tmp_path).folder == find_evaluation(first).folder == first
    write_evaluation(tmp_path / "second", WORDS, GOLD, {"linear": {"1": GOLD}})
    with pytest.raises(CrossNERError, match="several evaluate stages: first, second"):
        find_evaluation(tmp_path)
    named = write_evaluation(tmp_path / "evaluate", WORDS, GOLD, {"linear": {"1": GOLD}})
    assert find_evaluation(tmp_path).folder == named
    assert len(find_evaluations(tmp_path)) == 3
    write_manifest(tmp_path / "broken", "evaluate", result={"models": {"linear": {}}})
    with pytest.raises(CrossNERError, match="result.models.linear.f1 is missing"):
        find_evaluations(tmp_path)
