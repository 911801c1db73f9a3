"""A training stage says what its tokenizer does to words, and describes the weights that it keeps."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.commands import QUICK, crossner, invoke, refused
from tokenizers import Tokenizer, normalizers, pre_tokenizers

from crossner_cli.data.domains import SAMPLES
from crossner_cli.data.sentences import read_sentences
from crossner_cli.engine.devices import Engine
from crossner_cli.stages import train
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.tagging import Tagged, score_entities, tag


def test_a_tokenizer_that_cuts_words_otherwise_in_a_text_is_one_warning_even_of_quiet(tiny_encoder_folder, tmp_path):
    encoder = shutil.copytree(tiny_encoder_folder, tmp_path / "encoder")
    made = Tokenizer.from_file(str(encoder / "tokenizer.json"))
    made.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Replace(" ", "-")])
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.save(str(encoder / "tokenizer.json"))
    invoke("prepare-data --target sample-target --quiet --run", tmp_path / "run")
    train = ("--encoder", encoder, "--max-steps 2 --epochs 1 --seeds 1,2 --quiet", *QUICK, "--run", tmp_path / "run")
    (line,) = invoke("finetune", *train).stderr.splitlines()
    assert line.startswith("Warning: the encoder's tokenizer cuts words alone differently than inside a text, as the, ")
    train = ("--encoder", tiny_encoder_folder, *train[2:])
    assert invoke("finetune --name usual", *train).stderr == ""


@pytest.mark.parametrize(("keep", "times"), [("last", 1), ("best", 3)])
def test_calibration_is_of_the_weights_kept_and_dev_is_not_tagged_twice_by_the_last_epoch(
    tiny_encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine, keep: str, times: int
) -> None:
    tagged: list[list[Tagged]] = []
    fitted: list[Any] = []
    falling = iter((60.0, 50.0))  # so that the first epoch is the best one
    monkeypatch.setattr(train, "tag", lambda *given: tagged.append(tag(*given)) or tagged[-1])
    monkeypatch.setattr(
        train, "score_entities", lambda gold, found: fitted.append(found) or score_entities(gold, found)
    )
    fit = train.fit

    def fit_with_falling_scores(*given: Any, score: Callable[[], Any], **more: Any) -> Any:
        return fit(*given, score=lambda: {**score(), "dev_f1": next(falling)}, **more)

    monkeypatch.setattr(train, "fit", fit_with_falling_scores)
    invoke("prepare-data --target sample-target --quiet --run", tmp_path / "run")
    trained = ("--encoder", tiny_encoder_folder, "--epochs 2 --keep", keep, *QUICK, "--run", tmp_path / "run")
    assert crossner("finetune", *trained)["result"]["seeds"]["1"]["epoch"] == (2 if keep == "last" else 1)
    assert len(tagged) == times
    dev = list(read_sentences(tmp_path / "run" / "prepare-data" / "target" / "dev.jsonl"))
    again = tag(load_tagger(tmp_path / "run" / "finetune" / "tagger", engine), dev, engine)
    assert fitted == [again]


def test_only_a_training_that_chooses_by_dev_needs_dev_sentences(tiny_encoder_folder: Path, tmp_path: Path) -> None:
    run, data = ("--run", tmp_path / "run"), shutil.copytree(SAMPLES / "sample-target", tmp_path / "data")
    (data / "dev.txt").unlink()
    invoke("prepare-data --quiet --target", data, *run)
    train = ("finetune --epochs 2 --max-steps 2", *QUICK, "--encoder", tiny_encoder_folder, *run)
    for choosing in ("--keep best", "--keep last --patience 1"):
        assert "has no dev sentences" in refused(*train, choosing)
    (trained,) = crossner(*train, "--keep last")["result"]["seeds"].values()
    assert trained["dev_f1"] is None and trained["epoch"] == trained["epochs"]
    card = (tmp_path / "run" / "finetune" / "tagger" / "README.md").read_text(encoding="utf-8")
    assert "No dev sentences were there to score it on." in card and "It was scored on nothing." in card
    assert "dev F1 –" in invoke("status", *run).stdout
