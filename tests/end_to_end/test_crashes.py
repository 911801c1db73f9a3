"""Crashes: whatever stops a stage, and wherever, it is finished, to be continued or not there; never half."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from builders.stages import assert_finished, files_of, finish_stage, full_disk, open_finetune, work

from crossner_cli.errors import CrossNERError
from crossner_cli.options import Finetune
from crossner_cli.run import stage as module
from crossner_cli.run import storage
from crossner_cli.run.directory import RunDirectory, read_manifest
from crossner_cli.run.stage import open_stage
from crossner_cli.run.storage import output_folder, take_lock, write_atomically

FOREVER = 10**9


class PowerCut(BaseException):
    """Nothing in the package may catch this."""


@contextlib.contextmanager
def power_cut_after(operations: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let so many file operations happen, then none: not those of ``finally`` blocks either."""
    done: list[str] = []

    def guarded(name: str, operation: Callable[..., Any], changes: Callable[..., bool]) -> Callable[..., Any]:
        def run(*arguments: Any, **keywords: Any) -> Any:
            if not changes(*arguments, **keywords):
                return operation(*arguments, **keywords)
            if len(done) >= operations:
                raise PowerCut
            done.append(name)
            return operation(*arguments, **keywords)

        return run

    def always(*arguments: Any, **keywords: Any) -> bool:
        return True

    def writes(path: Path, mode: str = "r", *arguments: Any, **keywords: Any) -> bool:
        return mode.startswith("w")

    with monkeypatch.context() as patch:
        for name, changes in (("replace", always), ("unlink", always), ("mkdir", always), ("open", writes)):
            patch.setattr(Path, name, guarded(name, getattr(Path, name), changes))
        patch.setattr(os, "fsync", guarded("fsync", os.fsync, always))
        patch.setattr(module.shutil, "rmtree", guarded("rmtree", module.shutil.rmtree, always))
        yield done


@pytest.mark.parametrize("is_replacing", [False, True], ids=["first", "replacing"])
def test_a_power_cut_between_any_two_operations_of_finish_leaves_all_or_nothing(tmp_path, monkeypatch, is_replacing):
    for operations in range(FOREVER):
        run = tmp_path / str(operations)
        if is_replacing:
            finish_stage(run, "old")
        stage = open_finetune(run, force=is_replacing)
        work(stage, "new")
        with power_cut_after(operations, monkeypatch) as done, contextlib.suppress(PowerCut):
            stage.finish({"dev_f1": 0.5})
        stage.close()
        for path in (run / "finetune", run / ".replaced-finetune"):
            if path.exists():
                read_manifest(path)
        with open_finetune(run, force=is_replacing) as again:
            if again.finished is not None:
                assert_finished(run, "new")
            elif again.is_continued:
                assert (again.draft / "tagger/model.txt").read_text() == "new"
                again.finish({})
                assert_finished(run, "new")
            else:  # it was in place when the power went, and is now done again by --force
                assert is_replacing
                assert (run / "finetune/tagger/model.txt").read_text() == "new"
        if len(done) < operations:
            break
    assert operations > 8


def test_a_stage_that_was_to_be_replaced_comes_back_where_the_new_one_is_lost(tmp_path, monkeypatch):
    finish_stage(tmp_path, "old")
    with open_finetune(tmp_path, force=True) as stage:
        work(stage, "new")
        replace = Path.replace

        def replace_once(path: Path, target: Path) -> Path:
            if path == stage.draft:
                raise PowerCut
            return replace(path, target)

        with monkeypatch.context() as patch, pytest.raises(PowerCut):
            patch.setattr(Path, "replace", replace_once)
            stage.finish({})
        assert not stage.folder.exists()
        module.shutil.rmtree(stage.draft)
    with open_finetune(tmp_path) as again:
        assert again.finished is not None
    assert_finished(tmp_path, "old")


def test_a_draft_that_was_half_thrown_away_is_not_continued(tmp_path, monkeypatch):
    with open_finetune(tmp_path) as stage:
        work(stage)

    def half_removed(path: Path, **keywords: Any) -> None:
        if path == stage.draft:
            (path / "tagger/model.txt").unlink()
            raise PowerCut

    with monkeypatch.context() as patch, pytest.raises(PowerCut):
        patch.setattr(module.shutil, "rmtree", half_removed)
        open_finetune(tmp_path, force=True)
    with open_finetune(tmp_path) as again:
        assert not again.is_continued
        assert files_of(again.draft) == {"draft.json"}


