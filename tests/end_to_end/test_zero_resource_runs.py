"""Runs without a labelled target, and inputs of words that cannot help: through the real command line."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders.runs import rewrite_prepared
from safetensors.torch import load_file
from typer.testing import CliRunner, Result

from crossner_cli.cli import app
from crossner_cli.errors import CrossNERError

QUICK = ("--device", "cpu", "--threads", "1", "--precision", "fp32", "--max-steps", "2")
SMALL = ("--set", "lstm_size=4", "--set", "word_size=6", "--set", "characters=none")
SOURCE = "Anna\tB-PER\nmet\tO\nParis\tB-LOC\n\nthe\tO\nAcme\tB-ORG\n\nAnna\tB-PER\n"
TARGET = "Bach\tB-artist\nplayed\tO\nin\tO\nParis\tB-LOC\n\nBach\tB-artist\n"


def crossner(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def done(*arguments: str | Path) -> dict[str, Any]:
    result = crossner(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    record: dict[str, Any] = json.loads(result.stdout)["result"]
    return record


def refused(*arguments: str | Path) -> str:
    result = crossner(*arguments)
    assert result.exit_code == 1 and "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up data of both domains, and a run prepared from them, with raw text."""
    folder = tmp_path_factory.mktemp("prepared")
    for name, text in (("news", SOURCE), ("songs", TARGET)):
        (folder / name).mkdir()
        for split in ("train", "dev", "test"):
            (folder / name / f"{split}.conll").write_text(text)
    (folder / "raw.txt").write_text("Bach went to Paris and played .\n" * 5)
    data = ("--source", folder / "news", "--target", folder / "songs", "--corpus", folder / "raw.txt")
    done("prepare-data", "--run", folder / "run", *data)
    return folder


@pytest.fixture
def run(prepared: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(prepared / "run", tmp_path / "run"))


def test_types_of_the_target_that_no_label_teaches_are_nowhere_said_to_be_found(run, tmp_path):
    tasks = ("--set", "tasks=source-ner,target-lm", "--set", "generator=none", "--select-on", "source")
    done("joint-train", "--run", run, *QUICK, *SMALL, "--method", "cross-domain-lm", *tasks)
    (scored,) = done("evaluate", "--run", run, *QUICK[:-2])["models"].values()
    assert scored["unknown_types"] == ["artist"] and "artist" not in scored["extra_types"]
    (tmp_path / "new.txt").write_text("Bach went to Paris .\n")
    result = crossner("predict", tmp_path / "new.txt", "--run", run, *QUICK[:-2], "--model", "joint-train")
    assert result.exit_code == 0 and "the types of songs (LOC)" in " ".join(result.stderr.split())
    (card,) = (run / "joint-train").rglob("README.md")
    assert "It tags the types of songs: LOC." in " ".join(card.read_text().split())


@pytest.mark.parametrize("method", ["mtl", "moee", "concept-tagger", "robust-tagger", "coach"])
def test_a_zero_resource_run_opens_nothing_of_the_target_but_the_test_sentences(run, method):
    target = run / "prepare-data" / "target"
    for path in (target / "train.jsonl", target / "dev.jsonl", target / "words.json"):
        path.unlink()
    shutil.rmtree(run / "prepare-data" / "corpus")
    done("pretrain-source", "--run", run, *QUICK, *SMALL, "--method", method, "--select-on", "source")
    (scored,) = done("evaluate", "--run", run, *QUICK[:-2])["models"].values()
    assert scored["unknown_types"] == ["artist"], "only types that map are found"


@pytest.mark.parametrize(
    ("tasks", "options", "said", "way_out"),
    [
        ("source-ner,target-lm", (), "The task target-lm reads raw text of the target", "--corpus FILE"),
        ("target-ner,source-lm", (), "The task source-lm reads raw text of the source", "--source-corpus FILE"),
        ("source-ner,target-ner", ("--embeddings", "corpus"), "no corpus of level 'domain'", "--corpus FILE"),
    ],
)
def test_raw_text_that_is_missing_is_told_before_any_work(run, tasks, options, said, way_out):
    shutil.rmtree(run / "prepare-data" / "corpus")
    method = ("--method", "multi-cell-lstm", "--set", f"tasks={tasks}")
    told = refused("joint-train", "--run", run, *QUICK, *SMALL, *method, *options)
    assert said in told and way_out in told and "thread" not in told
    assert not list(run.glob("*joint-train*")), "no stage was opened"


