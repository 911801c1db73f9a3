"""The whole chain through the real command line, on the bundled sample and a tiny encoder."""

from __future__ import annotations

import errno
import json
import shutil
from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.commands import QUICK, crossner
from builders.encoders import TOKENIZER_FILES
from builders.runs import rewrite_prepared
from builders.starts import design_tagger
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from typer.testing import CliRunner

from crossner_cli.cli import app
from crossner_cli.corpus.levels import LEVELS
from crossner_cli.data.sentences import PreparedData, Sentence, read_sentences
from crossner_cli.data.tags import TagSet, split_tag
from crossner_cli.data.text import find_words, segment
from crossner_cli.engine.devices import start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import score
from crossner_cli.options import Finetune, Predict, PretrainSource
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import exhaust
from crossner_cli.run.stage import Stage
from crossner_cli.stages import dapt
from crossner_cli.stages import train as tagger_training
from crossner_cli.stages.recipe import read_data, resolve_recipe
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.known_words import collect_known_words
from crossner_cli.taggers.sources import Start
from crossner_cli.taggers.tagging import Tagged, fit_calibration, read_calibration, score_entities, tag
from crossner_cli.training.plan import Plan

MODEL_FILES = {"README.md", "config.json", "model.safetensors", *TOKENIZER_FILES}
TAGGER_FILES = {*MODEL_FILES, "tagger.json", "tagger.safetensors", "training.json"}

every_method_of_several_tasks = pytest.mark.parametrize(
    "method", ["cross-domain-lm", "multi-cell-lstm", "multi-task-lstm"]
)


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, tiny_encoder_folder: Path) -> Path:
    """A run with every stage."""
    run = tmp_path_factory.mktemp("chain") / "run"
    here = ("--run", run)
    crossner(
        "prepare-data",
        *here,
        "--source",
        "sample-source",
        "--target",
        "sample-target",
        "--corpus",
        "sample-target",
        "--entities",
        "sample-target",
    )
    crossner(
        "dapt",
        *here,
        *QUICK,
        "--encoder",
        tiny_encoder_folder,
        "--corpus-level",
        "integrated",
        "--block-size",
        "32",
        "--max-steps",
        "20",
    )
    crossner("pretrain-source", *here, *QUICK, "--start-from", "dapt", "--epochs", "1")
    crossner("finetune", *here, *QUICK, "--start-from", "pretrain-source", "--seeds", "1,2", "--epochs", "1")
    crossner("joint-train", *here, *QUICK, "--start-from", "dapt", "--method", "crf", "--max-steps", "5")
    crossner("evaluate", *here, *QUICK, "--model", "finetune", "--model", "joint-train")
    return run


def test_each_stage_leaves_exactly_its_files(chain: Path) -> None:
    assert files_of(chain / "prepare-data") == {
        "manifest.json",
        "statistics.json",
        "repairs.json",
        "source/train.jsonl",
        "source/dev.jsonl",
        "source/words.json",
        "target/train.jsonl",
        "target/dev.jsonl",
        "target/test.jsonl",
        "target/words.json",
        *(f"corpus/{level}.{kind}" for level in LEVELS for kind in ("txt", "mentions")),
    }
    assert files_of(chain / "dapt") == {
        "manifest.json",
        "encoder/training.json",
        *(f"encoder/{name}" for name in MODEL_FILES),
    }
    assert files_of(chain / "pretrain-source") == {"manifest.json", *(f"tagger/{name}" for name in TAGGER_FILES)}
    assert files_of(chain / "finetune") == {
        "manifest.json",
        *(f"tagger-seed-{seed}/{name}" for seed in (1, 2) for name in TAGGER_FILES),
    }
    assert {path.name for path in chain.iterdir() if not path.name.startswith(".lock-")} == {
        "prepare-data",
        "dapt",
        "pretrain-source",
        "finetune",
        "joint-train",
        "evaluate",
    }


