"""Runs without a labelled target, and inputs of words that cannot help: through the real command line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.commands import QUICK, crossner, refused, told
from safetensors.torch import load_file

LSTM = "--set lstm_size=4 --max-steps 2"
SMALL = f"{LSTM} --set word_size=6 --set characters=none"
SOURCE = "Anna\tB-PER\nmet\tO\nParis\tB-LOC\n\nthe\tO\nAcme\tB-ORG\n\nAnna\tB-PER\n"
TARGET = "Bach\tB-artist\nplayed\tO\nin\tO\nParis\tB-LOC\n\nBach\tB-artist\n"
UNDESCRIBED = "words of type descriptions without a vector, which get random ones:"


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
    crossner("prepare-data", "--run", folder / "run", *data)
    return folder


@pytest.fixture
def run(prepared: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(prepared / "run", tmp_path / "run"))


@pytest.fixture
def here(run: Path) -> tuple[str | Path, ...]:
    """The options of every command."""
    return ("--run", run, *QUICK)


@pytest.fixture
def write_vectors(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of vectors."""

    def write(*lines: str) -> Path:
        (tmp_path / "vectors.txt").write_text("".join(f"{line}\n" for line in lines))
        return tmp_path / "vectors.txt"

    return write


def test_types_of_the_target_that_no_label_teaches_are_nowhere_said_to_be_found(run, here, tmp_path):
    tasks = "--method cross-domain-lm --set tasks=source-ner,target-lm --set generator=none --select-on source"
    crossner("joint-train", *here, SMALL, tasks)
    (scored,) = crossner("evaluate", *here)["result"]["models"].values()
    assert scored["unknown_types"] == ["artist"] and "artist" not in scored["extra_types"]
    (tmp_path / "new.txt").write_text("Bach went to Paris .\n")
    said = told("predict", tmp_path / "new.txt", *here, "--model", "joint-train")
    assert "the types of songs (LOC)" in said
    (card,) = (run / "joint-train").rglob("README.md")
    assert "It tags the types of songs: LOC." in " ".join(card.read_text().split())


@pytest.mark.parametrize("method", ["mtl", "moee", "concept-tagger", "robust-tagger", "coach"])
def test_a_zero_resource_run_opens_nothing_of_the_target_but_the_test_sentences(run, here, method):
    for name in ("train.jsonl", "dev.jsonl", "words.json"):
        (run / "prepare-data" / "target" / name).unlink()
    shutil.rmtree(run / "prepare-data" / "corpus")
    crossner(f"pretrain-source --method {method} --select-on source", *here, SMALL)
    (scored,) = crossner("evaluate", *here)["result"]["models"].values()
    assert scored["unknown_types"] == ["artist"], "only types that map are found"


@pytest.mark.parametrize(
    ("options", "said", "way_out"),
    [
        ("--set tasks=source-ner,target-lm", "The task target-lm reads raw text of the target", "--corpus FILE"),
        ("--set tasks=target-ner,source-lm", "The task source-lm reads raw text of the source", "--source-corpus FILE"),
        ("--set tasks=source-ner,target-ner --set embeddings=corpus", "no corpus of level 'domain'", "--corpus FILE"),
    ],
)
def test_raw_text_that_is_missing_is_told_before_any_work(run, here, options, said, way_out):
    shutil.rmtree(run / "prepare-data" / "corpus")
    found = refused("joint-train --method multi-cell-lstm", *here, SMALL, options)
    assert said in found and way_out in found and "thread" not in found
    assert not list(run.glob("*joint-train*")), "no stage was opened"


def test_vectors_that_are_to_stay_as_they_are_must_be_there_or_be_learnt_by_the_start(here):
    frozen = "--method bilstm-crf --set words=frozen"
    assert "--set embeddings=FILE" in refused("pretrain-source", frozen, *here, SMALL)
    crossner("pretrain-source --method bilstm-crf --set words=none --name letters", *here, LSTM)
    assert "no vectors to keep, in the start 'letters'" in refused(
        "finetune --start-from letters", frozen, *here, SMALL
    )
    crossner("pretrain-source --method bilstm-crf --name learnt", *here, SMALL)
    crossner("finetune --start-from learnt", frozen, *here, SMALL)


def test_a_file_that_has_no_word_of_the_data_is_refused(here, write_vectors):
    vectors = write_vectors("Anna  1  2 3", "Paris  4  5 6")  # two spaces: words that end with a number
    train = ("finetune --method bilstm-crf", *here, LSTM)
    said = refused(*train, "--set", f"embeddings={vectors}")
    assert "--set embeddings=vectors.txt: none of 8 words of the data has one of its 2 vectors of 2 values" in said
    assert "one space between them" in said
    said = refused(*train, "--set characters=ngrams --set", f"ngram_embeddings={vectors}")
    assert "--set ngram_embeddings=vectors.txt: none of" in said
    crossner(*train, "--set", f"embeddings={write_vectors('Anna 1 2 3')}")
    vectors = write_vectors("person 2 3", "organization 3 4")
    said = refused("pretrain-source --method concept-tagger", *here, "--set", f"embeddings={vectors}")
    assert "words of the data has one of its 2 vectors" in said, "words of descriptions do not stand in"


