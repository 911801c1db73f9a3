"""Run directories: stages are finished, interrupted or not there, and never lost without a word."""

import contextlib
import errno
import fcntl
import json
import os
from pathlib import Path

import pytest
from builders.stages import INPUTS, assert_finished, files_of, finish_stage, full_disk, open_finetune, options, work
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.errors import CrossNERError
from crossner_cli.options import Dapt, Evaluate, Finetune, JointTrain
from crossner_cli.options_data import PrepareData
from crossner_cli.run.directory import RunDirectory, describe_differences
from crossner_cli.run.stage import Stage, open_stage
from crossner_cli.run.storage import write_json


def test_a_missing_stage_is_told_with_who_wants_it_and_how_to_make_it(tmp_path):
    finish_stage(tmp_path, name="mine")
    with pytest.raises(CrossNERError) as caught:
        RunDirectory(tmp_path).manifest("prepare-data", wanted_by="finetune")
    assert "finetune needs the stage 'prepare-data'" in caught.value.problem
    assert "(finished stages here: mine)" in caught.value.problem
    assert "crossner prepare-data" in caught.value.hint and f"--run {tmp_path}" in caught.value.hint
    with pytest.raises(CrossNERError, match="finished stages here: none") as caught:
        RunDirectory(tmp_path / "nowhere").manifest("special", wanted_by="evaluate")
    assert "crossner COMMAND --name special" in caught.value.hint


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b"\xff\xfe", b'{"stage": "finetune", "options": 3}'])
def test_a_broken_manifest_is_a_known_problem(tmp_path, content):
    finish_stage(tmp_path)
    (tmp_path / "finetune/manifest.json").write_bytes(content)
    for read in (
        lambda: RunDirectory(tmp_path).manifest("finetune", wanted_by="evaluate"),
        lambda: open_finetune(tmp_path),
    ):
        with pytest.raises(CrossNERError, match=r"manifest\.json") as caught:
            read()
        assert "--force" in caught.value.hint
    finish_stage(tmp_path, "again", force=True)
    assert_finished(tmp_path, "again")


def test_a_finished_stage_is_found_by_its_name_and_its_digest_changes_with_its_result(tmp_path):
    run = RunDirectory(tmp_path)
    finish_stage(tmp_path)
    before = run.digest("finetune")
    finish_stage(tmp_path, force=True)
    assert run.digest("finetune") == before, "times are no part of it"
    finish_stage(tmp_path, "other", force=True)
    assert run.digest("finetune") != before
    with open_finetune(tmp_path, name="draft"):
        (tmp_path / "notes").mkdir()
        finish_stage(tmp_path, name="a")
        assert run.stages() == ["a", "finetune"]
    assert run.stage_or_path("finetune") == run.stage_or_path("finetune/") == tmp_path / "finetune"
    assert run.stage_or_path("dapt").name == "dapt" and not run.stage_or_path("dapt").is_absolute()
    assert not run.has(str(tmp_path / "finetune"))


RECORDS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2))


@given(RECORDS, RECORDS)
def test_differences_are_told_for_each_key_once_and_only_where_they_are(before, after):
    changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    wanted = [f"{key}: {before.get(key, 'none')} -> {after.get(key, 'none')}" for key in changed]
    assert sorted(describe_differences(before, after)) == sorted(wanted)


@pytest.mark.parametrize(
    ("command", "given", "name", "problem"),
    [
        ("finetune", Finetune, "prepare-data", "--name 'prepare-data'"),
        ("finetune", Finetune, "base", "--name 'base'"),
        *(("finetune", Finetune, name, "is not a folder name") for name in ("a/b", "..", ".hidden", " ", "/etc", "a/")),
    ],
)
def test_a_name_that_means_something_else_or_is_no_folder_name_is_refused_before_anything_is_written(
    tmp_path, command, given, name, problem
):
    with pytest.raises(CrossNERError, match=problem):
        open_stage(RunDirectory(tmp_path / "run"), given(name=name, force=True).stage_request({}))
    assert not (tmp_path / "run").exists()


