"""Run directories: a folder with one folder for each finished stage, manifests, and the work of one command in it.

A stage writes into a draft folder beside its own, its manifest last, and renames. So a folder that exists is finished;
a draft is what an interrupted stage continues from.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, cast

from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import installed_versions
from crossner_cli.run.storage import (
    digest_file,
    flush_folder,
    flush_tree,
    name_is_taken,
    read_record,
    remove_folder,
    write_json,
)

if TYPE_CHECKING:
    from filelock import FileLock

MANIFEST = "manifest.json"
DRAFT = "draft.json"
PREPARED = "prepare-data"  # the one stage that other stages look for by its command's name
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
COMMAND_THAT_MAKES = {
    PREPARED: "crossner prepare-data --source DATASET --target DATASET",
    **{name: f"crossner {name}" for name in ("dapt", "pretrain-source", "finetune", "joint-train")},
}


class Manifest(TypedDict, total=False):
    """The record of a command: what was run, from what, with what result (``run.results``).

    ``inputs`` and ``outputs`` are digests, ``lineage`` the stages whose weights it started from.
    """

    stage: str
    name: str
    options: dict[str, Any]
    inputs: dict[str, str]
    result: dict[str, Any]
    outputs: dict[str, str]
    versions: dict[str, str]
    seconds: float
    continued: bool
    lineage: list[dict[str, Any]]
    device: str


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest in the folder of a finished stage; refuse one that is broken."""
    manifest = read_record(folder / MANIFEST)
    kinds = {"stage": str, "name": str, "options": dict, "inputs": dict, "result": dict}
    broken = [key for key, kind in kinds.items() if not isinstance(manifest.get(key), kind)]
    if broken:
        raise CrossNERError(
            f"{folder / MANIFEST} is no manifest of a stage: {', '.join(broken)} missing or of another kind.",
            hint="Move its folder away, or make it again with --force.",
        )
    return cast(Manifest, manifest)


def describe_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Describe each value that differs between two records, as ``epochs: 3 -> 4``."""
    changed = [key for key in dict.fromkeys((*before, *after)) if before.get(key) != after.get(key)]
    return [f"{key}: {before.get(key)!r} -> {after.get(key)!r}" for key in changed]


class RunDirectory:
    """One experiment: a folder with one folder for each finished stage."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def folder(self, name: str) -> Path:
        """The folder of the stage of this name."""
        return self.path / name

    def has(self, name: str) -> bool:
        """Return whether a stage of this name is finished; a path is no name."""
        return Path(name).name == name and (self.folder(name) / MANIFEST).is_file()

    def stage_or_path(self, name: str) -> Path:
        """The folder of a finished stage of this name, else the name as a path. A slash at its end is ignored."""
        stage = name.rstrip("/")
        return self.folder(stage) if self.has(stage) else Path(name)

    def manifest(self, name: str, *, wanted_by: str) -> Manifest:
        """Read the manifest of a finished stage.

        Raises:
            CrossNERError: There is none (the message names the command that makes it), or it is broken.
        """
        path = self.folder(name) / MANIFEST
        if not path.is_file():
            others = ", ".join(self.stages()) or "none"
            raise CrossNERError(
                f"{wanted_by} needs the stage {name!r}, and {path} does not exist (finished stages here: {others}).",
                hint=f"Make it first: {COMMAND_THAT_MAKES.get(name, f'crossner COMMAND --name {name}')}"
                f" --run {shlex.quote(str(self.path))}",
            )
        return read_manifest(path.parent)

    def stages(self) -> list[str]:
        """Names of the finished stages."""
        found = self.path.glob(f"*/{MANIFEST}") if self.path.is_dir() else []
        return sorted(path.parent.name for path in found if not path.parent.name.startswith("."))

    def digest(self, name: str) -> str:
        """Digest of a finished stage: that of its manifest, which holds the digests of its outputs."""
        return digest_file(self.folder(name) / MANIFEST)


@dataclass(frozen=True)
class StageRequest:
    """The request of a command to a run directory.

    Args:
        options: The options that make its result, as JSON values.
        inputs: Digest of everything that the result depends on, by name.
        name: Folder of the stage in the run; the command's name if None.
        defaults: Of the options; a manifest that lacks an option was made with its default.
    """

    command: str
    options: dict[str, Any]
    inputs: Mapping[str, str]
    name: str | None = None
    force: bool = False
    defaults: Mapping[str, Any] | None = None