@pytest.mark.parametrize("method", ["concept-tagger", "robust-tagger", "coach"])
def test_types_that_only_a_later_stage_has_are_described_by_the_vectors_that_the_start_was_given(
    run, here, write_vectors, method
):
    lines = ("Anna 1 2", "person 2 3", "location 4 5", "organization 3 4")
    train = (*here, LSTM, f"--method {method} --set words=frozen")
    crossner("pretrain-source", *train, "--set", f"embeddings={write_vectors(*lines, 'artist 7 8')}")
    said = told("finetune --start-from pretrain-source", *train)
    assert "start from pretrain-source" in said and "type descriptions" not in said
    (path,) = (run / "finetune").glob("*/tagger.safetensors")
    assert [7, 8] in load_file(path)["descriptions"].tolist(), "artist, which is no type of the source"
    crossner("pretrain-source --name other", *train, "--set", f"embeddings={write_vectors(*lines, 'artisan 7 8')}")
    assert f"{UNDESCRIBED} artist" in told("finetune --start-from other --name lacking", *train)


@pytest.mark.parametrize("method", ["robust-tagger", "coach"])
def test_vectors_of_an_odd_width_are_refused_before_they_are_read_or_trained(here, write_vectors, monkeypatch, method):
    def never(*arguments: Any, **options: Any) -> None:
        raise AssertionError("vectors are read")

    for name in ("read_vectors", "train_vectors"):
        monkeypatch.setattr(f"crossner_cli.recurrent.known_words.{name}", never)
    train = (f"pretrain-source --method {method}", *here, LSTM)
    odd, vectors = "--set word_size=7", write_vectors("Anna 1 2 3")
    for width, given in ((3, ("--set", f"embeddings={vectors}")), (7, (odd, "--set embeddings=corpus")), (7, (odd,))):
        said = refused(*train, *given)
        assert "even" in said and (f"not {width}" in said or f"have {width}" in said)


def words_and_vectors(stage: Path) -> dict[str, list[float]]:
    """What a tagger has vectors of."""
    (path,) = stage.glob("*/words.json")
    rows = load_file(path.with_name("words.safetensors"))["words.weight"]
    return dict(zip(json.loads(path.read_text())["words"], rows.tolist(), strict=True))


@pytest.mark.parametrize("words", ["frozen", "trained"])
def test_vectors_that_a_start_learnt_are_kept_beside_a_file_of_their_width(run, here, write_vectors, words):
    vectors = write_vectors("Anna 1 2 3 4 5 6", "Bach 6 5 4 3 2 1")
    crossner("pretrain-source --method bilstm-crf", *here, SMALL)
    train = f"finetune --method bilstm-crf --set words={words} --start-from pretrain-source"
    crossner(train, *here, LSTM, "--set word_size=6 --set", f"embeddings={vectors}")
    now, before = words_and_vectors(run / "finetune"), words_and_vectors(run / "pretrain-source")
    if words == "frozen":
        assert now["Anna"] == before["Anna"] != [1, 2, 3, 4, 5, 6] and now["Bach"] == [6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("words", ["frozen", "trained"])
def test_vectors_of_another_width_leave_those_of_the_start_and_the_words_that_it_alone_knows(
    run, here, write_vectors, words
):
    method = (*here, LSTM, "--method concept-tagger --set characters=none")
    crossner("pretrain-source --set word_size=6", *method)
    assert "Anna" in words_and_vectors(run / "pretrain-source")
    vectors = write_vectors("Bach 6 5 4", "Paris 1 2 3")
    train = (f"finetune --set words={words}", *method, "--set", f"embeddings={vectors}")
    crossner(*train, "--start-from", "pretrain-source")
    now = words_and_vectors(run / "finetune")
    assert "Anna" not in now and {"Bach", "Paris"} <= now.keys()
    crossner(*train, "--name", "alone")
    assert now.keys() == words_and_vectors(run / "alone").keys()


def test_dapt_refuses_a_start_without_a_transformer(run, here):
    crossner("pretrain-source --method coach", *here, SMALL)
    said = refused("dapt --start-from pretrain-source", *here)
    assert "The start 'pretrain-source' holds no transformer, which dapt trains" in said and "Start from base" in said
    assert not (run / ".draft-dapt").exists()


def test_what_a_target_lacks_is_answered_with_what_it_has(run, here):
    train = (*here, SMALL, "--method mtl")
    on_target = ("pretrain-source --select-on target", *train)
    target = run / "prepare-data" / "target"
    (target / "dev.jsonl").unlink()
    said = refused(*on_target)
    assert "--dev-from-train 0.1" in said and "--select-on source" in said
    (target / "train.jsonl").unlink()
    said = refused(*on_target)
    assert "--dev-from-train" not in said and "--select-on source" in said, "there is no train to take it from"
    (run / "prepare-data" / "source" / "dev.jsonl").unlink()
    said = refused(*on_target)
    assert "--select-on" not in said and "Add a dev file" in said, "the source cannot stand in either"
    assert "crossner pretrain-source trains without the target" in refused("finetune", *train)