def test_a_finished_stage_holds_its_outputs_and_a_manifest_and_the_run_a_lock(tmp_path):
    manifest = finish_stage(tmp_path / "run")
    assert_finished(tmp_path / "run", "weights")
    assert json.loads((tmp_path / "run/finetune/manifest.json").read_text()) == manifest
    assert manifest["stage"] == manifest["name"] == "finetune"
    assert manifest["options"] == options().record() and manifest["inputs"] == INPUTS
    assert manifest["result"] == {"dev_f1": 0.5} and manifest["lineage"] == []
    assert manifest["continued"] is False and manifest["seconds"] >= 0
    assert {"crossner", "python", "torch", "transformers"} <= set(manifest["versions"])
    with open_finetune(tmp_path / "run", quiet=True, threads=3, device="cpu", checkpoint_every=7) as stage:
        assert stage.finished == manifest, "these options make no other result"
    assert_finished(tmp_path / "run", "weights")


def test_other_options_are_named(tmp_path):
    finish_stage(tmp_path)
    with pytest.raises(CrossNERError) as caught:
        open_finetune(tmp_path, epochs=4, settings=[], inputs={"dapt": "xyz"})
    assert caught.value.problem == (
        f"The stage 'finetune' of {tmp_path} is finished with other options:\n"
        "  settings: dropout=0.1 -> none\n"
        "  epochs: 3 -> 4"
    )
    assert "--force" in caught.value.hint and "--name" in caught.value.hint
    assert_finished(tmp_path, "weights")
    run = RunDirectory(tmp_path)
    with pytest.raises(CrossNERError, match="command: finetune -> joint-train"):
        open_stage(run, JointTrain(name="finetune").stage_request(INPUTS))
    for wanted in (options(), options(epochs=4, force=True), options(epochs=4, name="other")):
        Stage(run, wanted.stage_request({})).check_options()
    with pytest.raises(CrossNERError, match="epochs: 3 -> 4"):
        Stage(run, options(epochs=4).stage_request({})).check_options()


def test_a_stage_of_other_inputs_is_out_of_date_and_stays_until_it_is_made_again(tmp_path):
    finish_stage(tmp_path)
    with pytest.raises(CrossNERError, match=r"is out of date: prepare-data/target/train\.jsonl has changed") as caught:
        open_finetune(tmp_path, inputs={**INPUTS, "prepare-data/target/train.jsonl": "other"})
    assert f"crossner rerun --run {tmp_path}" in caught.value.hint
    assert_finished(tmp_path, "weights")


@pytest.mark.parametrize(
    ("inputs", "kind", "is_kept"),
    [({"dapt": "xyz"}, Finetune, True), (INPUTS, Finetune, False), ({"dapt": "xyz"}, Dapt, False)],
    ids=["a tagger of other inputs", "a tagger of the same inputs", "another stage"],
)
def test_force_replaces_a_stage_at_the_end_only_and_keeps_a_tagger_of_other_inputs(tmp_path, inputs, kind, is_kept):
    run, name = RunDirectory(tmp_path), "finetune"
    with open_stage(run, kind(name=name).stage_request(INPUTS)) as stage:
        work(stage, "old")
        stage.finish({})
    with open_stage(run, kind(name=name, force=True).stage_request(inputs)) as stage:
        assert stage.finished is None and not stage.is_continued
        assert (tmp_path / "finetune/tagger/model.txt").read_text() == "old"
        work(stage, "new")
        stage.finish({})
    assert (tmp_path / "finetune/tagger/model.txt").read_text() == "new"
    before = tmp_path / "finetune-previous" / "tagger" / "model.txt"
    assert before.is_file() is is_kept and (not is_kept or before.read_text() == "old")


@pytest.mark.parametrize("command", ["prepare-data", "evaluate"])
def test_data_and_scores_are_simply_made_anew_with_other_options_or_inputs(tmp_path, command):
    run, kind = RunDirectory(tmp_path), {"prepare-data": PrepareData, "evaluate": Evaluate}[command]
    for changes, inputs in (({}, {}), ({}, {"a": "1"}), ({"force": False}, {"a": "2"})):
        with open_stage(run, kind(**changes).stage_request(inputs)) as stage:
            assert stage.finished is None and not stage.is_continued
            work(stage)
            if inputs != {"a": "1"}:  # which is interrupted
                stage.finish({})
    assert run.read(command)["inputs"] == {"a": "2"}


def test_an_interrupted_stage_is_a_draft_that_the_same_command_continues(tmp_path):
    with contextlib.suppress(KeyboardInterrupt), open_finetune(tmp_path) as stage:
        work(stage)
        raise KeyboardInterrupt
    assert files_of(tmp_path) == {".lock-finetune", ".draft-finetune/draft.json", ".draft-finetune/tagger/model.txt"}
    assert not RunDirectory(tmp_path).has("finetune") and RunDirectory(tmp_path).stages() == []
    with open_finetune(tmp_path) as stage:
        assert stage.is_continued and stage.finished is None
        assert (stage.draft / "tagger/model.txt").read_text() == "weights"
        assert stage.finish({})["continued"] is True
    assert_finished(tmp_path, "weights")