def test_prepared_data_that_were_changed_or_cut_are_refused(run):
    train = run / "prepare-data" / "target" / "train.jsonl"
    train.write_text("".join(train.read_text().splitlines(keepends=True)[:1]))
    said = refused("finetune", "--run", run, *QUICK, *SMALL, "--method", "bilstm-crf")
    assert "train.jsonl is not the file listed in its manifest" in said and "--force" in said


def test_dev_sentences_without_any_type_of_the_tagger_are_told_to_choose_nothing(run):
    dev = run / "prepare-data" / "target" / "dev.jsonl"
    rewrite_prepared(run, dev, dev.read_text().replace("B-LOC", "B-city"))
    train = ("pretrain-source", "--run", run, *QUICK, *SMALL, "--method", "bilstm-crf")
    said = " ".join(crossner(*train, "--select-on", "target", "--name", "target").stderr.split())
    assert "The dev sentences of the target cannot choose the best epoch: their entities are of artist, city" in said
    assert "--map-types" in said
    for name, more in (("source", ()), ("last", ("--select-on", "target", "--keep", "last"))):
        assert "cannot choose the best epoch" not in crossner(*train, *more, "--name", name).stderr


def test_dev_sentences_without_an_entity_are_told_to_choose_nothing(run):
    dev = run / "prepare-data" / "target" / "dev.jsonl"
    rewrite_prepared(run, dev, re.sub('"B-[A-Za-z]+"', '"O"', dev.read_text()))
    train = ("finetune", "--run", run, *QUICK, *SMALL, "--method", "bilstm-crf")
    said = " ".join(crossner(*train).stderr.split())
    assert "The dev sentences of the target cannot choose the best epoch: their entities are none" in said
    assert "cannot choose the best epoch" not in crossner(*train, "--keep", "last", "--name", "last").stderr


def test_a_start_of_other_tasks_is_not_told_to_be_given_its_tasks(run):
    method = ("--run", run, *QUICK, *SMALL, "--method", "multi-task-lstm")
    crossner("pretrain-source", *method)
    said = crossner("finetune", *method, "--start-from", "pretrain-source").stderr
    assert "start from pretrain-source" in said and "was trained with" not in said


def test_vectors_of_the_corpus_are_trained_for_ten_passes_with_the_seed_that_is_given(run, monkeypatch):
    asked: list[dict[str, Any]] = []

    def catch(sentences: Any, **settings: Any) -> Any:
        asked.append(settings)
        raise CrossNERError("far enough", hint="")

    monkeypatch.setattr("crossner_cli.taggers.known_words.train_vectors", catch)
    train = ("pretrain-source", "--run", run, *QUICK, *SMALL, "--method", "bilstm-crf", "--embeddings", "corpus")
    for seed in ("7", "8"):
        assert "far enough" in refused(*train, "--seed", seed)
    assert [(each["seed"], each["epochs"], each["minimum_count"], each["size"]) for each in asked] == [
        (7, 10, 3, 6),
        (8, 10, 3, 6),
    ]


def test_vectors_that_are_to_stay_as_they_are_must_be_there(run):
    train = ("--run", run, *QUICK, *SMALL)
    for method in ("bilstm-crf", "coach", "mtl", "concept-tagger"):
        said = refused("pretrain-source", *train, "--method", method, "--set", "words=frozen")
        assert "words=frozen: there are no vectors to keep" in said
        assert "--embeddings FILE" in said and "--set words=trained" in said
    letters = ("--method", "bilstm-crf", "--set", "lstm_size=4", "--set", "words=none")
    done("pretrain-source", "--run", run, *QUICK, *letters, "--name", "letters")
    said = refused("finetune", *train, "--method", "bilstm-crf", "--set", "words=frozen", "--start-from", "letters")
    assert "no vectors to keep, in the start 'letters'" in said
    done("pretrain-source", *train, "--method", "bilstm-crf", "--name", "learnt")
    done("finetune", *train, "--method", "bilstm-crf", "--set", "words=frozen", "--start-from", "learnt")


