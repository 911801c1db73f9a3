"""Stages: finished, interrupted or not there, and never lost without a word."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path

import pytest
import torch
from builders.stages import INPUTS, assert_finished, files_of, finish_stage, full_disk, open_finetune, options, work
from safetensors.torch import save_file

from crossner_cli.errors import CrossNERError
from crossner_cli.options import Finetune, PrepareData
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.stage import Stage, open_stage
from crossner_cli.run.storage import write_json


@pytest.mark.parametrize(
    ("command", "given", "name"),
    [
        ("finetune", Finetune, "prepare-data"),
        ("finetune", Finetune, "base"),
        ("prepare-data", PrepareData, "other"),
    ],
)
def test_names_that_mean_something_else_are_refused_before_anything_is_written(tmp_path, command, given, name):
    with pytest.raises(CrossNERError, match=f"--name {name!r}"):
        open_stage(RunDirectory(tmp_path / "run"), given(name=name, force=True).stage_request(command, {}))
    assert not (tmp_path / "run").exists()


def test_other_options_of_a_finished_stage_are_refused_whatever_its_inputs(tmp_path):
    finish_stage(tmp_path)
    run = RunDirectory(tmp_path)
    for given in (options(), options(epochs=4, force=True), options(epochs=4, name="other")):
        Stage(run, given.stage_request("finetune", {})).check_options()
    with pytest.raises(CrossNERError, match="epochs: 3 -> 4"):
        Stage(run, options(epochs=4).stage_request("finetune", {})).check_options()


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", " ", "/etc", "a/"])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path, name):
    with pytest.raises(CrossNERError, match="is not a folder name"):
        open_finetune(tmp_path / "run", name=name)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["dapt-token", "Über", "a b", "v1.2", "x" * 200])
def test_any_other_name_is_the_folder(tmp_path, name):
    finish_stage(tmp_path, name=name)
    assert (tmp_path / name / "manifest.json").is_file()
    assert RunDirectory(tmp_path).stages() == [name]


def test_weights_are_as_readable_as_all_else_in_a_stage(tmp_path):
    with open_finetune(tmp_path / "run") as stage:
        work(stage)
        save_file({"w": torch.zeros(2)}, stage.draft / "tagger" / "model.safetensors")
        stage.finish({"dev_f1": 0.5}, lineage=[])
    folder = tmp_path / "run" / "finetune"
    modes = {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    assert modes == {(folder / "tagger" / "model.txt").stat().st_mode & 0o777}


def test_a_finished_stage_holds_its_outputs_and_a_manifest_and_the_run_a_lock(tmp_path):
    manifest = finish_stage(tmp_path / "run")
    assert_finished(tmp_path / "run", "weights")
    assert json.loads((tmp_path / "run/finetune/manifest.json").read_text()) == manifest
    assert manifest["stage"] == manifest["name"] == "finetune"
    assert manifest["options"] == options().record()
    assert manifest["inputs"] == INPUTS
    assert manifest["result"] == {"dev_f1": 0.5}
    assert manifest["lineage"] == []
    assert manifest["continued"] is False
    assert manifest["seconds"] >= 0
    assert {"crossner", "python", "torch", "transformers"} <= set(manifest["versions"])
    with open_finetune(tmp_path / "run", quiet=True, threads=3, device="cpu", checkpoint_every=7) as stage:
        assert stage.finished == manifest, "these options make no other result"
    assert_finished(tmp_path / "run", "weights")


def test_an_unfinished_stage_leaves_a_draft_only(tmp_path):
    with open_finetune(tmp_path) as stage:
        work(stage)
    assert files_of(tmp_path) == {".lock-finetune", ".draft-finetune/draft.json", ".draft-finetune/tagger/model.txt"}
    assert not RunDirectory(tmp_path).has("finetune")
    assert RunDirectory(tmp_path).stages() == []


def test_an_option_that_came_after_the_stage_was_made_had_its_default(tmp_path):
    manifest = finish_stage(tmp_path)
    del manifest["options"]["weight_decay"]
    (tmp_path / "finetune" / "manifest.json").write_text(json.dumps(manifest))
    with open_finetune(tmp_path) as stage:
        assert stage.finished is not None
    with pytest.raises(CrossNERError, match=r"weight_decay: 0\.01 -> 0\.5"):
        open_finetune(tmp_path, weight_decay=0.5)


def test_other_options_or_inputs_are_named(tmp_path):
    finish_stage(tmp_path)
    with pytest.raises(CrossNERError) as caught:
        open_finetune(tmp_path, epochs=4, settings=[], inputs={"prepare-data": "xyz", "start": "s"})
    assert caught.value.problem == (
        f"The stage 'finetune' of {tmp_path} is finished with other options or inputs:\n"
        "  settings: ['dropout=0.1'] -> []\n"
        "  epochs: 3 -> 4\n"
        "  input prepare-data: 'abc' -> 'xyz'\n"
        "  input start: None -> 's'"
    )
    assert "--force" in caught.value.hint and "--name" in caught.value.hint
    assert_finished(tmp_path, "weights")
    with pytest.raises(CrossNERError, match="command: finetune -> joint-train"):
        open_stage(RunDirectory(tmp_path), options(name="finetune").stage_request("joint-train", INPUTS))


def test_force_does_it_again_and_replaces_it_at_the_end_only(tmp_path):
    finish_stage(tmp_path, "old")
    with open_finetune(tmp_path, force=True, epochs=9) as stage:
        assert stage.finished is None and not stage.is_continued
        assert (tmp_path / "finetune/tagger/model.txt").read_text() == "old"
        work(stage, "new")
        stage.finish({})
    assert_finished(tmp_path, "new")


@pytest.mark.parametrize(("made_anew", "is_same"), [("old", True), ("new", False)], ids=["the same", "something else"])
def test_a_stage_that_may_keeps_its_manifest_where_it_is_made_again_the_same(tmp_path, made_anew, is_same):
    finish_stage(tmp_path, "old")
    before = RunDirectory(tmp_path).digest("finetune")
    with open_finetune(tmp_path, force=True) as stage:
        work(stage, made_anew)
        stage.finish({"told": "otherwise"}, keeps_same=True)
    assert (RunDirectory(tmp_path).digest("finetune") == before) is is_same
    assert_finished(tmp_path, made_anew)


def test_an_interrupted_stage_is_continued_by_the_same_command(tmp_path):
    with contextlib.suppress(KeyboardInterrupt), open_finetune(tmp_path) as stage:
        work(stage)
        raise KeyboardInterrupt
    with open_finetune(tmp_path) as stage:
        assert stage.is_continued and stage.finished is None
        assert (stage.draft / "tagger/model.txt").read_text() == "weights"
        assert stage.finish({})["continued"] is True
    assert_finished(tmp_path, "weights")


def test_an_interrupted_stage_is_not_continued_by_another_command(tmp_path):
    with open_finetune(tmp_path) as stage:
        work(stage)
    with pytest.raises(
        CrossNERError, match=r"is interrupted with other options or inputs:\n  epochs: 3 -> 4"
    ) as caught:
        open_finetune(tmp_path, epochs=4)
    assert "--force" in caught.value.hint
    with open_finetune(tmp_path, epochs=4, force=True) as stage:
        assert not stage.is_continued
        assert files_of(stage.draft) == {"draft.json"}


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


def test_force_ignores_a_record_that_is_broken(tmp_path):
    with open_finetune(tmp_path) as stage:
        work(stage)
    (tmp_path / ".draft-finetune/draft.json").write_text("{")
    with pytest.raises(CrossNERError, match=r"draft\.json cannot be read"):
        open_finetune(tmp_path)
    with open_finetune(tmp_path, force=True) as stage:
        assert not stage.is_continued


def test_a_folder_that_is_no_stage_is_not_taken(tmp_path):
    (tmp_path / "finetune").mkdir()
    (tmp_path / "finetune/diary.txt").write_text("dear diary")
    for force in (False, True):
        with pytest.raises(CrossNERError, match="is no finished stage"):
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
    import fcntl

    def no_locks(*arguments):
        raise OSError(number, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(CrossNERError, match="No locks available"):
        open_finetune(tmp_path)
