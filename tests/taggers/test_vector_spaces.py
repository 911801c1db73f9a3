"""What the vectors of a start began as is followed from stage to stage as these were made, and else not asserted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from builders.runs import write_manifest
from safetensors.torch import save_file

from crossner_cli.encoders.word_encoder import TENSORS, VOCABULARY
from crossner_cli.options import Finetune
from crossner_cli.run.storage import digest_file, digest_folder
from crossner_cli.taggers.sources import Start
from crossner_cli.taggers.vector_spaces import find_origin, notes_on_vectors

SEED = 1


def tagger_stage(
    folder: Path, start_from: str = "base", start: str = "nothing", result: dict[str, Any] | None = None, **options: Any
) -> str:
    """Leave a stage with a tagger of words of three values; return the digest of its manifest."""
    (folder / "tagger").mkdir(parents=True, exist_ok=True)
    (folder / "tagger" / VOCABULARY).write_text('{"words": ["a", "b"], "characters": "", "ngrams": []}')
    save_file({"words.weight": torch.ones(2, 3), "unknown": torch.ones(3)}, folder / "tagger" / TENSORS)
    given = {"start_from": start_from, "embeddings": None, "seed": SEED, **options}
    inputs = {"prepare-data": "data", "start": start}
    if given["embeddings"] not in (None, "corpus"):
        inputs["embeddings"] = digest_file(Path(given["embeddings"]))
    outputs = {f"tagger/{TENSORS}": digest_file(folder / "tagger" / TENSORS)}
    return write_manifest(folder, "finetune", options=given, inputs=inputs, outputs=outputs, result=result or {})


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    """A file of vectors."""
    path = tmp_path / "vectors.txt"
    path.write_text("a 1 2 3\n")
    return str(path)


def told(folder: Path, embeddings: str, *settings: str, data: str = "data", **options: Any) -> str:
    """What a stage is told that starts from a folder and is given vectors."""
    seeds = {} if (folder / VOCABULARY).is_file() else {1: folder / "tagger"}
    given = Finetune(
        method="bilstm-crf", embeddings=embeddings, settings=["word_size=3", *settings], **{"seed": SEED, **options}
    )
    inputs = {"prepare-data": data} | ({} if embeddings == "corpus" else {"embeddings": digest_file(Path(embeddings))})
    return "\n".join(notes_on_vectors(Start("start", folder, "", seeds), given, inputs))


def test_a_stage_that_was_continued_from_itself_ends_the_way_back_and_is_said_to_be_unknown(tmp_path, vectors):
    before = tagger_stage(tmp_path / "w1", embeddings=vectors)
    tagger_stage(tmp_path / "w1", "w1", before)
    origin = find_origin(tmp_path / "w1", "embeddings")
    assert origin.manifest is None and origin.lost == (
        f"{tmp_path / 'w1'} started from w1, which was made again or is not to be found"
    )
    said = told(tmp_path / "w1", vectors)
    assert f"keep its vectors ({origin.lost}); words that only {vectors} has get theirs" in said
    assert f"one space only if the start's began as vectors of {vectors}" in said and "no common space" not in said


def test_a_start_that_was_made_again_is_not_taken_for_the_one_that_was_started_from(tmp_path, vectors):
    learnt = tagger_stage(tmp_path / "source")
    tagger_stage(tmp_path / "onward", "source", learnt)
    assert find_origin(tmp_path / "onward", "embeddings").manifest["name"] == "source"
    assert "no common space" in told(tmp_path / "onward", vectors)
    tagger_stage(tmp_path / "source", embeddings=vectors)
    assert find_origin(tmp_path / "onward", "embeddings").manifest is None


@pytest.mark.parametrize("place", ["other/source", "other/source/", "other/source/tagger"])
def test_starts_that_were_given_as_paths_are_followed_to_the_same_file(tmp_path, vectors, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    digest = tagger_stage(tmp_path / "other" / "source", embeddings=vectors)
    if place.endswith("tagger"):
        digest = digest_folder(tmp_path / place)
    tagger_stage(tmp_path / "run" / "finetune", place, digest)
    for folder in ("run/finetune", "run/finetune/tagger"):
        assert told(Path(folder), vectors) == ""
    monkeypatch.chdir(tmp_path / "run")
    assert "which was made again or is not to be found" in told(Path("finetune"), vectors)


def test_of_a_tagger_that_no_stage_made_it_is_not_known_what_its_vectors_began_as(tmp_path, vectors):
    tagger_stage(tmp_path / "stage", embeddings=vectors)
    alone = (tmp_path / "stage" / "tagger").rename(tmp_path / "tagger")
    assert f"{alone} is no stage's" in told(alone, vectors)
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    assert f"{alone} is no stage's" in told(alone, vectors)


def test_a_stage_that_started_from_one_without_words_drew_its_vectors_itself(tmp_path, vectors):
    words = tagger_stage(tmp_path / "words", embeddings=vectors)
    adapted = write_manifest(tmp_path / "dapt", "dapt", options={"start_from": "words"}, inputs={"start": words})
    tagger_stage(tmp_path / "again", "dapt", adapted)
    assert find_origin(tmp_path / "again", "embeddings").manifest["name"] == "again"
    assert "the two are no common space" in told(tmp_path / "again", vectors)


@pytest.mark.parametrize(
    ("before", "given", "other"),
    [
        ({}, {}, ""),
        ({}, {"seed": 2}, "--seed=1 (here 2)"),
        ({"settings": {"lower_case": False, "digits": "kept"}}, {}, ""),
        (
            {"settings": {"lower_case": True, "digits": "zeros"}},
            {},
            "digits=zeros (here kept), lower_case=true (here false)",
        ),
        ({}, {"data": "other"}, "data prepared otherwise"),
    ],
)
def test_vectors_of_raw_text_are_one_space_only_where_all_that_trained_them_is_the_same(tmp_path, before, given, other):
    tagger_stage(tmp_path / "source", result=before, embeddings="corpus")
    said = told(tmp_path / "source", "corpus", **given)
    assert said == "" if not other else f"began as those of corpus with {other}; words that only corpus has" in said
    assert ("the two are no common space" in said) == bool(other)


def test_vectors_of_raw_text_and_those_of_a_file_are_no_common_space(tmp_path, vectors):
    tagger_stage(tmp_path / "source", embeddings="corpus")
    assert "which began as those of corpus; words that only" in told(tmp_path / "source", vectors)
    tagger_stage(tmp_path / "read", embeddings=vectors)
    assert f"which began as those of {vectors}; words that only corpus has" in told(tmp_path / "read", "corpus")
