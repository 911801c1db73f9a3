"""Every training sentence is scored once, by a tagger that has seen neither it nor a copy of it."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from builders.commands import QUICK, crossner, invoke, refused, told

from crossner_cli.data.domains import SAMPLES
from crossner_cli.data.folds import group_near_equal
from crossner_cli.data.sentences import Sentence
from crossner_cli.stages import cross_validate, train

FOLDS = ("--folds 3 --epochs 1 --max-steps 2", *QUICK)


def predictions(run: Path, stage: str = "folds") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / stage / "predictions.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose target has neither dev nor test, and a copy and a near copy of a sentence."""
    folder = tmp_path_factory.mktemp("copies")
    text = (SAMPLES / "sample-target" / "train.txt").read_text("utf-8").strip().split("\n\n")[:24]
    longest = max(text, key=len)
    near = "\n".join([*longest.split("\n")[:-1], "!\tO"])
    (folder / "target").mkdir()
    (folder / "target" / "train.txt").write_text("\n\n".join([*text, longest, near]) + "\n", "utf-8")
    invoke("prepare-data --target", folder / "target", "--quiet --run", folder / "run")
    return folder / "run"


@pytest.fixture
def run(prepared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / "run"))


@pytest.fixture
def learnt(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[Sentence], list[Sentence]]]:
    """What each tagger is trained on, and what it then tags."""
    found: list[tuple[list[Sentence], list[Sentence]]] = []
    fit, tag = train.TrainingJob.fit_tagger, cross_validate.tag

    def fit_tagger(job: Any, data: Any, *more: Any) -> Any:
        found.append((data.sentences, []))
        return fit(job, data, *more)

    def tag_fold(tagger: Any, sentences: Sequence[Sentence], engine: Any) -> Any:
        found[-1][1].extend(sentences)
        return tag(tagger, sentences, engine)

    monkeypatch.setattr(train.TrainingJob, "fit_tagger", fit_tagger)
    monkeypatch.setattr(cross_validate, "tag", tag_fold)
    return found


def test_no_sentence_is_tagged_by_a_tagger_that_saw_it_or_a_copy(
    run: Path, tiny_encoder_folder: Path, learnt: list[tuple[list[Sentence], list[Sentence]]]
) -> None:
    result = crossner("cross-validate", *FOLDS, "--encoder", tiny_encoder_folder, "--run", run)["result"]
    assert len(learnt) == 3
    for seen, tagged in learnt:
        words = [sentence.words for sentence in (*seen, *tagged)]
        groups = group_near_equal(words)
        assert not {*groups[: len(seen)]} & {*groups[len(seen) :]}
        assert not {" ".join(each.words) for each in seen} & {" ".join(each.words) for each in tagged}
    written = predictions(run)
    assert sorted(words for _, tagged in learnt for words in map(list, (each.words for each in tagged))) == sorted(
        each["words"] for each in written
    )
    assert result["split"] == "out of fold, 26 training sentences" and result["sentences"] == len(written) == 26
    assert [each["gold"] for each in written] == [
        json.loads(line)["tags"] for line in (run / "prepare-data/target/train.jsonl").read_text("utf-8").splitlines()
    ]
    assert all(len(each["probabilities"]) == len(each["words"]) == len(each["scores"]) for each in written)
    low, high = result["models"]["folds"]["intervals"]["f1"]
    assert low <= result["models"]["folds"]["f1"]["mean"] <= high


def test_an_interrupted_command_goes_on_with_the_fold_and_ends_alike(
    run: Path, tiny_encoder_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ("cross-validate", *FOLDS, "--encoder", tiny_encoder_folder, "--run", run)
    crossner(*line, "--name whole")
    written, trained = cross_validate.write_predictions, []

    def stop_after_two(path: Path, *more: Any) -> None:
        written(path, *more)
        trained.append(path)
        if len(trained) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cross_validate, "write_predictions", stop_after_two)
        assert invoke(*line).exit_code == 130
    fold = told(*line)
    assert "fold 3 of 3" in fold and "fold 2 of 3" not in fold
    assert predictions(run) == predictions(run, "whole")
    assert "already done" in told(*line)


def test_a_forecast_trains_on_half_of_the_other_folds(
    run: Path, tiny_encoder_folder: Path, learnt: list[tuple[list[Sentence], list[Sentence]]]
) -> None:
    line = ("cross-validate --forecast", *FOLDS, "--encoder", tiny_encoder_folder, "--run", run)
    forecast = crossner(*line)["result"]["forecast"]
    assert forecast["sentences"] == 100 and 0 <= forecast["low"] <= forecast["high"]
    for (seen, tagged), (half, again) in zip(learnt[:3], learnt[3:], strict=True):
        assert tagged == again and len(half) == len(seen) // 2
        assert {sentence.words for sentence in half} <= {sentence.words for sentence in seen}


def test_folds_are_evaluated_compared_and_reported_as_a_test_split(run: Path, tiny_encoder_folder: Path) -> None:
    line = ("cross-validate", *FOLDS, "--encoder", tiny_encoder_folder, "--run", run)
    of_folds = crossner(*line)["result"]
    crossner(*line, "--name others --method crf")
    found = crossner("evaluate --model folds --model others --fine-grained", *QUICK, "--run", run)["result"]
    for name in ("f1", "per_type", "intervals", "support", "reliability"):
        assert found["models"]["folds"][name] == of_folds["models"]["folds"][name]
    assert len(found["comparisons"]) == 1
    assert "out of fold, 26 training sentences" in (run / "evaluate-folds-others/errors.html").read_text("utf-8")
    alone = crossner("evaluate --model folds --against", run / "others", *QUICK, "--run", run)["result"]
    assert alone["comparisons"][0]["against"] == "others"
    rows = crossner("report --split folds", run)["result"]["models"]
    assert [(row["model"], row["method"], row["train_sentences"]) for row in rows] == [
        ("folds", "linear", 26),
        ("others", "crf", 26),
    ]
    assert "--ensemble has no effect" in refused("evaluate --model folds --ensemble", *QUICK, "--run", run)


def test_a_start_that_has_learnt_the_labels_and_a_choice_on_dev_that_is_missing_are_refused(
    run: Path, tiny_encoder_folder: Path
) -> None:
    here = ("--encoder", tiny_encoder_folder, *QUICK, "--run", run)
    crossner("finetune --keep last --max-steps 1 --epochs 1", *here)
    assert "has learnt the labels" in refused("cross-validate --start-from finetune", *here)
    assert "has no dev sentences" in refused("cross-validate --keep best", *here)
    assert "takes the dev sentences" in refused("cross-validate --keep best --with-dev", *here)
    assert "cannot be divided" in refused("cross-validate --folds 27", *here)
