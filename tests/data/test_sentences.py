"""Prepared data: what a stage finds in a run, and what it says where something is not there."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from builders.runs import prepared_result
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.sentences import PreparedData, Sentence, read_sentences, write_sentences
from crossner_cli.errors import CrossNERError
from crossner_cli.options_data import PrepareData
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.stage import open_stage
from crossner_cli.run.storage import digest_file

TYPES = {"source": ("person", "place"), "target": ("song", "person")}
WORDS = st.text(min_size=1, max_size=5).filter(lambda word: word.isprintable() or "\u2028" in word)


def prepare(path: Path, roles: tuple[str, ...] = ("source", "target"), **changes: Any) -> RunDirectory:
    run = RunDirectory(path)
    with open_stage(run, PrepareData(**changes).stage_request({})) as stage:
        for role in roles:
            (stage.draft / role).mkdir()
            write_sentences(stage.draft / role / "train.jsonl", [Sentence(("anna", role), ("B-person", "O"))])
            (stage.draft / role / "words.json").write_text('["anna"]')
        (stage.draft / "corpus").mkdir()
        (stage.draft / "corpus/domain.txt").write_text("some text\n")
        result = prepared_result({role: f"{role}-set" for role in roles})
        domains = {role: replace(domain, types=list(TYPES[role])) for role, domain in result.domains.items()}
        stage.finish(asdict(replace(result, domains=domains)))
    return run


@given(
    st.lists(
        st.tuples(st.lists(WORDS, min_size=1, max_size=4), st.booleans()).map(
            lambda pair: Sentence(tuple(pair[0]), ("O",) * len(pair[0]) if pair[1] else None, "news")
        ),
        max_size=4,
    )
)
def test_sentences_survive_being_written(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("sentences") / "train.jsonl"
    assert write_sentences(path, sentences) == len(sentences)
    assert list(read_sentences(path, "news")) == sentences


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_prepared_domains_are_found_by_role_with_the_tag_set_of_the_roles(tmp_path, scheme):
    run = prepare(tmp_path, scheme=scheme)
    prepared = PreparedData.load(run, wanted_by="finetune")
    digests = prepared.inputs("target/train.jsonl", "corpus/domain.txt", "target/dev.jsonl")
    place = run.folder("prepare-data") / "target" / "train.jsonl"
    assert list(digests) == ["prepare-data/target/train.jsonl", "prepare-data/corpus/domain.txt"], "there is no dev"
    assert digests["prepare-data/target/train.jsonl"] == digest_file(place)
    target = prepared.domain("target", wanted_by="finetune")
    assert (target.name, target.role, target.types) == ("target-set", "target", ("song", "person"))
    assert target.sentences("train") == [Sentence(("anna", "target"), ("B-person", "O"), "target-set")]
    assert target.has("train") and not target.has("test")
    assert prepared.tag_set("target").types == ("song", "person")
    both = prepared.tag_set("source", "target")
    assert both.types == ("person", "place", "song") and both.scheme == scheme
    assert list(both.domains) == ["source-set", "target-set"]


def test_what_is_missing_is_told_with_the_way_to_get_it(tmp_path):
    with pytest.raises(CrossNERError, match="finetune needs the stage 'prepare-data'"):
        PreparedData.load(RunDirectory(tmp_path), wanted_by="finetune")
    prepared = PreparedData.load(prepare(tmp_path, ("target",)), wanted_by="finetune")
    with pytest.raises(CrossNERError, match="joint-train needs a source domain") as caught:
        prepared.domain("source", wanted_by="joint-train")
    assert "prepare-data --source DATASET" in caught.value.hint
    target = prepared.domain("target", wanted_by="finetune")
    for split, hint in (("dev", "--dev-from-train"), ("test", "Add a test file")):
        with pytest.raises(CrossNERError, match=f"The target 'target-set' has no {split} sentences") as caught:
            target.sentences(split)
        assert hint in caught.value.hint
    assert prepared.corpus("domain").read_text() == "some text\n"
    with pytest.raises(CrossNERError, match=r"no corpus of level 'entity' \(prepared levels: domain\)"):
        prepared.corpus("entity")


def test_a_file_that_was_cut_since_it_was_prepared_or_a_manifest_without_domains_is_refused(tmp_path):
    prepared = PreparedData.load(prepare(tmp_path, ("target",)), wanted_by="finetune")
    target = prepared.domain("target", wanted_by="finetune")
    for name, read in (
        ("corpus/domain.txt", lambda: prepared.corpus("domain")),
        ("target/words.json", target.words),
        ("target/train.jsonl", lambda: target.sentences("train")),
    ):
        read()
        path = prepared.folder / name
        path.write_bytes(path.read_bytes()[:-2])
        with pytest.raises(CrossNERError, match="is not the file listed in its manifest") as caught:
            read()
        assert caught.value.hint == "Copy the run again, or prepare the data again with --force."
    with pytest.raises(CrossNERError, match="is not the file listed in its manifest"):
        prepared.raw_text("target")
    (tmp_path / "prepare-data/manifest.json").write_text(
        json.dumps({**RunDirectory(tmp_path).manifest("prepare-data", wanted_by="finetune"), "result": {}})
    )
    with pytest.raises(CrossNERError, match=r"'prepare-data' is broken: result\.domains is missing"):
        PreparedData.load(RunDirectory(tmp_path), wanted_by="finetune")
