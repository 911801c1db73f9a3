"""The work of one command in a run directory.

A stage writes into a draft folder beside its own, its manifest last, and renames. So a folder that exists is finished,
and an interrupted stage continues from its draft.
"""

from __future__ import annotations

import contextlib
import errno
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import (
    MANIFEST,
    PREPARED,
    PREVIOUS,
    Manifest,
    RunDirectory,
    describe_differences,
    read_manifest,
)
from crossner_cli.run.environment import make_record
from crossner_cli.run.freshness import describe_changed
from crossner_cli.run.storage import (
    digest_file,
    flush_folder,
    flush_tree,
    name_is_taken,
    read_record,
    remove_folder,
    take_lock,
    write_json,
)

if TYPE_CHECKING:
    from filelock import FileLock

DRAFT = "draft.json"
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True)
class StageRequest:
    """The request of a command to a run directory."""

    command: str
    options: dict[str, Any]  # those that make its result, as JSON values
    inputs: Mapping[str, str]  # digest of everything that the result depends on, by name
    name: str | None = None  # folder of the stage in the run; the command's name if None
    force: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of the options
    replaces: bool = False  # work with other options or inputs, without ``force``
    makes_taggers: bool = False  # one a seed


def open_stage(run: RunDirectory, request: StageRequest) -> Stage:
    """Lock a stage and find out whether it is finished, interrupted or new.

    Raises:
        CrossNERError: Another process is at work on it, the stage was made with other options or inputs, or the run
            directory cannot be written.
    """
    stage = Stage(run, request)
    stage.open()
    return stage