def open_stage(run: RunDirectory, request: StageRequest) -> Stage:
    """Lock a stage and find out whether it is finished, interrupted or new.

    Raises:
        CrossNERError: Another process is at work on it, what is there was made with other options or inputs, or
            the run directory cannot be written.
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
        self._started = time.time()

    def open(self) -> None:
        """Lock the stage, tidy what a crash left, compare with what is there, and make the draft folder."""
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
        """Give the lock back."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def finish(
        self,
        result: dict[str, Any],
        *,
        lineage: list[dict[str, Any]] | None = None,
        device: str | None = None,
        keeps_same: bool = False,
    ) -> Manifest:
        """Write the manifest last, flush everything, and rename the draft to the stage's folder.

        Args:
            result: The stage's record of its work.
            lineage: The stages whose weights it started from, if it has weights.
            device: The device it ran on.
            keeps_same: Keep the manifest of a stage that is made again with the same outputs, times and versions
                included, so that stages made from it are not out of date.
        """
        for path in self.draft.rglob(".*.draft"):  # left by a crash inside ``write_atomically``
            path.unlink()
        mode = (self.draft / DRAFT).stat().st_mode
        for path in self.draft.rglob("*.safetensors"):
            path.chmod(mode)  # safetensors writes them for their owner alone
        flush_tree(self.draft)
        outputs = (path for path in sorted(self.draft.rglob("*")) if path.is_file() and path != self.draft / DRAFT)
        manifest: Manifest = {
            "stage": self.command,
            "name": self.name,
            "options": self.request.options,
            "inputs": self.inputs,
            "result": result,
            "outputs": {path.relative_to(self.draft).as_posix(): digest_file(path) for path in outputs},
            "versions": installed_versions(),
            "seconds": round(time.time() - self._started, 1),
            "continued": self.is_continued,
        }
        if lineage is not None:
            manifest["lineage"] = lineage
        if device is not None:
            manifest["device"] = device
        if keeps_same and self.run.has(self.name):
            with contextlib.suppress(CrossNERError):  # a broken manifest is replaced
                before = read_manifest(self.folder)
                keys = ("stage", "name", "options", "inputs", "outputs")
                is_same = [before.get(key) for key in keys] == [manifest.get(key) for key in keys]
                manifest = before if is_same else manifest
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
            self.folder.replace(self.replaced)
        self.draft.replace(self.folder)
        flush_folder(self.run.path)

    def _discard_draft(self) -> None:
        # The record goes first, so that nobody continues from a draft that was half removed.
        (self.draft / DRAFT).unlink(missing_ok=True)
        shutil.rmtree(self.draft, ignore_errors=True)

    def _not_writable(self, error: OSError) -> CrossNERError:
        return CrossNERError(
            f"The run directory {self.run.path} cannot be written: {error.strerror}.",
            hint="Give another one with --run DIR, on a disk that is yours.",
        )

    def _take_lock(self) -> None:
        from filelock import FileLock, Timeout  # takes a while to load, and help has no need of it

        path = self.run.path / f".lock-{self.name}"
        # A soft lock, the fallback where a disk has no locks, would outlive a process that is killed.
        lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout:
            raise CrossNERError(
                f"{_read_holder(path)} is at work on the stage {self.name!r} of {self.run.path}.",
                hint="Wait for it, or give this one another folder with --name.",
            ) from None
        except OSError as error:
            if error.errno in READ_ONLY and self.run.has(self.name) and not self.request.force:
                return  # a finished stage is only read, as in a run that others made
            raise self._not_writable(error) from None
        self._lock = lock
        with contextlib.suppress(OSError):
            path.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")

    def _begin(self) -> None:
        if self._lock is not None:  # without it another process may be at work on what would be tidied
            if (self.draft / MANIFEST).is_file():
                self._move_in()
            elif name_is_taken(self.replaced) and not name_is_taken(self.folder):
                self.replaced.replace(self.folder)
            remove_folder(self.replaced)
        if name_is_taken(self.folder) and not self.run.has(self.name):
            raise CrossNERError(
                f"{self.folder} exists and is no finished stage (it has no {MANIFEST}).",
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
        """Refuse a stage that is finished with other options, whatever its inputs: it takes no lock and no time."""
        self._read_finished(with_inputs=False)

    def _read_finished(self, *, with_inputs: bool) -> Manifest | None:
        """The manifest of the stage if it is finished with these options; None if it is to be made."""
        if self.request.force or not self.run.has(self.name):
            return None
        manifest = self.run.manifest(self.name, wanted_by=self.command)
        inputs = manifest["inputs"] if with_inputs else self.inputs
        self._refuse_differences(
            {"command": manifest["stage"], "options": manifest["options"], "inputs": inputs}, "finished"
        )
        return manifest

    def _is_interrupted(self) -> bool:
        """Return whether the draft holds work of this very command; without ``--force`` other work is not lost."""
        path = self.draft / DRAFT
        if not path.is_file() or not self._has_work():
            return False
        if self.request.force:
            with contextlib.suppress(CrossNERError):
                return read_record(path) == {**self._now, "forced": True}
            return False
        self._refuse_differences(read_record(path), "interrupted")
        return True

    def _has_work(self) -> bool:
        return any(path.name != DRAFT for path in self.draft.iterdir())

    def _refuse_differences(self, before: dict[str, Any], state: str) -> None:
        command, now = before.get("command"), self._now
        found = [f"command: {command} -> {now['command']}"] if command != now["command"] else []
        options = {**(self.request.defaults or {}), **before.get("options", {})}
        found += describe_differences(options, now["options"])
        found += [f"input {line}" for line in describe_differences(before.get("inputs", {}), now["inputs"])]
        if found:
            keeps_both = "--run DIR" if self.command == PREPARED else "--name NAME"
            raise CrossNERError(
                f"The stage {self.name!r} of {self.run.path} is {state} with other options or inputs:\n  "
                + "\n  ".join(found),
                hint=f"--force does it again, replacing it; {keeps_both} keeps both.",
            )


def _check_name(name: str, command: str) -> None:
    """Refuse a name that is no folder name or has a meaning of its own."""
    if not name.strip() or name.startswith(".") or Path(name).name != name:
        raise CrossNERError(
            f"--name {name!r} is not a folder name.", hint="Use letters, digits, '-' and '_', as dapt-token."
        )
    if (command == PREPARED) != (name == PREPARED):
        raise CrossNERError(
            f"--name {name!r}: the prepared data of a run, and nothing else, are called {PREPARED!r}.",
            hint="Other data need another run: --run DIR." if command == PREPARED else "Take another name.",
        )
    if name == "base":
        raise CrossNERError("--name 'base': --start-from base is the untouched encoder.", hint="Take another name.")


def _read_holder(lock: Path) -> str:
    """The process that holds a lock, as it wrote itself down."""
    with contextlib.suppress(OSError):
        return lock.read_text(encoding="utf-8", errors="replace")[:200].strip() or "Another process"
    return "Another process"
