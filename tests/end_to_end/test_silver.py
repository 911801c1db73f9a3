"""Sentences that a teacher labelled, beside those of the target."""

import json
from pathlib import Path

import pytest
from builders.commands import QUICK, crossner, invoke

SILVER = [
    {
        "words": ["Kepler", "sees", f"Kepler-{number}b", "."],
        "tags": ["B-telescope", "O", "B-astronomicalobject", "O"],
        "probabilities": [
            {"B-telescope": 0.8, "O": 0.2},
            {"O": 1.0},
            {"B-astronomicalobject": 0.6, "O": 0.4},
            {"O": 1.0},
        ],
    }
    for number in range(30)
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    silver = tmp_path / "silver"
    silver.mkdir()
    (silver / "train.jsonl").write_text("".join(json.dumps(record) + "\n" for record in SILVER))
    crossner("prepare-data --target sample-target --silver", silver, "--run", tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("method", ["linear", "crf"])
def test_finetuning_reads_them_unless_their_weight_is_zero(run: Path, tiny_encoder_folder: Path, method: str) -> None:
    options = ("--max-steps 4 --method", method, *QUICK, "--encoder", tiny_encoder_folder, "--run", run)
    with_silver = crossner("finetune --name taught", *options)
    assert with_silver["result"]["train_sentences"]["silver"] == 30
    assert "prepare-data/silver/train.jsonl" in with_silver["inputs"]
    alone = crossner("finetune --name alone --silver-weight 0", *options)
    assert "silver" not in alone["result"]["train_sentences"]
    assert "prepare-data/silver/train.jsonl" not in alone["inputs"]


def test_a_silver_set_is_a_source_like_any_other(run: Path, tmp_path: Path, tiny_encoder_folder: Path) -> None:
    other = ("--run", tmp_path / "other")
    crossner("prepare-data --target sample-target --dev-from-train 0.2 --source", tmp_path / "silver", *other)
    crossner("pretrain-source --max-steps 4", *QUICK, "--encoder", tiny_encoder_folder, *other)
    told = invoke(
        "prepare-data --run", tmp_path / "scheme", "--target sample-target --scheme bioes --silver", tmp_path / "silver"
    )
    assert "probabilities of tags in another scheme than the run's dropped: 30" in told.stderr
