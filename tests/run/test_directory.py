"""Run directories: a stage is there or it is not, whatever is pulled out of the wall."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.stages import INPUTS, assert_finished, files_of, finish_stage, full_disk, open_stage, options, work
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from crossner_cli.errors import CrossNERError
from crossner_cli.options import Finetune, PrepareData
from crossner_cli.run import directory as run_directory
from crossner_cli.run.directory import RunDirectory, differences
from crossner_cli.run.storage import digest_file, digest_folder, digest_path, to_json, write_json


@pytest.mark.parametrize(
    ("command", "given", "name"),
    [
        ("finetune", Finetune, "prepare-data"), ("finetune", Finetune, "base"),
        ("prepare-data", PrepareData, "other"), ("prepare-data", PrepareData, "base"),
    ],
)  # fmt: skip
def test_names_that_mean_something_else_are_refused_before_anything_is_written(tmp_path, command, given, name):
    with pytest.raises(CrossNERError, match=f"--name {name!r}") as caught:
        RunDirectory(tmp_path / "run").open_stage(command, given(name=name, force=True), {})
    assert "name" in caught.value.hint or "--run DIR" in caught.value.hint
    assert not (tmp_path / "run").exists()


def test_weights_are_as_readable_as_all_else_in_a_stage(tmp_path):
    with open_stage(tmp_path / "run") as stage:
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


def test_an_unfinished_stage_leaves_a_draft_only(tmp_path):
    with open_stage(tmp_path) as stage:
        work(stage)
    assert files_of(tmp_path) == {".lock-finetune", ".draft-finetune/draft.json", ".draft-finetune/tagger/model.txt"}
    assert not RunDirectory(tmp_path).has("finetune")
    assert RunDirectory(tmp_path).stages() == []


def test_the_same_command_finds_it_done(tmp_path):
    manifest = finish_stage(tmp_path)
    with open_stage(tmp_path) as stage:
        assert stage.finished == manifest
    assert_finished(tmp_path, "weights")


def test_an_option_that_came_after_the_stage_was_made_had_its_default(tmp_path):
    manifest = finish_stage(tmp_path)
    del manifest["options"]["weight_decay"]
    (tmp_path / "finetune" / "manifest.json").write_text(json.dumps(manifest))
    with open_stage(tmp_path) as stage:
        assert stage.finished is not None
    with pytest.raises(CrossNERError, match=r"weight_decay: 0\.01 -> 0\.5"):
        open_stage(tmp_path, weight_decay=0.5).open()


def test_options_that_make_no_other_result_are_not_compared(tmp_path):
    finish_stage(tmp_path)
    with open_stage(tmp_path, quiet=True, threads=3, device="cpu", checkpoint_every=7) as stage:
        assert stage.finished


def test_other_options_or_inputs_are_named(tmp_path):
    finish_stage(tmp_path)
    with pytest.raises(CrossNERError) as caught:
        open_stage(tmp_path, epochs=4, settings=[], inputs={"prepare-data": "xyz", "start": "s"})
    assert caught.value.problem == (
        f"The stage 'finetune' of {tmp_path} is finished with other options or inputs:\n"
        "  settings: ['dropout=0.1'] -> []\n"
        "  epochs: 3 -> 4\n"
        "  input prepare-data: 'abc' -> 'xyz'\n"
        "  input start: None -> 's'"
    )
    assert "--force" in caught.value.hint and "--name" in caught.value.hint
    assert_finished(tmp_path, "weights")


def test_another_command_under_the_same_name_is_named(tmp_path):
    finish_stage(tmp_path)
    with pytest.raises(CrossNERError, match="command: finetune -> joint-train"):
        RunDirectory(tmp_path).open_stage("joint-train", options(name="finetune"), INPUTS)


def test_force_does_it_again_and_replaces_it_at_the_end_only(tmp_path):
    finish_stage(tmp_path, "old")
    with open_stage(tmp_path, force=True, epochs=9) as stage:
        assert stage.finished is None and not stage.is_continued
        assert (tmp_path / "finetune/tagger/model.txt").read_text() == "old"
        work(stage, "new")
        stage.finish({})
    assert_finished(tmp_path, "new")


@pytest.mark.parametrize(("made_anew", "is_same"), [("old", True), ("new", False)], ids=["the same", "something else"])
def test_a_stage_that_may_keeps_its_manifest_where_it_is_made_again_the_same(tmp_path, made_anew, is_same):
    finish_stage(tmp_path, "old")
    before = RunDirectory(tmp_path).digest("finetune")
    with open_stage(tmp_path, force=True) as stage:
        work(stage, made_anew)
        stage.finish({"told": "otherwise"}, keeps_same=True)
    assert (RunDirectory(tmp_path).digest("finetune") == before) is is_same
    assert_finished(tmp_path, made_anew)


def test_a_broken_manifest_is_never_kept(tmp_path):
    finish_stage(tmp_path)
    (tmp_path / "finetune/manifest.json").write_text("{")
    with open_stage(tmp_path, force=True) as stage:
        work(stage)
        stage.finish({}, keeps_same=True)
    assert_finished(tmp_path, "weights")


def test_an_interrupted_stage_is_continued_by_the_same_command(tmp_path):
    with contextlib.suppress(KeyboardInterrupt), open_stage(tmp_path) as stage:
        work(stage)
        raise KeyboardInterrupt
    with open_stage(tmp_path) as stage:
        assert stage.is_continued and stage.finished is None
        assert (stage.draft / "tagger/model.txt").read_text() == "weights"
        assert stage.finish({})["continued"] is True
    assert_finished(tmp_path, "weights")


def test_an_interrupted_stage_is_not_continued_by_another_command(tmp_path):
    with open_stage(tmp_path) as stage:
        work(stage)
    with pytest.raises(
        CrossNERError, match=r"is interrupted with other options or inputs:\n  epochs: 3 -> 4"
    ) as caught:
        open_stage(tmp_path, epochs=4)
    assert "--force" in caught.value.hint
    with open_stage(tmp_path, epochs=4, force=True) as stage:
        assert not stage.is_continued
        assert files_of(stage.draft) == {"draft.json"}


def test_force_begins_anew_unless_what_was_interrupted_was_forced_itself(tmp_path):
    finish_stage(tmp_path, "old")
    with open_stage(tmp_path, force=True) as stage:
        work(stage, "forced")
    with open_stage(tmp_path, force=True) as stage:
        assert stage.is_continued
        assert (stage.draft / "tagger/model.txt").read_text() == "forced"
    with open_stage(tmp_path, force=True, epochs=5) as stage:
        assert not stage.is_continued and files_of(stage.draft) == {"draft.json"}
    with open_stage(tmp_path) as stage:
        assert stage.finished is not None
    assert (tmp_path / "finetune/tagger/model.txt").read_text() == "old"


def test_force_ignores_a_record_that_is_broken(tmp_path):
    with open_stage(tmp_path) as stage:
        work(stage)
    (tmp_path / ".draft-finetune/draft.json").write_text("{")
    with pytest.raises(CrossNERError, match="draft.json cannot be read"):
        open_stage(tmp_path)
    with open_stage(tmp_path, force=True) as stage:
        assert not stage.is_continued


def test_a_folder_that_is_no_stage_is_not_taken(tmp_path):
    (tmp_path / "finetune").mkdir()
    (tmp_path / "finetune/diary.txt").write_text("dear diary")
    for force in (False, True):
        with pytest.raises(CrossNERError, match="is no finished stage"):
            open_stage(tmp_path, force=force)
    assert files_of(tmp_path) == {".lock-finetune", "finetune/diary.txt"}


def test_a_finished_stage_of_a_run_that_cannot_be_written_is_told_to_be_finished(tmp_path, monkeypatch):
    finish_stage(tmp_path)

    def refuse(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied")

    with open_stage(tmp_path, force=True) as stage:
        work(stage, "of another process")
        write_json(stage.draft / "manifest.json", {})
    monkeypatch.setattr(run_directory.os, "open", refuse)
    with open_stage(tmp_path) as stage:
        assert stage.finished is not None
    assert (tmp_path / ".draft-finetune" / "manifest.json").is_file(), "what another may be at work on stays"
    with pytest.raises(CrossNERError, match="epochs: 3 -> 4"):
        open_stage(tmp_path, epochs=4)
    for changes in ({"force": True}, {"name": "other"}):
        with pytest.raises(CrossNERError, match="cannot be written: Permission denied"):
            open_stage(tmp_path, **changes)


def test_a_stage_folder_that_is_a_link_is_replaced_and_what_it_led_to_stays(tmp_path):
    finish_stage(tmp_path / "elsewhere", "old")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/finetune").symlink_to(tmp_path / "elsewhere/finetune")
    for text in ("new", "newer"):
        finish_stage(tmp_path / "run", text, force=True)
        assert_finished(tmp_path / "run", text)
    assert_finished(tmp_path / "elsewhere", "old")


@pytest.mark.parametrize("name", ["a/b", "..", ".", ".hidden", " ", "/etc", "a/", "../run2/finetune"])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path, name):
    with pytest.raises(CrossNERError, match="is not a folder name"):
        open_stage(tmp_path / "run", name=name)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["dapt-token", "Über", "a b", "v1.2", "x" * 200])
def test_any_other_name_is_the_folder(tmp_path, name):
    finish_stage(tmp_path, name=name)
    assert (tmp_path / name / "manifest.json").is_file()
    assert RunDirectory(tmp_path).stages() == [name]


def test_a_name_too_long_for_the_disk_is_a_known_problem(tmp_path):
    with pytest.raises(CrossNERError, match="cannot be written"):
        open_stage(tmp_path, name="x" * 300)


def test_a_run_path_that_cannot_be_a_folder_is_a_known_problem(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file/below"):
        assert RunDirectory(path).stages() == []
        assert not RunDirectory(path).has("finetune")
        with pytest.raises(CrossNERError, match=f"{path} cannot be written"):
            open_stage(path)
    monkeypatch.setattr(Path, "mkdir", full_disk)
    with pytest.raises(CrossNERError, match="cannot be written: No space left") as caught:
        open_stage(tmp_path / "run")
    assert "--run DIR" in caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_run_that_is_read_only_is_a_known_problem(tmp_path):
    tmp_path.chmod(0o500)
    for path in (tmp_path, tmp_path / "run"):
        with pytest.raises(CrossNERError, match="cannot be written: Permission denied"):
            open_stage(path)
    tmp_path.chmod(0o700)


def test_a_file_system_without_locks_is_not_mistaken_for_another_process(tmp_path, monkeypatch):
    import fcntl

    def no_locks(*arguments: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(CrossNERError, match="No locks available"):
        open_stage(tmp_path)


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


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"3", b"{}", b"\xff\xfe", b'{"stage": "finetune", "options": 3}']
)
def test_a_broken_manifest_is_a_known_problem(tmp_path, content):
    finish_stage(tmp_path)
    (tmp_path / "finetune/manifest.json").write_bytes(content)
    for read in (
        lambda: RunDirectory(tmp_path).manifest("finetune", wanted_by="evaluate"),
        lambda: open_stage(tmp_path),
    ):
        with pytest.raises(CrossNERError, match="manifest.json") as caught:
            read()
        assert "--force" in caught.value.hint
    finish_stage(tmp_path, "again", force=True)
    assert_finished(tmp_path, "again")


def test_the_digest_of_a_stage_changes_with_its_result(tmp_path):
    finish_stage(tmp_path)
    before = RunDirectory(tmp_path).digest("finetune")
    assert before == digest_file(tmp_path / "finetune/manifest.json")
    finish_stage(tmp_path, "other", force=True)
    assert RunDirectory(tmp_path).digest("finetune") != before


def test_stages_are_listed_without_drafts(tmp_path):
    for name in ("b", "a"):
        finish_stage(tmp_path, name=name)
    with open_stage(tmp_path, name="c"):
        (tmp_path / "notes").mkdir()
        assert RunDirectory(tmp_path).stages() == ["a", "b"]


@given(content=st.binary(max_size=100))
def test_the_digest_of_a_file_is_its_sha256(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("digest") / "file"
    path.write_bytes(content)
    assert digest_file(path) == digest_path(path) == hashlib.sha256(content).hexdigest()


def test_the_digest_of_a_folder_tells_names_places_and_contents(tmp_path):
    def digest(**files: str) -> str:
        folder = tmp_path / hashlib.sha256(repr(files).encode()).hexdigest()
        for name, text in files.items():
            path = folder / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert digest_folder(folder) == digest_path(folder)
        return digest_folder(folder)

    cases = [digest(a="1", b="2"), digest(a="2", b="1"), digest(a="1"), digest(a__b="1"), digest(a__b="1", c="")]
    assert len(set(cases)) == len(cases)
    assert digest(b="2", a="1") == cases[0]


def test_a_name_that_is_not_utf8_has_a_digest_and_can_be_written_down(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    odd = os.fsdecode(b"caf\xe9")
    (folder / odd).write_text("x")
    assert len(digest_folder(folder)) == 64
    write_json(tmp_path / "record.json", {"path": odd, "word": "Straße"})
    assert json.loads((tmp_path / "record.json").read_text(encoding="utf-8")) == {"path": odd, "word": "Straße"}
    assert "Straße" in (tmp_path / "record.json").read_text(encoding="utf-8")


@given(
    before=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)),
    after=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)),
)
def test_differences_are_told_for_each_key_once_and_only_where_they_are(before, after):
    told = {line.partition(":")[0]: line.partition(": ")[2] for line in differences(before, after)}
    assert len(told) == len(differences(before, after))
    assert told == {
        key: f"{before.get(key)!r} -> {after.get(key)!r}"
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }


def test_numbers_that_json_has_not_got_are_null():
    record = {"a": [1.5, math.nan, (math.inf,)], "b": {"c": -math.inf}}
    assert json.loads(to_json(record)) == {"a": [1.5, None, [None]], "b": {"c": None}}
    assert to_json({"a": 1.5}, indent=1) == json.dumps({"a": 1.5}, indent=1)
