"""A precision asked for is one of entities that the tagger had not learnt: on dev, else out of fold."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.commands import QUICK, crossner, invoke, refused, told

TEXT = ("--text", "Voyager passed Jupiter in March 1979 .")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tiny_encoder_folder: Path) -> Path:
    """A run with a tagger that was scored on dev."""
    run = tmp_path_factory.mktemp("least") / "run"
    invoke("prepare-data --target sample-target --quiet --run", run)
    crossner("finetune --epochs 12 --learning-rate 0.003 --encoder", tiny_encoder_folder, *QUICK, "--run", run)
    return run


def test_without_a_score_that_reaches_the_precision_a_type_is_named_and_left_out(run: Path) -> None:
    line = ("predict --model finetune", *QUICK, "--run", run)
    said = told(*line, "--min-precision", "0", *TEXT)
    assert "calibrated" in said and "left out" not in said.split("on dev:")[0]
    strict = told(*line, "--min-precision", "1", *TEXT)
    assert "--min-precision 1 on dev: left out, since no score reaches it for sure: " in strict
    assert "0 entities in" in strict


def test_without_dev_the_scores_are_those_out_of_fold_of_the_same_way_to_train(
    run: Path, tiny_encoder_folder: Path
) -> None:
    given = ("--epochs 3 --encoder", tiny_encoder_folder, *QUICK, "--run", run)
    alone = run.parent / "alone"
    invoke("prepare-data --target", run / "prepare-data/target/train.jsonl", "--quiet --run", alone)
    given = (*given[:-1], alone)
    crossner("finetune --keep last", *given)
    line = ("predict --model finetune", *QUICK, "--run", alone, *TEXT)
    assert "Scores are not calibrated" in told(*line)
    assert "there are none" in refused(*line, "--min-precision", "0.9")
    crossner("cross-validate --folds 2 --method crf", *given)
    assert "there are none" in refused(*line, "--min-precision", "0.9")
    crossner("cross-validate --folds 2 --force", *given)
    said = told(*line, "--min-precision", "0.9")
    assert "predicted out of fold" in said and "--min-precision 0.9 out of fold: " in said