def test_a_file_that_has_no_word_of_the_data_is_refused(run, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("Anna  1  2 3\nParis  4  5 6\n")  # two spaces: words that end with a number
    train = ("--run", run, *QUICK, "--method", "bilstm-crf", "--set", "lstm_size=4")
    said = refused("finetune", *train, "--embeddings", vectors)
    assert "--embeddings vectors.txt: none of 8 words of the data has one of its 2 vectors of 2 values" in said
    assert "one space between them" in said
    said = refused("finetune", *train, "--set", "characters=ngrams", "--ngram-embeddings", vectors)
    assert "--ngram-embeddings vectors.txt: none of" in said
    vectors.write_text("Anna 1 2 3\n")
    done("finetune", *train, "--embeddings", vectors)


def test_words_of_type_descriptions_without_a_vector_are_told(run, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("Anna 1 2\nperson 2 3\norganization 3 4\n")
    train = ("pretrain-source", "--run", run, *QUICK, "--method", "concept-tagger", "--set", "lstm_size=4")
    said = " ".join(crossner(*train, "--embeddings", vectors).stderr.split())
    assert "words of type descriptions without a vector, so random ones: location" in said
    vectors.write_text(vectors.read_text() + "location 4 5\n")
    said = crossner(*train, "--embeddings", vectors, "--name", "all").stderr
    assert "words found" in said and "type descriptions" not in said


@pytest.mark.parametrize("method", ["concept-tagger", "robust-tagger", "coach"])
def test_types_that_only_a_later_stage_has_are_described_by_the_vectors_that_the_start_was_given(run, tmp_path, method):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("Anna 1 2\nperson 2 3\nlocation 4 5\norganization 3 4\nartist 7 8\n")
    train = ("--run", run, *QUICK, "--method", method, "--set", "lstm_size=4", "--set", "words=frozen")
    done("pretrain-source", *train, "--embeddings", vectors)
    said = crossner("finetune", *train, "--start-from", "pretrain-source").stderr
    assert "start from pretrain-source" in said and "type descriptions" not in said
    (path,) = (run / "finetune").glob("*/tagger.safetensors")
    tensors = load_file(path)
    assert [7, 8] in tensors["descriptions"].tolist(), "artist, which is no type of the source"
    vectors.write_text(vectors.read_text().replace("artist", "artisan"))
    done("pretrain-source", *train, "--embeddings", vectors, "--name", "other")
    said = crossner("finetune", *train, "--start-from", "other", "--name", "lacking").stderr
    assert "words of type descriptions without a vector, so random ones: artist" in " ".join(said.split())


@pytest.mark.parametrize("method", ["concept-tagger", "robust-tagger", "coach"])
def test_descriptions_that_are_drawn_at_random_are_told(run, method):
    said = " ".join(crossner("pretrain-source", "--run", run, *QUICK, *SMALL, "--method", method).stderr.split())
    assert "words of type descriptions without a vector, so random ones:" in said
    said = crossner("finetune", "--run", run, *QUICK, *SMALL, "--method", "mtl").stderr
    assert "type descriptions" not in said, "it describes nothing"


@pytest.mark.parametrize("method", ["robust-tagger", "coach"])
def test_vectors_of_an_odd_width_are_refused_before_they_are_read_or_trained(run, tmp_path, monkeypatch, method):
    def never(*arguments: Any, **options: Any) -> None:
        raise AssertionError("vectors are read")

    for name in ("read_vectors", "train_vectors"):
        monkeypatch.setattr(f"crossner_cli.taggers.known_words.{name}", never)
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("Anna 1 2 3\n")
    train = ("pretrain-source", "--run", run, *QUICK, "--method", method, "--set", "lstm_size=4")
    odd = ("--set", "word_size=7")
    for width, given in ((3, ("--embeddings", vectors)), (7, ("--embeddings", "corpus", *odd)), (7, odd)):
        said = refused(*train, *given)
        assert "even" in said and (f"not {width}" in said or f"have {width}" in said)


def words_and_vectors(stage: Path) -> dict[str, list[float]]:
    """What a tagger has vectors of."""
    (path,) = stage.glob("*/words.json")
    rows = load_file(path.with_name("words.safetensors"))["words.weight"]
    return dict(zip(json.loads(path.read_text())["words"], rows.tolist(), strict=True))


@pytest.mark.parametrize("words", ["frozen", "trained"])
def test_vectors_that_a_start_learnt_are_kept_beside_a_file_of_their_width(run, tmp_path, words):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("Anna 1 2 3 4 5 6\nBach 6 5 4 3 2 1\n")
    train = ("--run", run, *QUICK, *SMALL, "--method", "bilstm-crf")
    done("pretrain-source", *train)
    train = ("finetune", *train[:-2], "--method", "bilstm-crf", "--set", f"words={words}", "--embeddings", vectors)
    done(*train, "--start-from", "pretrain-source")
    now, before = words_and_vectors(run / "finetune"), words_and_vectors(run / "pretrain-source")
    if words == "frozen":
        assert now["Anna"] == before["Anna"] != [1, 2, 3, 4, 5, 6] and now["Bach"] == [6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("words", ["frozen", "trained"])
def test_vectors_of_another_width_leave_those_of_the_start_and_the_words_that_it_alone_knows(run, tmp_path, words):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("Bach 6 5 4\nParis 1 2 3\n")
    train = ("--run", run, *QUICK, "--method", "concept-tagger", "--set", "lstm_size=4", "--set", "characters=none")
    done("pretrain-source", *train, "--set", "word_size=6")
    assert "Anna" in words_and_vectors(run / "pretrain-source")
    train = ("finetune", *train, "--set", f"words={words}", "--embeddings", vectors)
    done(*train, "--start-from", "pretrain-source")
    now = words_and_vectors(run / "finetune")
    assert "Anna" not in now and {"Bach", "Paris"} <= now.keys()
    done(*train, "--name", "alone")
    assert now.keys() == words_and_vectors(run / "alone").keys()


def test_vectors_of_ngrams_of_another_width_leave_those_of_the_start(run, tmp_path):
    vectors = tmp_path / "charNgram.txt"
    train = ("--run", run, *QUICK, "--method", "bilstm-crf", "--set", "lstm_size=4", "--set", "characters=ngrams")
    done("pretrain-source", *train, "--set", "character_size=4")
    vectors.write_text("2gram-Ba 0.5 0.5 0.5\n")
    given = ("--ngram-embeddings", vectors, "--start-from", "pretrain-source")
    assert "n-grams found" in crossner("finetune", *train, *given).stderr
    (path,) = (run / "finetune").glob("*/words.json")
    assert json.loads(path.read_text())["ngrams"] == ["2gram-Ba"]


@pytest.mark.parametrize("method", ["bilstm-crf", "mtl", "moee"])
def test_words_of_the_target_change_nothing_that_the_source_teaches_beside_frozen_vectors(run, tmp_path, method):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("Anna 1 2 3\nBach 6 5 4\nplayed 1 0 0\nwent 0 1 0\n")
    train = ("pretrain-source", "--run", run, *QUICK, "--method", method, "--set", "lstm_size=4")
    train = (*train, "--set", "words=frozen", "--embeddings", vectors)
    done(*train, "--name", "with")
    vectors.write_text("Anna 1 2 3\n")
    done(*train, "--name", "without")
    tensors = []
    for name in ("with", "without"):
        (path,) = (run / name).glob("*/tagger.safetensors")
        words = load_file(path.with_name("words.safetensors"))
        assert len(words.pop("words.weight")) == {"with": 4, "without": 1}[name]
        tensors.append(load_file(path) | words)
    assert tensors[0].keys() == tensors[1].keys()
    assert all((tensors[0][name] == tensors[1][name]).all() for name in tensors[0])


def test_words_of_descriptions_do_not_stand_in_for_those_of_the_data(run, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("person 2 3\norganization 3 4\n")
    train = ("pretrain-source", "--run", run, *QUICK, "--method", "concept-tagger", "--embeddings", vectors)
    assert "words of the data has one of its 2 vectors" in refused(*train)


def test_a_start_without_a_transformer_is_refused_by_what_reads_one(run):
    done("pretrain-source", "--run", run, *QUICK, *SMALL, "--method", "coach")
    said = refused("finetune", "--run", run, *QUICK, "--method", "laner", "--start-from", "pretrain-source")
    assert "The start 'pretrain-source' holds no transformer, which the method 'laner' reads" in said
    assert "Start from base" in said
    said = refused("dapt", "--run", run, *QUICK, "--start-from", "pretrain-source")
    assert "The start 'pretrain-source' holds no transformer, which dapt trains" in said and "Start from base" in said
    assert not (run / ".draft-dapt").exists()


def test_what_a_target_lacks_is_answered_with_what_it_has(run):
    train = ("--run", run, *QUICK, *SMALL, "--method", "mtl")
    target = run / "prepare-data" / "target"
    (target / "dev.jsonl").unlink()
    said = refused("pretrain-source", *train, "--select-on", "target")
    assert "--dev-from-train 0.1" in said and "--select-on source" in said
    (target / "train.jsonl").unlink()
    said = refused("pretrain-source", *train, "--select-on", "target")
    assert "--dev-from-train" not in said and "--select-on source" in said, "there is no train to take it from"
    (run / "prepare-data" / "source" / "dev.jsonl").unlink()
    said = refused("pretrain-source", *train, "--select-on", "target")
    assert "--select-on" not in said and "Add a dev file" in said, "the source cannot stand in either"
    assert "crossner pretrain-source trains without the target" in refused("finetune", *train)


@pytest.mark.parametrize(
    ("method", "setting"),
    [("cross-domain-lm", "tasks=target-ner,source-lm"), ("multi-task-lstm", "adversary=dann")],
)
def test_tasks_of_two_domains_are_refused_where_there_is_one(prepared, tmp_path, method, setting):
    same = ("--source", prepared / "news", "--target", prepared / "news")
    corpora = ("--corpus", prepared / "raw.txt", "--source-corpus", prepared / "raw.txt")
    done("prepare-data", "--run", tmp_path / "same", *same, *corpora)
    train = ("joint-train", "--run", tmp_path / "same", *QUICK, *SMALL, "--method", method, "--set", setting)
    assert "source and target are both news; the tasks are of two domains" in refused(*train)


def test_each_domain_reads_its_own_raw_text_and_names_label_that_of_the_target(prepared, tmp_path):
    (tmp_path / "news.txt").write_text("Anna met Bach .\n" * 3)
    (tmp_path / "names.tsv").write_text("Paris\tLOC\n")
    data = ("--source", prepared / "news", "--target", prepared / "songs", "--corpus", prepared / "raw.txt")
    done("prepare-data", "--run", tmp_path / "both", *data, "--source-corpus", tmp_path / "news.txt")
    train = ("joint-train", "--run", tmp_path / "both", *QUICK, *SMALL, "--method", "multi-cell-lstm")
    train += ("--select-on", "source", "--set", "tasks=source-ner,target-lm,source-lm")
    result = crossner(*train, "--dictionary", tmp_path / "names.tsv")
    said = " ".join(result.stderr.split())
    assert "raw text of the target: 5 sentences, 35 words" in said
    assert "raw text of the source: 3 sentences, 12 words" in said
    manifest = json.loads((tmp_path / "both" / "joint-train" / "manifest.json").read_text())
    losses = manifest["result"]["seeds"]["1"]["history"][-1]["losses"]
    assert losses["entity target"] > 0 and losses["attention target"] > 0
