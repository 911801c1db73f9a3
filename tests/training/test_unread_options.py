"""Options and settings that change nothing are told, with the reason; those that change something never are."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from crossner_cli.cli import app
from crossner_cli.encoders.word_encoder import TENSORS
from crossner_cli.methods.contract import find_method, method_names, read_settings
from crossner_cli.options import Finetune, JointTrain, Optimisation
from crossner_cli.taggers.starts import Start
from crossner_cli.training.unread_options import unread_options

BASE = Start("base", None, "digest")
WORDS = "Anna\tB-PER\nmet\tO\nParis\tB-LOC\n\nAnna\tB-PER\n"


def told(
    *settings: str, kind: type[Optimisation] = Finetune, method: str = "bilstm-crf", tasks: tuple[str, ...] = (),
    start: Start = BASE, sentences: dict[str, int] | None = None, **options: Any,
) -> list[str]:  # fmt: skip
    given = kind(method=method, settings=list(settings), **options)
    return unread_options(given, tasks, start, sentences or {"target": 1})


@pytest.mark.parametrize(
    ("method", "unread", "read"),
    [
        ("bilstm-crf", ("word_size=8", "words=none"), ("word_size=8", "words=trained")),
        ("bilstm-crf", ("lower_case=true", "words=none"), ("lower_case=true",)),
        ("bilstm-crf", ("character_size=8", "characters=none"), ("character_size=8", "characters=ngrams")),
        ("bilstm-crf", ("character_dropout=0.2", "characters=ngrams"), ("character_dropout=0.2",)),
        ("multi-task-lstm", ("digits=zeros", "words=none", "characters=none", "transformer=frozen"),
         ("digits=zeros", "words=none", "transformer=frozen")),
        ("bilstm-crf", ("dropout=0.2", "lstm_layers=1"), ("output_dropout=0.2", "lstm_layers=1")),
        ("laner", ("memory=8", "context=false"), ("memory=8", "background=false")),
        ("laner", ("label_size=8", "context=false", "background=false"), ("label_size=8", "context=false")),
        ("coach", ("template_weight=2",), ("template_weight=2", "templates=true")),
        ("mtl", ("lstm_size=8", "lstm_layers=0"), ("lstm_size=8", "lstm_layers=1")),
        ("moee", ("dropout=0.2", "lstm_layers=1"), ("dropout=0.2",)),
        ("concept-tagger", ("dropout=0.2", "lstm_layers=0"), ("lstm_size=8", "lstm_layers=0")),
        ("moee", ("entity_weight=2", "multi_task=false"), ("entity_weight=2",)),
        ("multi-task-lstm", ("domain_size=8",), ("domain_size=8", "generator=domain")),
        ("multi-task-lstm", ("focal_gamma=1", "adversary=dann"), ("focal_gamma=1", "adversary=grad")),
        ("multi-task-lstm", ("adversary_warmup=0.9", "adversary=grad"), ("adversary_warmup=0.9", "adversary=dann")),
        ("multi-task-lstm", ("adversary_weight=2",), ("adversary_weight=2", "adversary=dann")),
        ("cross-domain-lm", ("task_size=4", "generator=domain"), ("domain_size=4", "generator=domain")),
        ("cross-domain-lm", ("lm_text=raw", "tasks=target-ner,source-ner"), ("lm_text=raw",)),
        ("cross-domain-lm", ("lm_text=raw", "tasks=source-ner,target-lm"),
         ("lm_text=raw", "tasks=source-ner,source-lm")),
        ("cross-domain-lm", ("source_weight=2", "tasks=target-ner,target-lm"), ("source_weight=2",)),
        ("multi-cell-lstm", ("lm_weight=2",), ("lm_weight=2", "tasks=source-ner,target-lm")),
        ("multi-cell-lstm", ("attention=domain", "tasks=target-ner,target-lm"), ("attention=domain",)),
        ("cross-domain-lm", ("domain_vectors=alike", "tasks=source-ner"), ("domain_vectors=alike",)),
    ],
)  # fmt: skip
def test_a_setting_that_another_makes_meaningless_is_told(method, unread, read):
    (note,) = told(*unread, method=method)
    assert note.startswith(f"--set {unread[0]} is not read: ")
    assert told(*read, method=method) == []


def test_what_is_told_to_be_unread_is_a_setting_of_the_method():
    for method in method_names():
        kind = find_method(method)
        names = {field.name for field in dataclasses.fields(kind.Hyperparameters)}
        assert set(kind.unread_settings(read_settings(kind, []))) <= names, method


def test_a_setting_given_twice_says_which_one_holds():
    (note,) = told("lstm_size=8", "lstm_size=16")
    assert note == "--set lstm_size=8 is not read: --set lstm_size=16 stands behind it."
    assert told("lstm_size=8", "lstm-size=8") == []


def test_widths_that_come_with_vectors_are_told(tmp_path):
    (note,) = told("word_size=50", embeddings="glove.txt")
    assert note == "--set word_size=50 is not read: vectors are as wide as those of --embeddings."
    assert told("word_size=50", embeddings="corpus") == []
    (note,) = told("character_size=50", "characters=ngrams", ngram_embeddings="charNgram.txt")
    assert "--ngram-embeddings" in note
    (tmp_path / "words.json").write_text(json.dumps({"words": ["Anna"], "characters": "", "ngrams": []}))
    (note,) = told("word_size=50", start=Start("earlier", tmp_path, "digest"))
    assert "as wide as those of the start" in note
    save_file({"characters.table.weight": torch.zeros(2, 4)}, tmp_path / TENSORS)
    (note,) = told("character_size=50", "characters=ngrams", start=Start("earlier", tmp_path, "digest"))
    assert note == "--set character_size=50 is not read: vectors are as wide as those of the start."
    assert told("character_size=50", start=Start("earlier", tmp_path, "digest")) == [], "of a convolution"


def test_options_of_a_transformer_are_told_where_none_is_trained(tmp_path):
    rate, embeddings, encoder = told(learning_rate=0.01, train_embeddings=True, encoder="bert-base-cased")
    assert rate.startswith("--learning-rate 0.01 is not read: no transformer is trained (transformer=none)")
    assert "--head-learning-rate" in rate
    assert embeddings.startswith("--train-embeddings is not read")
    assert encoder.startswith("--encoder bert-base-cased is not read: transformer=none")
    (tmp_path / "words.json").write_text(json.dumps({"words": ["Anna"], "characters": "", "ngrams": []}))
    (encoder,) = told(encoder="bert-base-cased", start=Start("earlier", tmp_path, "digest"))
    assert encoder.endswith("transformer=none (the start 'earlier' has none that could read along).")
    assert len(told("transformer=frozen", learning_rate=0.01, encoder="bert-base-cased")) == 1
    assert told("transformer=trained", learning_rate=0.01, train_embeddings=True, encoder="bert-base-cased") == []
    assert told(method="linear", learning_rate=0.01, train_embeddings=True, encoder="bert-base-cased") == []


def test_what_the_paper_stands_for_is_no_option_that_a_method_of_words_does_not_read():
    for method in method_names():
        kind = find_method(method)
        if kind.reads == "words":
            left_alone = [name for name, value in kind.paper_options.items() if value is None]
            assert {"encoder", "learning_rate", "train_embeddings", "attention_dropout"} <= set(left_alone), method
    assert len(told(paper=True, learning_rate=5e-5, train_embeddings=True, encoder="bert-base-cased")) == 3
    assert told(attention_dropout=True) == [
        "--attention-dropout is not read: no transformer is trained (transformer=none)."
    ]


def test_settings_that_the_paper_gives_are_not_told_to_be_unread(tmp_path):
    vectors = tmp_path / "v.txt"
    paper = [f"{name}={value}" for name, value in find_method("bilstm-crf").published({}).items()]
    assert "word_size=300" in paper
    assert not told(*paper, paper=True, embeddings=str(vectors))
    assert [line.partition(" is")[0] for line in told(*paper, embeddings=str(vectors))] == ["--set word_size=300"]
    assert len(told(*paper, "word_size=200", paper=True, embeddings=str(vectors))) == 2, "given beside it"


def test_options_of_raw_text_and_of_the_smaller_domain_are_told_where_there_is_none():
    both = {"target": 10, "source": 100}
    streams = ("target-ner", "source-ner")
    size, fewest = told(raw_batch_size=8, raw_minimum=2)
    assert size.startswith("--raw-batch-size 8 is not read") and fewest.startswith("--raw-minimum 2 is not read")
    given: dict[str, Any] = {"kind": JointTrain, "method": "multi-cell-lstm", "sentences": both}
    assert told(tasks=("source-ner", "target-lm"), raw_batch_size=8, raw_minimum=2, **given) == []
    frozen: dict[str, Any] = {"tasks": ("source-ner", "target-lm"), **given}
    assert told("words=frozen", raw_minimum=3, **frozen) == [], "fewer than of vectors that are looked up anyway"
    (note,) = told("words=frozen", raw_minimum=4, **frozen)
    assert note.startswith("--raw-minimum 4 is not read: with words=frozen a word of raw text that has a vector")
    assert told(tasks=streams, upsample=5, **given) == []
    (note,) = told(tasks=("source-ner", "target-lm"), upsample=5, **{**given, "sentences": {"source": 100}})
    assert note == "--upsample 5 is not read: tasks=source-ner,target-lm learns no labels of the target."
    (note,) = told(tasks=streams, upsample=5, **{**given, "sentences": {"target": 100, "source": 10}})
    assert note.startswith("--upsample 5 is not read: ")
    published: dict[str, Any] = {"tasks": ("source-ner", "target-lm"), "paper": True, **given}
    assert told(upsample=1, **published) == [], "what --paper has set and nobody has given"
    assert len(told(upsample=5, **published)) == 1
    assert told(kind=JointTrain, upsample=5, sentences={"target": 100, "source": 10}) == []


def test_a_patience_that_outlasts_the_epochs_is_told():
    assert told(patience=5, epochs=5) == ["--patience 5 is not read: --epochs 5 are over before."]
    assert told(patience=4, epochs=5) == []


def test_a_seed_beside_seeds_is_told_unless_vectors_are_trained_with_it():
    assert told(seed=7, seeds="1,2") == ["--seed 7 is not read: --seeds 1,2 is."]
    assert told(seed=7) == told(seeds="1,2") == told(seed=7, seeds="1,2", embeddings="corpus") == []


def test_a_command_tells_them_and_notes_no_rate_of_a_transformer_that_is_not_there(tmp_path: Path):
    (tmp_path / "data").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "data" / f"{split}.conll").write_text(WORDS)
    run = ("--run", str(tmp_path / "run"))
    CliRunner().invoke(app, ["prepare-data", *run, "--target", str(tmp_path / "data")])
    train = ["finetune", *run, "--method", "bilstm-crf", "--device", "cpu", "--precision", "fp32", "--max-steps", "1"]
    small = ["--set", "lstm_size=4", "--set", "word_size=4", "--set", "characters=none", "--set", "character_size=9"]
    result = CliRunner().invoke(app, [*train, *small, "--learning-rate", "0.01", "--json"])
    said = " ".join(result.stderr.split())
    assert "--learning-rate 0.01 is not read: no transformer is trained" in said
    assert "--set character_size=9 is not read: characters=none" in said
    (record,) = json.loads(result.stdout)["result"]["seeds"].values()
    assert record["learning_rate"] is None, "report takes a rate for a transformer that was trained"
