"""Language models of characters: what they read, that windows are as good as whole rows, from raw text to a tagger."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional
from typer.testing import CliRunner

from crossner_cli.cli import app
from crossner_cli.data.sentences import SPLITS, PreparedData
from crossner_cli.engine.devices import start_engine
from crossner_cli.options import Dapt
from crossner_cli.recurrent.character_models import StringLanguageModels, held_out_losses
from crossner_cli.recurrent.character_stream import (
    TRAIN,
    CharacterStream,
    LinesOfWords,
    join_words,
    write_character_stream,
)
from crossner_cli.recurrent.string_adaptation import find_texts
from crossner_cli.recurrent.string_embeddings import load_string_encoder
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Progress, exhaust
from crossner_cli.stages import dapt

QUICK = ("--device", "cpu", "--threads", "1", "--precision", "fp32")
TAGGER = (*QUICK, "--set", "lstm_size=4", "--set", "strings=frozen")
TWO_DOMAINS = ("multi-task-lstm", "cross-domain-lm", "multi-cell-lstm")
SMALL: dict[str, Any] = {"encoder": "strings", "hidden_size": 8, "batch_size": 4, "block_size": 12}
SMALL |= {"device": "cpu", "threads": 1, "precision": "fp32"}
SOME = [["ab", "ba."], ["ba"], ["ab", "ab", "b"], ["a" * 60]] * 3


def make_models(folder: Path, rows: int, window: int) -> tuple[StringLanguageModels, CharacterStream]:
    record = exhaust(write_character_stream({"target": SOME}, folder, held_out=0.0, window=window))
    torch.manual_seed(2)
    stream = CharacterStream(folder, TRAIN, rows, window, seed=1)
    return StringLanguageModels(record["characters"], 6, stream.rows), stream


def test_states_go_on_from_window_to_window_as_if_rows_were_read_whole(tmp_path: Path) -> None:
    models, stream = make_models(tmp_path, rows=3, window=8)
    batches = [stream.batch(items, 0) for items in stream.epoch(0)]
    models.eval()
    for _ in range(2):  # the second epoch begins anew
        found = [models(batch) for batch in batches]
    for side, name in enumerate(("forward", "backward")):
        model: Any = models.models[side]
        read, following = (
            torch.cat([getattr(batch, key)[side] for batch in batches], dim=1) for key in ("read", "following")
        )
        scores = models.decoders[side](model(read)).flatten(0, 1)
        expected = functional.cross_entropy(scores, following.flatten(), reduction="sum")
        torch.testing.assert_close(sum(loss[name] for loss in found), expected, rtol=1e-4, atol=1e-3)
    assert models.units(batches[0]) == {"forward": 24, "backward": 24}


def test_gradients_reach_both_models_and_stop_at_the_window_and_held_out_losses_leave_the_states(
    tmp_path: Path,
) -> None:
    models, stream = make_models(tmp_path, rows=2, window=8)
    before = models.states.clone()
    first, second = (held_out_losses(models, stream, torch.device("cpu")) for _ in range(2))
    assert first == second and torch.equal(models.states, before) and models.training
    assert first == pytest.approx([math.log(len(models.characters))] * 2, rel=0.2)
    for items in stream.epoch(0)[:2]:
        losses = models(stream.batch(items, 0))
        torch.stack([*losses.values()]).sum().backward()
        assert not models.states.requires_grad and models.states.any()
    before = models.states.clone()
    held_out_losses(models, stream, torch.device("cpu"))
    assert torch.equal(models.states, before)
    assert all(value.grad is not None and value.grad.any() for value in models.parameters())


def crossner(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*arguments])
    assert done.exit_code == code, done.output
    return done.stdout + done.stderr


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run whose corpus is the target's own sentences, those of dev and test among them."""
    folder = tmp_path / "run"
    data = ("prepare-data", "--run", str(folder), "--source", "sample-source", "--target", "sample-target")
    crossner(*data)
    target = PreparedData.load(RunDirectory(folder), wanted_by="test").domains["target"]
    lines = [" ".join(sentence.words) for split in SPLITS for sentence in target.sentences(split)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    crossner(*data, "--corpus", str(tmp_path / "corpus.txt"), "--force")
    return RunDirectory(folder)


def train(run: RunDirectory, stop_after: int | None = None, **changes: Any) -> None:
    """Run the stage, or leave it behind an update as an interruption does."""
    options = Dapt(**{**SMALL, **changes})
    work = dapt.run(run, options, start_engine(options))
    for event in work:
        if isinstance(event, Progress) and event.unit == "updates" and event.done == stop_after:
            work.close()


def test_language_models_read_no_sentence_of_dev_or_test(run: RunDirectory) -> None:
    prepared = PreparedData.load(run, wanted_by="test")
    texts, notes, _ = find_texts(prepared, "both")
    assert "the source has no raw text: its" in notes[1] and isinstance(texts["target"], LinesOfWords)
    read = {join_words(words) for words in texts["target"]}
    target = prepared.domains["target"]
    by_split = {split: {join_words(sentence.words) for sentence in target.sentences(split)} for split in SPLITS}
    assert len(by_split["train"] & read) > 50
    assert not (by_split["dev"] | by_split["test"]) - by_split["train"] & read
    source = prepared.domains["source"]
    assert list(texts["source"]) == [sentence.words for sentence in source.sentences("train")]


def test_what_stands_in_for_raw_text_is_the_training_sentences_and_nothing_else(tmp_path: Path) -> None:
    data = ("prepare-data", "--run", str(tmp_path), "--target", "sample-target")
    crossner(*data)
    prepared = PreparedData.load(RunDirectory(tmp_path), wanted_by="test")
    domain = prepared.domains["target"]
    assert domain.has("dev") and domain.has("train")
    texts, _, files = find_texts(prepared, "target")
    assert list(texts) == ["target"] and files == ["target/train.jsonl"]
    assert list(texts["target"]) == [sentence.words for sentence in domain.sentences("train")]
    both = ("dapt", "--run", str(tmp_path), "--encoder", "strings", "--text", "both")
    assert "--source-corpus FILE" in crossner(*both, code=1), "there is no source"


def test_a_killed_stage_resumes_to_the_bit_identical_language_models(run: RunDirectory) -> None:
    changes = {"max_steps": 9, "checkpoint_every": 0}
    train(run, name="whole", **changes)
    train(run, name="killed", stop_after=5, **changes)
    assert not run.has("killed") and list((run.path / ".draft-killed" / "checkpoint").glob("step-4"))
    train(run, name="killed", **changes)
    whole, killed = (load_file(run.folder(name) / "strings.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(killed[name], value) for name, value in whole.items())
    files = {path.name for path in run.folder("killed").iterdir()}
    assert files == {"manifest.json", "strings.json", "strings.safetensors", "training.json"}


def test_perplexity_falls_and_a_tagger_names_the_stage(run: RunDirectory) -> None:
    sizes = {"hidden-size": 24, "batch-size": 16, "block-size": 32, "max-steps": 30, "learning-rate": 0.02}
    given = [part for name, value in sizes.items() for part in (f"--{name}", str(value))]
    use = ("--run", str(run.path))
    told = crossner("dapt", *use, *QUICK, "--encoder", "strings", "--text", "both", "--name", "strings", *given)
    result = run.manifest("strings", wanted_by="test")["result"]
    assert result["perplexity_after"] < result["perplexity_before"] / 2 and result["strings"]["text"] == "both"
    assert "strings: held-out perplexity a character" in told and "training sentences are read instead" in told
    encoder = load_string_encoder(run.folder("strings"))
    assert encoder.output_dim == 48 and len(encoder.characters) == result["strings"]["characters"]

    def tag(stage: str, method: str, name: str, strings: str, *more: str, code: int = 0) -> str:
        named = ("--method", method, "--name", name, "--set", f"string_embeddings={strings}")
        return crossner(stage, *use, *TAGGER, "--max-steps", "1", *named, *more, code=code)

    tag("finetune", "bilstm-crf", "finetune", "strings")
    manifest = run.manifest("finetune", wanted_by="test")
    assert manifest["inputs"][str(run.folder("strings"))] == run.digest("strings")
    assert "string_embeddings=strings" in manifest["options"]["settings"]
    for method in TWO_DOMAINS:  # as inputs of the other methods of words, by path too
        tag("joint-train", method, method, str(run.folder("strings")))
    refused = tag("finetune", "bilstm-crf", "x", "strings", "--start-from", "strings", code=1)
    assert "from which a tagger cannot start" in refused
    refused = tag("finetune", "bilstm-crf", "x", "prepare-data", code=1)
    assert "finished stages here: cross-domain-lm, finetune" in refused
    path = run.folder("strings") / "manifest.json"
    manifest = json.loads(path.read_text())
    assert list(manifest["inputs"]) == ["prepare-data/corpus/domain.txt", "prepare-data/source/train.jsonl"]
    path.write_text(json.dumps({**manifest, "inputs": {"prepare-data/corpus/domain.txt": "of other data"}}))
    assert "were trained on other data" in tag("finetune", "bilstm-crf", "y", "strings")
