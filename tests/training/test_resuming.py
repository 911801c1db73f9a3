"""Trainings that are killed or interrupted and go on, through the real command line, and trainings of two processes."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.commands import line_of
from safetensors.torch import load_file
from torch import Tensor

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def prepared_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    samples = ["--source", "sample-source", "--target", "sample-target", "--corpus", "sample-target"]
    command = line_of("prepare-data", *samples, "--run", folder)
    subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True)
    return folder


def finetune(run: Path, name: str, encoder: Path, *more: str, launcher: tuple[str, ...] = ()) -> list[str]:
    places = ("--run", run, "--name", name, "--encoder", encoder)
    epochs = () if "--epochs" in more else ("--epochs", "2")
    return line_of("finetune", *places, *["--device", "cpu", "--threads", "1"], *epochs, *more, launcher=launcher)


def kill_when(command: list[str], happened: Callable[[], Any]) -> None:
    """Run a command until something has happened, and kill it then."""
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not happened() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def reached(folder: Path, step: int) -> bool:
    return any(int(path.name.split("-")[1]) >= step for path in folder.glob("step-*"))


def tagger_weights(run: Path, name: str, folder: str = "tagger") -> dict[str, Tensor]:
    return load_file(run / name / folder / "model.safetensors")


def losses(run: Path, name: str) -> list[float]:
    record = json.loads((run / name / "tagger" / "training.json").read_text())
    return [epoch["losses"]["tags"] for epoch in record["history"]]


def test_two_processes_train_the_weights_of_one(prepared_run: Path, plain_encoder: Path) -> None:
    settings = ("--precision", "fp32", "--set", "dropout=0", "--batch-size", "8", "--learning-rate", "1e-4")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "--")
    one = finetune(prepared_run, "one", plain_encoder, *settings)
    two = finetune(prepared_run, "two", plain_encoder, *settings, launcher=launcher)
    for command in (one, two):
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    single, double = tagger_weights(prepared_run, "one"), tagger_weights(prepared_run, "two")
    assert single.keys() == double.keys()
    moved = 0.0
    start = load_file(plain_encoder / "model.safetensors")
    for name, value in single.items():
        assert torch.allclose(value, double[name], atol=2e-6), name
        moved += float((value - start.get(name.removeprefix("bert."), value)).abs().sum())
    assert moved > 1, "training must have moved the weights for the comparison to mean anything"
    assert losses(prepared_run, "two") == pytest.approx(losses(prepared_run, "one"), rel=1e-4)


def test_a_killed_stage_resumes_to_the_bit_identical_result(prepared_run: Path, tiny_encoder_folder: Path) -> None:
    settings = ("--seeds", "1,2", "--checkpoint-every", "0", "--epochs", "3")
    whole = finetune(prepared_run, "whole", tiny_encoder_folder, *settings)
    subprocess.run(whole, env=ENVIRONMENT, capture_output=True, check=True)
    killed = finetune(prepared_run, "killed", tiny_encoder_folder, *settings)
    draft = prepared_run / ".draft-killed"
    moments: list[Callable[[], bool]] = [
        lambda: reached(draft / "checkpoint-1", 9),
        (draft / "tagger-seed-1").exists,
        lambda: reached(draft / "checkpoint-2", 6),
    ]
    for moment in moments:
        kill_when(killed, moment)
        assert not (prepared_run / "killed").exists()
    (draft / "checkpoint-1" / "step-15").mkdir(parents=True)  # what a kill leaves while checkpoints are removed
    (draft / "checkpoint-1" / "step-15" / "model.safetensors").touch()
    resumed = subprocess.run(killed, env=ENVIRONMENT, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert "killed, seed 2: continues after update " in resumed.stderr
    for folder in ("tagger-seed-1", "tagger-seed-2"):
        expected = tagger_weights(prepared_run, "whole", folder)
        found = tagger_weights(prepared_run, "killed", folder)
        assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert not list((prepared_run / "killed").rglob("checkpoint*"))


@pytest.mark.parametrize(
    ("command", "weights"),
    [
        (("joint-train", "--method", "crf"), "tagger/tagger.safetensors"),
        (
            ("joint-train", "--method", "cross-domain-lm", "--set", "lstm_size=6", "--set", "raw_batch_size=4"),
            "tagger/tagger.safetensors",
        ),
    ],
)
def test_joint_training_resumes_to_the_bit_identical_result_too(
    command: tuple[str, ...], weights: str, prepared_run: Path, tiny_encoder_folder: Path
) -> None:
    stage = command[2].removeprefix("--")
    settings = ["--device", "cpu", "--threads", "1", "--checkpoint-every", "0", "--max-steps", "12"]
    more = ("--run", prepared_run, "--encoder", tiny_encoder_folder, *settings)
    whole, killed = (line_of(*command, *more, "--name", f"{stage}-{name}") for name in ("whole", "killed"))
    subprocess.run(whole, env=ENVIRONMENT, capture_output=True, check=True)
    draft = prepared_run / f".draft-{stage}-killed"
    kill_when(killed, lambda: any(reached(folder, 4) for folder in draft.glob("checkpoint*")))
    assert not (prepared_run / f"{stage}-killed").exists()
    resumed = subprocess.run(killed, env=ENVIRONMENT, capture_output=True, text=True)
    assert resumed.returncode == 0 and "continues after update" in resumed.stderr, resumed.stderr
    expected, found = (load_file(prepared_run / f"{stage}-{name}" / weights) for name in ("whole", "killed"))
    assert all(torch.equal(found[name], value) for name, value in expected.items())


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("finetune", signal.SIGINT),
        ("dapt --block-size 32 --batch-size 8", signal.SIGTERM),
        ("dapt --encoder strings", signal.SIGINT),
    ],
)
def test_an_interrupted_training_goes_on_from_the_very_update_to_the_same_weights(
    command: str, number: signal.Signals, prepared_run: Path, tiny_encoder_folder: Path
) -> None:
    name = f"{len(command)}-{number}"
    encoder = () if "strings" in command else ("--encoder", tiny_encoder_folder)
    more = ("--run", prepared_run, *encoder, "--device", "cpu", "--threads", "1", "--max-steps", "10", "--verbose")
    whole, stopped = (line_of(*command.split(), *more, "--name", f"{name}-{each}") for each in ("whole", "stopped"))
    subprocess.run(whole, env=ENVIRONMENT, capture_output=True, check=True)
    with subprocess.Popen(
        stopped, env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "6/10 updates" in line:
                process.send_signal(number)
        assert process.wait() == 130
    resumed = subprocess.run(stopped, env=ENVIRONMENT, capture_output=True, text=True)
    assert resumed.returncode == 0 and "continues after update" in resumed.stderr, resumed.stderr
    (began,) = [line for line in resumed.stderr.splitlines() if "continues after update" in line]
    assert 6 <= int(began.rstrip(".").split()[-1]) <= 8
    files = [
        path.relative_to(prepared_run / f"{name}-whole") for path in prepared_run.glob(f"{name}-whole/**/*.safetensors")
    ]
    assert files
    for file in files:
        expected, found = (load_file(prepared_run / f"{name}-{each}" / file) for each in ("whole", "stopped"))
        assert all(torch.equal(found[key], value) for key, value in expected.items())