def test_a_corpus_too_short_for_a_block_leaves_nothing_that_a_smaller_block_has_to_be_forced_over(
    tiny_encoder_folder: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Anna met Peter in London.\n" * 2)
    crossner("prepare-data", "--run", tmp_path, "--target", "sample-target", "--corpus", text)
    adapt = (
        "dapt",
        "--run",
        tmp_path,
        *QUICK,
        "--encoder",
        tiny_encoder_folder,
        "--corpus-level",
        "domain",
        "--held-out",
        "0",
        "--epochs",
        "1",
    )
    refused = CliRunner().invoke(app, [*map(str, adapt), "--block-size", "64"])
    assert refused.exit_code == 1 and "make no block of 64" in refused.stderr
    assert not list(tmp_path.glob(".draft-dapt")), "the way out is open"
    assert crossner(*adapt, "--block-size", "8")["result"]["corpus"]["blocks"] > 0


@pytest.mark.parametrize("kind", ["encoder", "strings"])
def test_an_adaptation_that_ends_on_a_full_disk_is_finished_without_training_again(
    kind: str, chain: Path, tmp_path: Path, tiny_encoder_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(chain / "prepare-data", tmp_path / "prepare-data")
    encoder = ("--encoder", tiny_encoder_folder, "--block-size", "32", "--head-warmup", "0.5")
    adapt = (
        "dapt",
        "--run",
        tmp_path,
        *QUICK,
        "--max-steps",
        "2",
        "--epochs",
        "1",
        *(encoder if kind == "encoder" else ("--encoder", "strings", "--hidden-size", "4")),
    )

    def full(stage: Stage, *arguments: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Stage, "finish", full)
        assert CliRunner().invoke(app, [*map(str, adapt)]).exit_code == 1
    assert not (tmp_path / "dapt").exists() and not list(tmp_path.glob(".draft-dapt/checkpoint*"))
    again = CliRunner().invoke(app, [*map(str, adapt), "--json"])
    assert again.exit_code == 0 and "trained before the interruption" in again.stderr and "updates" not in again.stderr
    assert json.loads(again.stdout)["result"]["updates"] == 2
    assert {path.name for path in (tmp_path / "dapt").iterdir()} & {"blocks", "text", "checkpoint"} == set()


def test_published_settings_are_part_of_what_a_stage_was_made_with(chain: Path, tmp_path: Path) -> None:
    shutil.copytree(chain, tmp_path / "run")
    adapt = (
        "dapt",
        "--run",
        tmp_path / "run",
        *QUICK,
        "--encoder",
        chain / "dapt" / "encoder",
        "--name",
        "again",
        "--block-size",
        "32",
        "--max-steps",
        "1",
        "--epochs",
        "1",
        "--head-warmup",
        "0.5",
        "--batch-size",
        "2",
        "--learning-rate",
        "5e-5",
        "--weight-decay",
        "0",
        "--warmup",
        "0",
    )
    done = CliRunner().invoke(app, [*map(str, adapt), "--paper", "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["options"]["attention_dropout"] is True
    refused = CliRunner().invoke(app, list(map(str, adapt)))
    assert refused.exit_code == 1 and "attention_dropout: True -> False" in refused.stderr


@every_method_of_several_tasks
@pytest.mark.parametrize(("given", "missing"), [("target", "source"), ("source", "target")])
def test_a_run_without_one_of_the_domains_says_so_before_any_work(
    method: str, given: str, missing: str, tmp_path: Path
) -> None:
    crossner("prepare-data", "--run", tmp_path, f"--{given}", f"sample-{given}")
    tasks = ("--set", "tasks=target-ner,source-ner,target-lm,source-lm")
    adversary = ("--set", "adversary=dann") if method == "multi-task-lstm" else ()
    done = CliRunner().invoke(
        app, ["joint-train", "--run", str(tmp_path), *QUICK, "--method", method, *tasks, *adversary]
    )
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    assert f"joint-train needs a {missing} domain" in " ".join(done.stderr.split())


def test_the_manifest_tells_the_line_of_the_weights_and_what_carried_over(chain: Path) -> None:
    manifest = json.loads((chain / "finetune" / "manifest.json").read_text())
    assert [step.get("stage", "base") for step in manifest["lineage"]] == ["base", "dapt", "pretrain-source"]
    start = manifest["result"]["start"]
    assert set(start["carried_types"]) == {"person", "organisation", "location", "misc"}
    assert set(start["fresh_types"]) == {"astronomicalobject", "spacecraft", "telescope"}
    assert start["left"] == 0
    assert manifest["outputs"].keys() == files_of(chain / "finetune") - {"manifest.json"}
    adapted = json.loads((chain / "dapt" / "manifest.json").read_text())["result"]["start"]
    assert adapted["loaded"] > 20 and adapted["new"] == len(adapted["new_tensors"]) > 0 and adapted["left"] == 0


def test_the_card_in_each_model_folder_tells_what_the_manifest_tells(chain: Path) -> None:
    manifest = json.loads((chain / "finetune" / "manifest.json").read_text())
    for seed, record in manifest["result"]["seeds"].items():
        card = ModelCard.load(chain / "finetune" / record["folder"] / "README.md")
        (score,) = card.data.eval_results or []
        assert (score.dataset_name, score.metric_value) == ("sample-target", round(record["dev_f1"], 2))
        assert (card.data.language, card.data.library_name) == ("en", "transformers")
        counts = json.loads((chain / "prepare-data" / "manifest.json").read_text())["result"]["domains"]["target"]
        train = counts["splits"]["train"]
        assert f"| target | sample-target | {train['sentences']:,} | {train['words']:,} |" in card.text
        this = f"4. finetune, named finetune, method linear, seed {seed}: this model"
        assert "1. encoder tiny-encoder" in card.text and "2. dapt, named dapt" in card.text
        assert "3. pretrain-source, named pretrain-source" in card.text and this in card.text
        assert "seeds = 1,2" in card.text
        assert str(chain.parent) not in card.content, "no path of the machine"
    encoder = ModelCard.load(chain / "dapt" / "encoder" / "README.md")
    assert encoder.data.pipeline_tag == "fill-mask" and "corpus level integrated" in encoder.text


def test_a_tagger_is_saved_with_a_calibration_fitted_on_dev_sentences_alone(
    chain: Path, tiny_encoder_folder: Path
) -> None:
    crossner(
        "finetune",
        "--run",
        chain,
        "--name",
        "longer",
        *QUICK,
        "--encoder",
        tiny_encoder_folder,
        "--epochs",
        "2",
        "--head-learning-rate",
        "0.05",
    )
    dev = list(read_sentences(chain / "prepare-data" / "target" / "dev.jsonl"))
    engine = start_engine(Predict(device="cpu", threads=1))
    folder = chain / "longer" / "tagger"
    found = score_entities([sentence.tags or () for sentence in dev], tag(load_tagger(folder, engine), dev, engine))
    stored, fitted = read_calibration(folder), fit_calibration(found)
    assert stored is not None
    assert stored.entities == fitted.entities == len(found) > 0
    assert (stored.slope, stored.intercept) == pytest.approx((fitted.slope, fitted.intercept), rel=0.05)
    shutil.rmtree(chain / "longer")


def test_a_stage_of_several_seeds_reports_mean_and_deviation(chain: Path) -> None:
    result = json.loads((chain / "finetune" / "manifest.json").read_text())["result"]
    first, second = (record["dev_f1"] for record in result["seeds"].values())
    assert result["dev_f1"] == pytest.approx((first + second) / 2)
    assert result["dev_f1_deviation"] == pytest.approx(abs(first - second) / 2**0.5)


def test_manifests_hold_what_curves_are_drawn_of(chain: Path) -> None:
    result = json.loads((chain / "finetune" / "manifest.json").read_text())["result"]
    assert result["train_sentences"] == {"target": 60} and result["settings"]["dropout"] == 0.1
    asked = CliRunner().invoke(app, ["report", str(chain), "--x", "epoch", "--json"])
    curves = json.loads(asked.stdout)["result"]["curves"]["series"]
    (point,) = next(points for name, points in curves.items() if "target's dev" in name)
    assert point["values"] == [record["history"][0]["score"] for record in result["seeds"].values()]


def test_the_same_command_again_is_already_done_and_other_options_say_what_differs(chain: Path) -> None:
    before = (chain / "finetune" / "manifest.json").read_bytes()
    same = ("finetune", "--run", str(chain), *QUICK, "--start-from", "pretrain-source", "--seeds", "1,2")
    again = CliRunner().invoke(app, [*same, "--epochs", "1"])
    assert again.exit_code == 0
    assert "already done" in again.stderr
    other = CliRunner().invoke(app, [*same, "--epochs", "2"])
    assert other.exit_code == 1
    assert "epochs: 1 -> 2" in other.stderr
    assert "--force" in other.stderr
    assert (chain / "finetune" / "manifest.json").read_bytes() == before


def test_the_same_seed_gives_the_same_losses_and_another_seed_others(chain: Path, tiny_encoder_folder: Path) -> None:
    def losses(name: str, seed: int) -> list[float]:
        result = crossner(
            "finetune",
            "--run",
            chain,
            "--name",
            name,
            *QUICK,
            "--encoder",
            tiny_encoder_folder,
            "--epochs",
            "2",
            "--seed",
            str(seed),
        )["result"]
        return [epoch["losses"]["tags"] for epoch in result["seeds"][str(seed)]["history"]]

    assert losses("a", 3) == losses("b", 3)
    assert losses("a", 3) != losses("c", 4)
    for name in "abc":
        shutil.rmtree(chain / name)


def test_training_never_opens_the_test_split_and_finetune_never_the_source(
    chain: Path, tiny_encoder_folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(chain / "prepare-data", run / "prepare-data")
    (run / "prepare-data" / "target" / "test.jsonl").unlink()
    quick = ("--run", run, *QUICK, "--encoder", tiny_encoder_folder, "--max-steps", "2")
    crossner("pretrain-source", *quick)
    crossner("joint-train", *quick)
    shutil.rmtree(run / "prepare-data" / "source")
    crossner("finetune", *quick)
    for stage in ("pretrain-source", "joint-train", "finetune"):
        assert files_of(run / stage) >= {f"tagger/{name}" for name in TAGGER_FILES}


def test_a_jointly_trained_tagger_looks_for_the_types_of_the_target(chain: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Anna visited Berlin.\n")
    output = ("--output", tmp_path / "out.jsonl")
    result = crossner("predict", tmp_path / "text.txt", "--run", chain, *QUICK, "--model", "joint-train", *output)
    assert result["result"]["domain"] == "sample-target"


def test_a_start_of_older_data_or_another_encoder_is_told(
    chain: Path, tiny_encoder_folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(chain / "prepare-data", run / "prepare-data")
    shutil.copytree(chain / "dapt", run / "dapt")
    quick = ("--run", str(run), *QUICK, "--max-steps", "1", "--start-from", "dapt")
    plain = CliRunner().invoke(app, ["pretrain-source", *quick, "--encoder", str(tiny_encoder_folder)])
    assert plain.exit_code == 0
    assert "prepared again" not in plain.stderr
    crossner("prepare-data", "--run", run, "--source", "sample-source", "--target", "sample-target", "--force")
    told = CliRunner().invoke(app, ["finetune", *quick, "--encoder", "other-encoder"])
    assert told.exit_code == 0
    assert "'dapt' was made before the data" in " ".join(told.stderr.split())


def test_a_stage_that_failed_before_it_did_anything_stands_in_nobodys_way(
    tiny_encoder_folder: Path, tmp_path: Path
) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    (data / "train.txt").write_text("anna\tB-person\n\nberlin\tB-place\n")
    quick = ("--run", str(run), *QUICK, "--max-steps", "1", "--encoder", str(tiny_encoder_folder))
    crossner("prepare-data", "--run", run, "--target", data)
    failed = CliRunner().invoke(app, ["finetune", *quick])
    assert failed.exit_code == 1 and "--dev-from-train" in failed.stderr
    crossner("prepare-data", "--run", run, "--target", data, "--dev-from-train", "0.5", "--force")
    crossner("finetune", *quick, "--epochs", "1")


def test_a_stage_that_needs_another_names_the_command_that_makes_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["finetune", "--run", str(tmp_path / "empty"), *QUICK])
    assert done.exit_code == 1
    assert "crossner prepare-data" in done.stderr


def test_unknown_start_method_setting_and_level_are_known_problems(
    chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    for arguments, text in (
        (("finetune", "--name", "x", "--start-from", "nowhere"), "neither base, a finished stage"),
        (("finetune", "--name", "x", "--start-from", "prepare-data"), "holds no weights"),
        (("finetune", "--name", "x", "--method", "nomethod"), "There is no method"),
        (("finetune", "--name", "x", "--set", "nokey=1"), "no setting 'nokey'"),
        (("finetune", "--name", "x", "--seeds", "1,1"), "distinct numbers"),
        (("finetune", "--name", "x", "--seeds", "1,01"), "distinct numbers"),
        (("finetune", "--name", "x", "--seeds", "\N{SUPERSCRIPT TWO}"), "distinct numbers"),
        (("finetune", "--name", "x", "--seeds", "99999999999999999999"), "from 0 to 4294967295"),
        (("finetune", "--name", "x", "--gpus", "\N{SUPERSCRIPT TWO}"), "is not a list of GPU numbers"),
        (("finetune", "--name", "x", "--encoder", "./nothing"), "was not found"),
        (("finetune", "--name", "x", "--gpus", "0,1"), "0 GPUs"),
        (("dapt", "--name", "x", "--block-size", "100000"), "reads at most"),
    ):
        done = CliRunner().invoke(app, [*arguments, "--run", str(chain), "--device", "cpu"][:99])
        assert done.exit_code == 1, (arguments, done.stdout, done.stderr)
        assert text in " ".join(done.stderr.split()), done.stderr
        assert "Traceback" not in done.stderr
    assert not (chain / "x").exists()


def test_a_sentence_of_5000_words_gets_5000_tags_in_training_evaluation_and_prediction(
    tiny_encoder_folder: Path, tmp_path: Path
) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    words = ["anna" if number % 10 == 0 else "visited" for number in range(5000)]
    lines = "".join(f"{word}\t{'B-person' if word == 'anna' else 'O'}\n" for word in words)
    for split in ("train", "dev", "test"):
        (data / f"{split}.txt").write_text(f"{lines}\npeter\tB-person\nmet\tO\n\n")
    crossner("prepare-data", "--run", run, "--target", data)
    tagged = crossner(
        "finetune",
        "--run",
        run,
        *QUICK,
        "--encoder",
        tiny_encoder_folder,
        "--epochs",
        "40",
        "--patience",
        "40",
        "--set",
        "dropout=0",
        "--learning-rate",
        "0.005",
    )
    assert tagged["result"]["dev_f1"] > 99, "the loss must have reached words far behind the encoder's limit of 64"
    result = crossner("evaluate", "--run", run, *QUICK)
    assert next(iter(result["result"]["models"].values()))["f1"]["mean"] > 99
    predicted = [json.loads(line) for line in (run / "evaluate" / "predictions.jsonl").read_text().splitlines()]
    assert [len(record["tags"]) for record in predicted] == [5000, 2]
    (tmp_path / "long.txt").write_text(" ".join(words) + "\n")
    crossner("predict", tmp_path / "long.txt", "--run", run, *QUICK, "--output", tmp_path / "out.jsonl")
    (record,) = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(record["tags"]) == 5000
    assert len(record["entities"]) == 500


def test_a_tagger_of_words_reads_a_file_of_vectors_or_learns_them_from_the_raw_text(
    chain: Path, tmp_path: Path
) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("telescope 0.5 1 2\nthe 1 0 -1\n")
    quick = (*QUICK, "--method", "bilstm-crf", "--set", "lstm_size=4", "--set", "word_size=5", "--max-steps", "2")
    run = tmp_path / "run"
    shutil.copytree(chain / "prepare-data", run / "prepare-data")
    given = ("finetune", "--run", str(run), *quick, "--embeddings", str(vectors))
    first = CliRunner().invoke(app, [*given])
    assert first.exit_code == 0 and "4 of" in first.stderr and "2 lower-cased" in first.stderr
    assert "already done" in CliRunner().invoke(app, [*given]).stderr
    vectors.write_text("telescope 0.5 1 3\nthe 1 0 -1\n")
    changed = CliRunner().invoke(app, [*given])
    assert changed.exit_code == 1 and "embeddings" in changed.stderr and "--force" in changed.stderr
    ngrams = tmp_path / "charNgram.txt"
    ngrams.write_text("2gram-th 0.5 1\n3gram-ing 1 0\n")
    crossner(
        "finetune", "--run", run, *quick, "--set", "characters=ngrams", "--ngram-embeddings", ngrams, "--name", "ngrams"
    )
    crossner("evaluate", "--run", run, *QUICK, "--model", "ngrams", "--name", "of-ngrams")
    pytest.importorskip("gensim")
    crossner("finetune", "--run", run, *quick, "--embeddings", "corpus", "--name", "raw")
    result = crossner("evaluate", "--run", run, *QUICK, "--model", "finetune", "--model", "raw")["result"]
    assert set(result["models"]) == {"finetune", "raw"}


def test_frozen_vectors_are_kept_for_words_of_the_raw_text_and_words_without_one_are_counted(
    chain: Path, tmp_path: Path
) -> None:
    run, corpus = tmp_path / "run", chain / "prepare-data" / "corpus" / "domain.txt"
    labelled = {word for path in corpus.parents[1].rglob("words.json") for word in json.loads(path.read_text())}
    counts = Counter(word.text for line in corpus.read_text().splitlines() for words in segment(line) for word in words)
    raw = [word for word, count in counts.items() if count >= 3 and word.lower() not in labelled | {"the"}]
    known = next(word for word in raw if word not in labelled)
    title = next(
        word
        for word in sorted(labelled)
        if word.isalpha() and word.istitle() and not {word.lower(), word.upper()} & labelled
    )
    seldom = next(word for word, count in counts.items() if count == 2 and not {word, word.lower()} & labelled)
    vectors = tmp_path / "vectors.txt"
    vectors.write_text(f"the 1 0 -1\n{known} 0 1 2\nzebulon 2 2 2\n{seldom} 4 4 4\n{title.lower()} 1 1 1\n")
    shutil.copytree(chain / "prepare-data", run / "prepare-data")
    quick = (*QUICK, "--method", "bilstm-crf", "--set", "lstm_size=4", "--max-steps", "2", "--embeddings", vectors)
    vocabulary = {}
    for words in ("frozen", "trained"):
        crossner("finetune", "--run", run, *quick, "--set", f"words={words}", "--name", words)
        vocabulary[words] = json.loads((run / words / "tagger" / "words.json").read_text())["words"]
    assert known in vocabulary["frozen"] and not {"zebulon", seldom} & {*vocabulary["frozen"]}
    assert known not in vocabulary["trained"]
    (tmp_path / "new.txt").write_text(f"The {known} saw Zebulon {title.upper()}\n")
    said = crossner(
        "predict", tmp_path / "new.txt", "--run", run, *QUICK, "--model", "frozen", "--output", tmp_path / "o"
    )
    assert said["result"]["unknown_words"] == 2
    scored = crossner("evaluate", "--run", run, *QUICK, "--model", "frozen")["result"]["models"]["frozen"]
    assert scored["unknown_words"] > 100


def test_a_source_tagger_of_several_tasks_knows_both_domains_and_starts_a_joint_one(
    chain: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(chain / "prepare-data", run / "prepare-data")
    quick = (*QUICK, "--method", "cross-domain-lm", "--set", "lstm_size=4", "--max-steps", "2")
    source = crossner("pretrain-source", "--run", run, *quick, "--set", "lm_text=labelled")
    history = source["result"]["seeds"]["1"]["history"]
    assert set(history[-1]["losses"]) == {"tags source", "language source"}
    weights = load_file(run / "pretrain-source" / "tagger" / "tagger.safetensors")
    ranks = weights["language_model.ids_by_rank"]
    words = json.loads((run / "pretrain-source" / "tagger" / "words.json").read_text())["words"]
    frequent = {words[number - 1] for number in ranks[:30].tolist() if number}
    assert {"the", "of", "in"} <= frequent, "negative words are ranked by frequency, without raw text too"
    assert not any("tag_layers.1" in name for name in weights), "what no task learns is not there"
    assert source["result"]["settings"]["tasks"] == "source-ner,source-lm"
    joint = crossner("joint-train", "--run", run, *quick, "--start-from", "pretrain-source")
    start = joint["result"]["start"]
    assert start["loaded"] > 10 and start["left"] == 2, "but for the ranks of the words, which are counted anew"


@every_method_of_several_tasks
def test_a_target_starts_from_the_tags_that_its_source_learnt_and_tells_which_types_those_were(
    method: str, chain: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(chain / "prepare-data", run / "prepare-data")
    quick = ("--run", run, *QUICK, "--method", method, "--set", "lstm_size=4", "--max-steps", "2")
    lines = CliRunner().invoke(app, [*map(str, ("pretrain-source", *quick))]).stderr
    assert "trains source-ner" in lines and "as pretrain-source does not read that domain" in lines
    still = ("--head-learning-rate", "0", "--start-from", "pretrain-source")
    target = crossner("finetune", *quick, *still)
    source, begun = (
        load_file(run / stage / "tagger" / "tagger.safetensors") for stage in ("pretrain-source", "finetune")
    )
    learnt = source["tag_layers.0.crf.transitions"]
    assert learnt.abs().sum() > 0
    domains = {
        stage: json.loads((run / stage / "tagger" / "tagger.json").read_text())["tag_set"]["domains"]
        for stage in ("pretrain-source", "finetune")
    }
    old, new = (TagSet({name: tuple(types) for name, types in found.items()}) for found in domains.values())
    source_types = set(old.domains[list(old.domains)[-1]])
    taught = [tag for tag in new.tags if tag == "O" or split_tag(tag)[1] in source_types]
    assert set(new.tags) & set(old.tags) > set(taught), "rows of the target's own types are there, and are not taken"
    into, out_of = ([tags.index(tag) for tag in taught] for tags in (new.tags, old.tags))
    found = begun["tag_layers.0.crf.transitions"][into][:, into]
    assert torch.equal(found, learnt[out_of][:, out_of])
    start = target["result"]["start"]
    assert (
        set(start["carried_types"]) == source_types & set(new.types)
        and set(start["fresh_types"]) == set(new.types) - source_types
    )


@pytest.fixture(scope="module")
def few_sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six labelled sentences a domain and as many raw ones of the target."""
    folder = tmp_path_factory.mktemp("few")
    for domain in ("news", "songs"):
        (folder / domain).mkdir()
        for split in ("train", "dev", "test"):
            lines = [f"{domain}{split}\tO", "met\tO", "Anna\tB-person", "", "Peter\tB-person", ""]
            (folder / domain / f"{split}.txt").write_text("\n".join([*lines, ""]))
    (folder / "raw.txt").write_text("".join(f"raw visited Paris{' .' * number}\n" for number in range(6)))
    crossner(
        "prepare-data",
        "--run",
        folder,
        "--source",
        folder / "news",
        "--target",
        folder / "songs",
        "--corpus",
        folder / "raw.txt",
    )
    return folder


@every_method_of_several_tasks
def test_raw_text_is_learnt_from_beside_a_frozen_transformer_that_stays_as_it_is(
    few_sentences: Path, tiny_encoder_folder: Path, method: str
) -> None:
    settings = ["transformer=frozen", "tasks=source-ner,target-lm", "lstm_size=4"]
    if method == "multi-task-lstm":
        settings.append("adversary=grad")
    given = [argument for setting in settings for argument in ("--set", setting)]
    result = crossner(
        "joint-train",
        "--run",
        few_sentences,
        "--name",
        method,
        *QUICK,
        "--method",
        method,
        *given,
        "--select-on",
        "source",
        "--encoder",
        tiny_encoder_folder,
        "--max-steps",
        "2",
    )["result"]
    losses = result["seeds"]["1"]["history"][-1]["losses"]
    assert "tags source" in losses and "tags target" not in losses
    assert ("adversary" if method == "multi-task-lstm" else "language target") in losses
    folder = few_sentences / method / "tagger"
    tagger: Any = load_tagger(folder, start_engine(Finetune(device="cpu", precision="fp32", threads=1)))
    assert tagger.encoder.frozen_size == 32 and "Paris" in tagger.encoder.vocabulary.words
    stored, begun = (load_file(each / "model.safetensors") for each in (folder, tiny_encoder_folder))
    assert all(torch.equal(stored[name], value) for name, value in begun.items())


@every_method_of_several_tasks
def test_methods_of_several_tasks_open_only_what_their_tasks_read_and_never_a_test_split(
    chain: Path, tmp_path: Path, method: str
) -> None:
    data = tmp_path / "run" / "prepare-data"
    shutil.copytree(chain / "prepare-data", data)
    quick = ("--run", tmp_path / "run", *QUICK, "--method", method, "--set", "lstm_size=4", "--max-steps", "2")
    lines = (data / "target" / "test.jsonl").read_text().splitlines()
    tested = {word for line in lines for word in json.loads(line)["words"]}
    for split in data.glob("*/test.jsonl"):
        split.unlink()
    crossner("joint-train", *quick)
    read = {word for path in data.glob("*/*.jsonl") for line in path.open() for word in json.loads(line)["words"]}
    read |= {word.text for line in (data / "corpus" / "domain.txt").open() for word in find_words(line)}
    words = set(json.loads((tmp_path / "run" / "joint-train" / "tagger" / "words.json").read_text())["words"])
    assert words <= read and tested - words
    shutil.rmtree(data / "corpus")
    (data / "target" / "train.jsonl").unlink()
    crossner("pretrain-source", *quick, "--set", "tasks=source-ner")
    shutil.rmtree(data / "target")
    shutil.copytree(chain / "prepare-data" / "target", data / "target")
    (data / "target" / "test.jsonl").unlink()
    shutil.rmtree(data / "source")
    crossner("finetune", *quick, "--set", "tasks=target-ner")


def test_a_word_that_raw_text_has_often_is_not_hidden_though_labelled_sentences_have_it_once(chain: Path) -> None:
    prepared = PreparedData.load(RunDirectory(chain), wanted_by="joint-train")
    sentences = [Sentence(("Zorblax", "met", "Snark"), ("O", "O", "O"), "sample-target")]
    tag_set = TagSet({"sample-target": ("person",)})
    for settings, raw_words, rare in (
        ([], ["Zorblax", "often"], {"met", "Snark"}),
        (["lower_case=true"], ["Zorblax"], {"met", "snark"}),
    ):
        design = design_tagger(chain, "multi-cell-lstm", settings)
        base = Start("base", None, "")
        known = exhaust(collect_known_words(design, prepared, sentences, tag_set, base, raw_words))
        assert known is not None and known.vocabulary.rare == rare


def test_lower_cased_words_of_raw_text_find_their_vectors_and_those_without_one_are_unknown(
    chain: Path, tmp_path: Path
) -> None:
    run, corpus = tmp_path / "run", chain / "prepare-data" / "corpus" / "domain.txt"
    shutil.copytree(chain / "prepare-data", run / "prepare-data")
    raw = run / "prepare-data" / "corpus" / "domain.txt"
    rewrite_prepared(run, raw, corpus.read_text() + "Zorblax and Snark met\n" * 6)
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("zorblax 1 2\nthe 0 1\n")
    quick = (*QUICK, "--method", "multi-cell-lstm", "--set", "lstm_size=4", "--max-steps", "1", "--embeddings", vectors)
    quick += ("--set", "tasks=source-ner,target-lm", "--set", "lower_case=true", "--select-on", "source")
    for words in ("frozen", "trained"):
        crossner("joint-train", "--run", run, *quick, "--set", f"words={words}", "--name", words)
        folder = run / words / "tagger"
        vocabulary = json.loads((folder / "words.json").read_text())["words"]
        rows = load_file(folder / "words.safetensors")["words.weight"]
        assert "Zorblax" not in vocabulary and ("snark" in vocabulary) == (words == "trained")
        if words == "frozen":
            assert rows[vocabulary.index("zorblax")].tolist() == [1, 2]


def test_published_n_grams_are_looked_up_with_capitals_though_words_are_lower_cased(
    chain: Path, tmp_path: Path
) -> None:
    prepared = PreparedData.load(RunDirectory(chain), wanted_by="finetune")
    capital = next(word for word in prepared.domain("target", wanted_by="finetune").words() if word[0].isupper())
    path = tmp_path / "charNgram.txt"
    path.write_text(f"2gram-#BEGIN#{capital[0]} 1 2\n")
    design = replace(
        design_tagger(chain, "bilstm-crf", ["characters=ngrams", "lower_case=true"]), ngram_embeddings=str(path)
    )
    tag_set, base = TagSet({"sample-target": ("person",)}), Start("base", None, "")
    known = exhaust(collect_known_words(design, prepared, [], tag_set, base))
    assert known is not None and known.vocabulary.ngrams == (f"2gram-#BEGIN#{capital[0]}",)
    path.write_text(f"2gram-#begin#{capital[0].lower()} 1 2\n0gram-#BEGIN#{capital[0]} 1 2\n")
    with pytest.raises(CrossNERError, match="none of .* character n-grams of the data"):
        exhaust(collect_known_words(design, prepared, [], tag_set, base))


def test_data_prepared_without_lists_of_words_train_a_tagger_of_words_too(chain: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(chain / "prepare-data", run / "prepare-data")
    for words in run.rglob("words.json"):
        words.unlink()
    crossner("finetune", "--run", run, *QUICK, "--method", "bilstm-crf", "--set", "lstm_size=4", "--max-steps", "2")
    assert (run / "finetune" / "tagger" / "words.safetensors").is_file()


def test_with_a_test_split_of_the_target_alone_the_source_trains_and_the_target_scores(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "test.txt").write_text("Zebulon\tB-PER\nvisited\tO\nParis\tB-LOC\n\nNothing\tO\n")
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("Zebulon 1 2\nthe 3 4\n")
    run = ("--run", tmp_path / "run")
    types = "person=PER,organisation=ORG,location=LOC,misc=MISC"
    crossner("prepare-data", *run, "--source", "sample-source", "--target", target, "--map-types", types)
    quick = (*QUICK, "--method", "mtl", "--set", "lstm_size=4", "--embeddings", vectors, "--max-steps", "2")
    crossner("pretrain-source", *run, *quick)
    known = json.loads((tmp_path / "run" / "pretrain-source" / "tagger" / "words.json").read_text())
    assert "Zebulon" in known["words"], "a word of the target that the file has a vector of"
    scores = crossner("evaluate", *run, *QUICK, "--model", "pretrain-source")["result"]["models"]["pretrain-source"]
    assert scores["support"] == 2 and {row["type"] for row in scores["per_type"]} >= {"PER", "LOC"}


def test_the_best_epoch_is_chosen_by_the_micro_f1_of_dev_as_conlleval_counts_it(
    chain: Path,
    tiny_encoder_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dev = list(read_sentences(chain / "prepare-data" / "target" / "dev.jsonl"))
    gold = [sentence.tags or () for sentence in dev]
    missed = max(tag[2:] for tags in gold for tag in tags)  # a type of which nothing is found
    predicted = [
        tuple("O" if tag.endswith(missed) else tag.replace("B-", "I-") if number % 2 else tag for tag in tags)
        for number, tags in enumerate(gold)
    ]
    scores = {mode: score(gold, predicted, mode=mode) for mode in ("conll", "strict")}  # type: ignore[arg-type]
    found = scores["conll"]
    others = (found.macro_f1, found.precision, found.recall, scores["strict"].f1)
    assert all(abs(found.f1 - other) > 0.5 for other in others), f"{found.f1} is not told apart of {others}"

    def tagged(*_: Any, **__: Any) -> list[Tagged]:
        return [Tagged(tags, (0.5,) * len(tags)) for tags in predicted]

    monkeypatch.setattr(tagger_training, "tag", tagged)
    result = crossner(
        "finetune", "--run", chain, "--name", "chosen", *QUICK, "--encoder", tiny_encoder_folder, "--epochs", "1"
    )["result"]
    shutil.rmtree(chain / "chosen")
    assert result["dev_f1"] == pytest.approx(found.f1)


@pytest.mark.parametrize("role", ["target", "source"])
def test_the_dev_sentences_that_choose_are_those_of_the_domain_that_is_asked_for(chain: Path, role: Any) -> None:
    run, options = RunDirectory(chain), PretrainSource(select_on=role, method="bilstm-crf", device="cpu", threads=1)
    recipe = resolve_recipe(run, options, start_engine(options), "pretrain-source", ["source"])
    data = exhaust(read_data(recipe, "pretrain-source"))
    prepared = recipe.prepared
    assert data.dev == prepared.domain(role, wanted_by="pretrain-source").sentences("dev")


def test_an_adaptation_trains_as_its_options_say(
    chain: Path,
    tiny_encoder_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(chain / "prepare-data", tmp_path / "prepare-data")
    plans: list[Plan] = []
    fit = dapt.fit

    def watched(
        model: Any, groups: Any, streams: Any, plan: Plan, *more: Any, **named: Any
    ) -> Generator[Any, None, Any]:
        plans.append(plan)
        return fit(model, groups, streams, plan, *more, **named)

    monkeypatch.setattr(dapt, "fit", watched)
    crossner(
        "dapt",
        "--run",
        tmp_path,
        *QUICK,
        "--encoder",
        tiny_encoder_folder,
        "--block-size",
        "32",
        "--max-steps",
        "2",
        "--epochs",
        "3",
        "--warmup",
        "0.3",
        "--clip-norm",
        "0.5",
        "--accumulate",
        "2",
        "--checkpoint-every",
        "9",
        "--masking",
        "span",
        "--mask-rate",
        "0.4",
    )
    assert plans == [
        Plan(epochs=3, max_steps=2, warmup=0.3, clip_norm=0.5, accumulate=2, keep="last", checkpoint_every=9)
    ]