@pytest.mark.parametrize(
    ("record", "changes", "problem"),
    [
        (None, {"epochs": 4}, r"is interrupted with other options:\n  epochs: 3 -> 4"),
        ("{", {}, r"draft\.json cannot be read"),
    ],
)
def test_a_draft_of_another_command_or_with_a_broken_record_is_only_begun_anew(tmp_path, record, changes, problem):
    with open_finetune(tmp_path) as stage:
        work(stage)
        if record is not None:
            (stage.draft / "draft.json").write_text(record)
    with pytest.raises(CrossNERError, match=problem) as caught:
        open_finetune(tmp_path, **changes)
    assert "--force" in caught.value.hint
    with open_finetune(tmp_path, force=True, **changes) as stage:
        assert not stage.is_continued and files_of(stage.draft) == {"draft.json"}


def test_force_begins_anew_unless_what_was_interrupted_was_forced_itself(tmp_path):
    finish_stage(tmp_path, "old")
    with open_finetune(tmp_path, force=True) as stage:
        work(stage, "forced")
    with open_finetune(tmp_path, force=True) as stage:
        assert stage.is_continued
        assert (stage.draft / "tagger/model.txt").read_text() == "forced"
    with open_finetune(tmp_path, force=True, epochs=5) as stage:
        assert not stage.is_continued and files_of(stage.draft) == {"draft.json"}
    with open_finetune(tmp_path) as stage:
        assert stage.finished is not None
    assert (tmp_path / "finetune/tagger/model.txt").read_text() == "old"


def test_a_folder_that_is_no_stage_is_not_taken(tmp_path):
    (tmp_path / "finetune").mkdir()
    (tmp_path / "finetune/diary.txt").write_text("dear diary")
    for force in (False, True):
        with pytest.raises(CrossNERError, match="is not a finished stage"):
            open_finetune(tmp_path, force=force)
    assert files_of(tmp_path) == {".lock-finetune", "finetune/diary.txt"}


def test_a_finished_stage_of_a_run_that_cannot_be_written_is_told_to_be_finished(tmp_path, monkeypatch):
    finish_stage(tmp_path)

    def refuse(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied")

    with open_finetune(tmp_path, force=True) as stage:
        work(stage, "of another process")
        write_json(stage.draft / "manifest.json", {})
    monkeypatch.setattr(os, "open", refuse)
    with open_finetune(tmp_path) as stage:
        assert stage.finished is not None
    assert (tmp_path / ".draft-finetune" / "manifest.json").is_file(), "another process may be at work on it"
    with pytest.raises(CrossNERError, match="epochs: 3 -> 4"):
        open_finetune(tmp_path, epochs=4)
    for changes in ({"force": True}, {"name": "other"}):
        with pytest.raises(CrossNERError, match="cannot be written: Permission denied"):
            open_finetune(tmp_path, **changes)


def test_a_stage_folder_that_is_a_link_is_replaced_and_what_it_led_to_stays(tmp_path):
    finish_stage(tmp_path / "elsewhere", "old")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/finetune").symlink_to(tmp_path / "elsewhere/finetune")
    for text in ("new", "newer"):
        finish_stage(tmp_path / "run", text, force=True)
        assert_finished(tmp_path / "run", text)
    assert_finished(tmp_path / "elsewhere", "old")


def test_a_run_path_that_cannot_be_a_folder_is_a_known_problem(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file/below"):
        assert RunDirectory(path).stages() == []
        assert not RunDirectory(path).has("finetune")
        with pytest.raises(CrossNERError, match=f"{path} cannot be written"):
            open_finetune(path)
    with pytest.raises(CrossNERError, match="cannot be written"):
        open_finetune(tmp_path, name="x" * 300)
    monkeypatch.setattr(Path, "mkdir", full_disk)
    with pytest.raises(CrossNERError, match="cannot be written: No space left") as caught:
        open_finetune(tmp_path / "run")
    assert "--run DIR" in caught.value.hint


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_not_mistaken_for_another_process(tmp_path, monkeypatch, number):
    def no_locks(*arguments):
        raise OSError(number, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(CrossNERError, match="No locks available"):
        open_finetune(tmp_path)
