"""Checks before PyTorch is loaded: names that stand for nothing are refused at once, with the one that was meant."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from builders.commands import refused
from builders.runs import seeds_result, write_manifest, write_tagger

from crossner_cli.engine import devices


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared run with a stage that looks finished."""
    place = tmp_path_factory.mktemp("checks")
    prepare = ["prepare-data", "--target", "sample-target", "--run", str(place / "run")]
    subprocess.run([sys.executable, "-m", "crossner_cli", *prepare, "--quiet"], check=True)
    write_tagger(place / "run", "pretrain-source", stage="pretrain-source")
    (place / "new-text.txt").write_text("Anna met Peter.\n")
    return place


@pytest.mark.parametrize(
    ("command", "problem", "hint"),
    [
        ("finetune --start-from pretrain-sorce", "'pretrain-sorce' is neither base", "Did you mean 'pretrain-source'?"),
        ("finetune --encoder ./nowhere", "nowhere was not found", "Check the path."),
        ("finetune --method lanner", "no method 'lanner'", "Did you mean 'laner'?"),
        ("finetune --set dropuot=0.2", "no setting 'dropuot'", "Did you mean 'dropout'?"),
        ("pretrain-source --epochs 9", "is finished with other options: epochs: 2 -> 9", "--force"),
        ("dapt --start-from pretrain", "'pretrain' is neither base", "Did you mean 'pretrain-source'?"),
        ("evaluate --model pretrain_source", "'pretrain_source' is neither", "Did you mean 'pretrain-source'?"),
        ("evaluate --model pretrain-source --against RUN", "holds no finished evaluate stage", "crossner evaluate"),
        ("predict --text Anna --model pretrain", "'pretrain' is neither", "Did you mean 'pretrain-source'?"),
        ("predict PLACE/new_text.txt", "There is no file", "Did you mean 'new-text.txt'?"),
        ("predict PLACE/new-text.txt --format brat", "cannot be written to stdout", "--output tagged"),
        ("inspect --sentence Anna --model x", "'x' is neither", "Name a stage"),
        ("export --model x", "'x' is neither", "Name a stage"),
    ],
)
def test_names_that_stand_for_nothing_need_no_pytorch(
    run: Path, monkeypatch: pytest.MonkeyPatch, command: str, problem: str, hint: str
) -> None:
    def load(*_: object) -> None:
        raise AssertionError("PyTorch was asked for")

    monkeypatch.setattr(devices, "start_engine", load)
    words = command.replace("PLACE", str(run)).replace("RUN", str(run / "run")).split()
    told = refused(*words, "--run", run / "run")
    assert problem in told and hint in told


def test_the_modules_of_the_checks_import_no_pytorch() -> None:
    heavy = "{'torch', 'transformers', 'pandas'}"
    code = f"import sys, crossner_cli.cli, crossner_cli.stages.checks; sys.exit(bool({heavy} & {{*sys.modules}}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_run_that_does_not_exist_is_told_with_the_name_that_resembles_it(run: Path) -> None:
    told = refused("finetune", "--run", run / "rnu")
    assert "needs the stage 'prepare-data'" in told and "Did you mean 'run'?" in told


@pytest.mark.parametrize(("seed", "change"), [("1", {"folder": "../../x"}), ("1", {"dev_f1": "high"}), ("one", {})])
def test_a_manifest_with_seeds_that_make_no_sense_is_a_known_problem(
    tmp_path: Path, seed: str, change: dict[str, str]
) -> None:
    result = asdict(seeds_result({1: 50.0}))
    result["seeds"] = {seed: {**result["seeds"]["1"], **change}}
    write_manifest(tmp_path / "run" / "tune", "finetune", result=result, taggers=True)
    assert "The manifest of the stage 'tune' is broken: " in refused(
        "predict --text Anna --model tune", "--run", tmp_path / "run"
    )