def test_what_a_crash_left_of_a_file_being_written_is_no_output(tmp_path):
    with open_finetune(tmp_path) as stage:
        work(stage)
        (stage.draft / ".manifest.json.draft").write_text("{ half")
        (stage.draft / "tagger/.tagger.json.draft").write_text("{ half")
    with open_finetune(tmp_path) as stage:
        stage.finish({})
    assert_finished(tmp_path, "weights")


def test_a_full_disk_at_the_end_loses_nothing(tmp_path, monkeypatch):
    with open_finetune(tmp_path) as stage:
        work(stage)
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
            patch.setattr(os, "fsync", full_disk)
            stage.finish({})
    with open_finetune(tmp_path) as stage:
        assert stage.is_continued
        stage.finish({})
    assert_finished(tmp_path, "weights")


HOLD = """
import sys, time
from pathlib import Path
from crossner_cli.options import Finetune
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.stage import open_stage
stage = open_stage(RunDirectory(Path(sys.argv[1])), Finetune().stage_request({}))
print("held", flush=True)
time.sleep(60)
"""


def test_a_stage_at_work_is_refused_to_a_second_process_until_the_first_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(CrossNERError) as caught:
            open_stage(RunDirectory(tmp_path), Finetune().stage_request({}))
        assert f"process {holder.pid} on " in caught.value.problem
        assert "at work on the stage 'finetune'" in caught.value.problem
        assert "--name" in caught.value.hint
        open_stage(RunDirectory(tmp_path), Finetune(name="other").stage_request({})).close()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with open_stage(RunDirectory(tmp_path), Finetune().stage_request({})) as stage:
        assert stage.finished is None


WRITE = """
import sys, time
from pathlib import Path
from crossner_cli.run.storage import output_folder
with output_folder(Path(sys.argv[1]), "record.json", force=True) as draft:
    (draft / "half.txt").touch()
    print("held", flush=True)
    time.sleep(60)
"""


def test_an_output_is_written_by_one_process_and_a_killed_one_leaves_nothing_to_stumble_over(tmp_path):
    place = tmp_path / "output"
    with subprocess.Popen([sys.executable, "-c", WRITE, place], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(CrossNERError) as caught, output_folder(place, "record.json", force=True):
            pytest.fail("two processes write one folder")
        assert f"process {holder.pid} on " in caught.value.problem
        assert f"at work on --output {place}" in caught.value.problem
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert len(list(tmp_path.iterdir())) == 2
    with output_folder(place, "record.json", force=False) as draft:
        (draft / "record.json").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["output", "record.json"]


def test_an_output_that_appears_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    place = tmp_path / "output"

    def lock_after_another(*arguments, **named):
        place.mkdir()
        (place / "record.json").write_text("of another")
        return take_lock(*arguments, **named)

    monkeypatch.setattr(storage, "take_lock", lock_after_another)
    with pytest.raises(CrossNERError, match="exists"), output_folder(place, "record.json", force=False):
        pytest.fail("another process has just written it")
    assert (place / "record.json").read_text() == "of another" and list(tmp_path.iterdir()) == [place]


def test_the_lock_is_given_back_when_opening_fails(tmp_path):
    finish_stage(tmp_path)
    for _ in range(2):
        with pytest.raises(CrossNERError, match="other options"):
            open_finetune(tmp_path, epochs=4)
    with open_finetune(tmp_path) as first, pytest.raises(CrossNERError, match="at work"):
        assert first.finished
        open_finetune(tmp_path)


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch, failing):
    path = tmp_path / "file.txt"
    write_atomically(path, "old\n")
    assert path.read_bytes() == b"old\n"
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        if failing == "write":
            patch.setattr(Path, "open", lambda path, *arguments, **keywords: FullDisk(path))
        elif failing == "fsync":
            patch.setattr(os, "fsync", full_disk)
        else:
            patch.setattr(Path, "replace", full_disk)
        write_atomically(path, "new\n" * 1000)
    assert files_of(tmp_path) == {"file.txt"}
    assert path.read_text() == "old\n"
    write_atomically(path, "new\n")
    assert path.read_text() == "new\n"
    assert files_of(tmp_path) == {"file.txt"}


class FullDisk:
    """A file that can be opened and not written."""

    def __init__(self, path: Path) -> None:
        path.touch()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *arguments: Any) -> None:
        pass

    def write(self, text: str) -> None:
        full_disk()
