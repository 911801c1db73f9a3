"""A training stage says what its tokenizer does to words, and describes the weights that it keeps."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.commands import QUICK, crossner, invoke
from tokenizers import Tokenizer, normalizers, pre_tokenizers

from crossner_cli.data.sentences import read_sentences
from crossner_cli.engine.devices import Engine
from crossner_cli.stages import train
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.tagging import Tagged, score_entities, tag


def test_a_tokenizer_that_cuts_words_otherwise_in_a_text_is_one_warning_even_of_quiet(
    tiny_encoder_folder: Path, tmp_path: Path
) -> None:
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