class Stage:
    """The work of one command: a locked draft folder that becomes the stage's folder when finished.

    Used as a context manager. Leaving it before ``finish`` keeps the draft, to be continued by the same command.
    """

    def __init__(self, run: RunDirectory, request: StageRequest) -> None:
        self.run, self.request = run, request
        self.command, self.inputs = request.command, dict(request.inputs)
        self.name = request.name or request.command
        _check_name(self.name, request.command)
        self.folder = run.folder(self.name)
        self.draft = run.path / f".draft-{self.name}"
        self.replaced = run.path / f".replaced-{self.name}"
        self.finished: Manifest | None = None
        self.is_continued = False
        self._now: dict[str, Any] = {"command": self.command, "options": request.options, "inputs": self.inputs}
        self._lock: FileLock | None = None
        self._started = time.perf_counter()

    def open(self) -> None:
        """Lock the stage, tidy up after a crash, compare with an existing stage, and make the draft folder."""
        try:
            self.run.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._not_writable(error) from None
        self._take_lock()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            if self._lock is not None and self.draft.is_dir() and not self._has_work():
                self._discard_draft()  # a command that was refused leaves nothing that looks interrupted
        self.close()

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def finish(
        self,
        result: dict[str, Any],
        *,
        lineage: list[dict[str, Any]] | None = None,
        device: str | None = None,
    ) -> Manifest:
        """Write the manifest last, flush everything, and rename the draft to the stage's folder.

        Args:
            result: The stage's record of its work.
            lineage: The stages whose weights it started from, if it has weights.
            device: The device it ran on.
        """
        for path in self.draft.rglob(".*.draft"):  # left by a crash inside ``write_atomically``
            path.unlink()
        mode = (self.draft / DRAFT).stat().st_mode
        for path in self.draft.rglob("*.safetensors"):
            path.chmod(mode)  # safetensors makes them private
        flush_tree(self.draft)
        outputs = (path for path in sorted(self.draft.rglob("*")) if path.is_file() and path != self.draft / DRAFT)
        manifest = make_record(self.command, self.request.options, self.inputs, result, self._started)
        manifest["name"] = self.name
        manifest["outputs"] = {path.relative_to(self.draft).as_posix(): digest_file(path) for path in outputs}
        manifest["continued"] = self.is_continued
        manifest["directory"] = str(Path.cwd())
        if lineage is not None:
            manifest["lineage"] = lineage
        if device is not None:
            manifest["device"] = device
        if self.request.makes_taggers:
            manifest["taggers"] = True
        write_json(self.draft / MANIFEST, manifest)
        self._move_in()
        remove_folder(self.replaced)
        self.finished = manifest
        return manifest

    def _move_in(self) -> None:
        """Make a draft that has its manifest the stage's folder."""
        # Until the manifest is there, the record lets the same command continue.
        (self.draft / DRAFT).unlink(missing_ok=True)
        if name_is_taken(self.folder):
            self.folder.replace(self._place_of_replaced())
        self.draft.replace(self.folder)
        flush_folder(self.run.path)

    def _place_of_replaced(self) -> Path:
        """Return the place for the replaced stage: taggers of other inputs are kept for comparison."""
        with contextlib.suppress(CrossNERError):  # a broken manifest
            before, after = read_manifest(self.folder), read_manifest(self.draft)
            if before.get("taggers") and before["inputs"] != after["inputs"]:
                previous = self.run.folder(f"{self.name}{PREVIOUS}")
                remove_folder(previous)
                return previous
        return self.replaced

    def _discard_draft(self) -> None:
        # The record goes first, so that nobody continues from a half-removed draft.
        (self.draft / DRAFT).unlink(missing_ok=True)
        shutil.rmtree(self.draft, ignore_errors=True)

    def _not_writable(self, error: OSError) -> CrossNERError:
        return CrossNERError(
            f"The run directory {self.run.path} cannot be written: {error.strerror}.",
            hint="Give another one with --run DIR, in a place that is yours.",
        )

    def _take_lock(self) -> None:
        place = f"the stage {self.name!r} of {self.run.path}"
        hint = "Wait for it, or give this one another folder with --name."
        try:
            self._lock = take_lock(self.run.path / f".lock-{self.name}", place, hint=hint)
        except OSError as error:
            if error.errno in READ_ONLY and self.run.has(self.name) and not self.request.force:
                return  # a finished stage is only read, for instance in the run of another user
            raise self._not_writable(error) from None

    def _begin(self) -> None:
        if self._lock is not None:  # without it another process may be at work on these files
            if (self.draft / MANIFEST).is_file():
                self._move_in()
            elif name_is_taken(self.replaced) and not name_is_taken(self.folder):
                self.replaced.replace(self.folder)
            remove_folder(self.replaced)
        if name_is_taken(self.folder) and not self.run.has(self.name):
            raise CrossNERError(
                f"{self.folder} exists and is not a finished stage (it has no {MANIFEST}).",
                hint="Move it away, or give this stage another folder with --name.",
            )
        self.finished = self._read_finished(with_inputs=True)
        if self.finished is not None:
            return
        self.is_continued = self._is_interrupted()
        if not self.is_continued:
            self._discard_draft()
            self.draft.mkdir(parents=True)
            write_json(self.draft / DRAFT, {**self._now, "forced": self.request.force})

    def check_options(self) -> None:
        """Refuse a stage that is finished with other options, without a lock and whatever its inputs."""
        self._read_finished(with_inputs=False)

    def _read_finished(self, *, with_inputs: bool) -> Manifest | None:
        """Return the manifest of the stage if it is finished with these options; None if it is to be made."""
        if self.request.force or not self.run.has(self.name):
            return None
        manifest = self.run.manifest(self.name, wanted_by=self.command)
        before: dict[str, Any] = {"command": manifest["stage"], **manifest}
        if self.request.replaces:
            return manifest if self._options_changed(before) + self._inputs_changed(before) == [] else None
        self._refuse_differences(before, "finished")
        if with_inputs and (changed := self._inputs_changed(before)):
            raise CrossNERError(
                f"The stage {self.name!r} of {self.run.path} is out of date: {describe_changed(changed)}.",
                hint=f"crossner rerun --run {shlex.quote(str(self.run.path))} makes it again and keeps the tagger of"
                f" before as {self.name}{PREVIOUS}; so does --force.",
            )
        return manifest

    def _is_interrupted(self) -> bool:
        """Return whether the draft holds work of this command; without ``--force`` other work is not lost."""
        path = self.draft / DRAFT
        if not path.is_file() or not self._has_work():
            return False
        if self.request.force:
            with contextlib.suppress(CrossNERError):
                return read_record(path) == {**self._now, "forced": True}
            return False
        before = read_record(path)
        if self.request.replaces:
            return self._options_changed(before) + self._inputs_changed(before) == []
        self._refuse_differences(before, "interrupted")
        if changed := self._inputs_changed(before):
            raise CrossNERError(
                f"The stage {self.name!r} of {self.run.path} was interrupted, and since then"
                f" {describe_changed(changed)}.",
                hint="--force begins again.",
            )
        return True

    def _has_work(self) -> bool:
        return any(path.name != DRAFT for path in self.draft.iterdir())

    def _refuse_differences(self, before: dict[str, Any], state: str) -> None:
        if found := self._options_changed(before):
            raise CrossNERError(
                f"The stage {self.name!r} of {self.run.path} is {state} with other options:\n  " + "\n  ".join(found),
                hint="--force does it again, replacing it; --name NAME keeps both.",
            )

    def _options_changed(self, before: dict[str, Any]) -> list[str]:
        command = before.get("command")
        found = [f"command: {command} -> {self.command}"] if command != self.command else []
        return found + describe_differences(before.get("options", {}), self.request.options)

    def _inputs_changed(self, before: dict[str, Any]) -> list[str]:
        inputs = before.get("inputs", {})
        names = dict.fromkeys((*inputs, *self.inputs))
        return [name for name in names if inputs.get(name) != self.inputs.get(name)]


def _check_name(name: str, command: str) -> None:
    """Refuse a name that cannot be a folder's or that has another meaning."""
    if not name.strip() or name.startswith(".") or Path(name).name != name:
        raise CrossNERError(
            f"--name {name!r} is not a folder name.", hint="Use letters, digits, '-' and '_', as dapt-token."
        )
    if name == PREPARED != command:
        problem = f"--name {name!r}: the prepared data of a run, and nothing else, are called {PREPARED!r}."
        raise CrossNERError(problem, hint="Take another name.")
    if name.endswith(PREVIOUS):
        raise CrossNERError(
            f"--name {name!r}: names with {PREVIOUS} are for stages that were made again.", hint="Take another name."
        )
    if name == "base":
        raise CrossNERError("--name 'base': --start-from base is the untouched encoder.", hint="Take another name.")


def is_at_work(run: RunDirectory, name: str) -> bool:
    """Return whether a process is at work on a stage."""
    try:
        take_lock(run.path / f".lock-{name}", name, hint="").release()
    except CrossNERError:
        return True
    except OSError:
        pass  # unknown for a run that is only read
    return False
