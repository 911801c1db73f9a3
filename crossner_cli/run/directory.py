"""Where stages read and write: drafts, manifests, digests and locks.

A stage writes into a draft folder beside its own, its manifest last, and renames. So a folder that exists is
finished, whatever happened; a draft is what an interrupted stage continues from.
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
from pathlib import Path
from types import TracebackType
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.option_fields import Command
from crossner_cli.run.storage import digest_file, flush_folder, flush_tree, read_record, write_json

Manifest = dict[str, Any]
MANIFEST, DRAFT = "manifest.json", "draft.json"
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
PREPARED = "prepare-data"  # the one stage that others look for by its command's name
COMMAND_THAT_MAKES = {
    "prepare-data": "crossner prepare-data --source DATASET --target DATASET",
    "dapt": "crossner dapt",
    "pretrain-source": "crossner pretrain-source",
    "finetune": "crossner finetune",
    "joint-train": "crossner joint-train",
}


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest in the folder of a finished stage.

    Raises:
        CrossNERError: It cannot be read, or is no manifest.
    """
    manifest = read_record(folder / MANIFEST)
    kinds = {"stage": str, "name": str, "options": dict, "inputs": dict, "result": dict}
    broken = [key for key, kind in kinds.items() if not isinstance(manifest.get(key), kind)]
    if broken:
        raise CrossNERError(
            f"{folder / MANIFEST} is no manifest of a stage: {', '.join(broken)} missing or of another kind.",
            hint="Move its folder away, or make it again with --force.",
        )
    return manifest


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Name what differs between two records, value by value."""
    changed = [key for key in dict.fromkeys((*before, *after)) if before.get(key) != after.get(key)]
    return [f"{key}: {before.get(key)!r} -> {after.get(key)!r}" for key in changed]


def _is_there(path: Path) -> bool:
    """Whether something has this name, were it a link to nothing."""
    return path.exists() or path.is_symlink()


def _discard(folder: Path) -> None:
    """Remove a folder; of a link to one the link alone."""
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _holds_same(before: Manifest, after: Manifest) -> bool:
    return all(before.get(key) == after.get(key) for key in ("stage", "name", "options", "inputs", "outputs"))


class RunDirectory:
    """One experiment: a folder with one folder a finished stage."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def folder(self, name: str) -> Path:
        """Where the stage of this name is, once finished."""
        return self.path / name

    def has(self, name: str) -> bool:
        """Whether a stage of this name is finished; a path is no name."""
        return Path(name).name == name and (self.folder(name) / MANIFEST).is_file()

    def stage_or_path(self, name: str) -> Path:
        """The folder of a finished stage of this name, with or without the slash of a completed one; else the path."""
        stage = name.rstrip("/")
        return self.folder(stage) if self.has(stage) else Path(name)

    def manifest(self, name: str, *, wanted_by: str) -> Manifest:
        """Read the manifest of a finished stage.

        Raises:
            CrossNERError: There is none, and then it says who wanted it and which command makes it; or it is broken.
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

    def open_stage(self, command: str, options: Command, inputs: Mapping[str, str]) -> Stage:
        """Take the lock of a stage and tell what is there: finished, interrupted or nothing.

        Args:
            command: The command that asks, as ``finetune``.
            options: Its options; ``options.name`` names the folder.
            inputs: Digest of everything the result depends on, by name.

        Raises:
            CrossNERError: Another process is at work on it, what is there was made with other options or inputs, or
                the run directory cannot be written.
        """
        stage = Stage(self, command, options, dict(inputs))
        stage.open()
        return stage


class Stage:
    """The work of one command: a locked draft folder that becomes the stage's folder when finished.

    Used as a context manager. Leaving it before ``finish`` keeps the draft, to be continued by the same command.
    """

    def __init__(self, run: RunDirectory, command: str, options: Command, inputs: dict[str, str]) -> None:
        self.run, self.command, self.options, self.inputs = run, command, options, inputs
        self.name = options.name or command
        if not self.name.strip() or self.name.startswith(".") or Path(self.name).name != self.name:
            raise CrossNERError(
                f"--name {self.name!r} is not a folder name.", hint="Use letters, digits, '-' and '_', as dapt-token."
            )
        self._check_meaning()
        self.folder = run.folder(self.name)
        self.draft = run.path / f".draft-{self.name}"
        self.replaced = run.path / f".replaced-{self.name}"
        self.finished: Manifest | None = None
        self.is_continued = False
        self._lock: int | None = None
        self._started = time.time()

    def _check_meaning(self) -> None:
        """Refuse names that mean something else."""
        if (self.command == PREPARED) != (self.name == PREPARED):
            raise CrossNERError(
                f"--name {self.name!r}: the prepared data of a run, and nothing else, are called {PREPARED!r}.",
                hint="Other data want another run: --run DIR." if self.command == PREPARED else "Take another name.",
            )
        if self.name == "base":
            raise CrossNERError(
                "--name 'base': --start-from base is the untouched encoder, never a stage.", hint="Take another name."
            )

    def open(self) -> None:
        """Lock, tidy what a crash left, compare, and make the draft folder.

        Raises:
            CrossNERError: As ``RunDirectory.open_stage``.
        """
        try:
            self.run.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._not_writable(error) from None
        self._take_lock()
        try:
            if self._lock is not None:  # another process may be at work on what it would tidy
                self._recover()
            self._compare()
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
                self._discard_draft()  # a command that was refused leaves nothing that is called unfinished
        self.close()

    def close(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def finish(self, result: dict[str, Any], *, keeps_same: bool = False, **more: Any) -> Manifest:
        """Write the manifest last, flush everything, and rename the draft to the stage's folder.

        Args:
            result: What the stage tells of its work.
            keeps_same: Where the stage is made again and holds what it held, leave its manifest as it was, times and
                versions included, so that what was made from it is not of another stage.
            more: Further entries of the manifest.
        """
        from crossner_cli.run.versions import versions

        for path in self.draft.rglob(".*.draft"):  # what a crash left of ``write_atomically``
            path.unlink()
        self._open_to_readers()
        flush_tree(self.draft)
        manifest: Manifest = {
            "stage": self.command,
            "name": self.name,
            "options": self.options.record(),
            "inputs": self.inputs,
            "result": result,
            **more,
            "outputs": {
                path.relative_to(self.draft).as_posix(): digest_file(path)
                for path in sorted(self.draft.rglob("*"))
                if path.is_file() and path != self.draft / DRAFT
            },
            "versions": versions(),
            "seconds": round(time.time() - self._started, 1),
            "continued": self.is_continued,
        }
        if keeps_same and self.run.has(self.name):
            with contextlib.suppress(CrossNERError):  # what is broken is replaced
                before = read_manifest(self.folder)
                manifest = before if _holds_same(before, manifest) else manifest
        write_json(self.draft / MANIFEST, manifest)
        self._move_in()
        _discard(self.replaced)
        self.finished = manifest
        return manifest

    def _open_to_readers(self) -> None:
        """Let who may read the draft's record read the weights: safetensors writes them for their owner alone."""
        mode = (self.draft / DRAFT).stat().st_mode
        for path in self.draft.rglob("*.safetensors"):
            path.chmod(mode)

    def _move_in(self) -> None:
        """Make a draft that has its manifest the stage's folder."""
        # Until the manifest is there, the record lets the same command continue.
        (self.draft / DRAFT).unlink(missing_ok=True)
        if _is_there(self.folder):
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
        import fcntl

        path = self.run.path / f".lock-{self.name}"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            if error.errno in READ_ONLY and self.run.has(self.name) and not self.options.force:
                return  # a finished stage is only read, as in a run that others made
            raise self._not_writable(error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
            os.close(descriptor)
            raise CrossNERError(
                f"{holder} is at work on the stage {self.name!r} of {self.run.path}.",
                hint="Wait for it, or give this one another folder with --name.",
            ) from None
        except OSError as error:  # a file system without locks
            os.close(descriptor)
            raise self._not_writable(error) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        self._lock = descriptor

    def _recover(self) -> None:
        """Finish or undo the renames of ``finish`` that a crash cut short."""
        if (self.draft / MANIFEST).is_file():
            self._move_in()
        elif _is_there(self.replaced) and not _is_there(self.folder):
            self.replaced.replace(self.folder)
        _discard(self.replaced)

    def _compare(self) -> None:
        """Tell a finished or interrupted stage of the same options and inputs from any other."""
        now = {"command": self.command, "options": self.options.record(), "inputs": self.inputs}
        if _is_there(self.folder) and not self.run.has(self.name):
            raise CrossNERError(
                f"{self.folder} exists and is no finished stage (it has no {MANIFEST}).",
                hint="Move it away, or give this stage another folder with --name.",
            )
        if self.options.force:
            if self._is_forced_draft(now):
                self.is_continued = True
                return
        elif self.run.has(self.name):
            manifest = self.run.manifest(self.name, wanted_by=self.command)
            before = {"command": manifest["stage"], "options": manifest["options"], "inputs": manifest["inputs"]}
            self._refuse_differences(before, now, "finished")
            self.finished = manifest
            return
        elif (self.draft / DRAFT).is_file() and self._may_continue(now):
            self.is_continued = True
            return
        self._discard_draft()
        self.draft.mkdir(parents=True)
        write_json(self.draft / DRAFT, {**now, "forced": self.options.force})

    def _may_continue(self, now: dict[str, Any]) -> bool:
        """Whether the draft is of this very command; one of another is refused unless it holds no work to lose."""
        before = read_record(self.draft / DRAFT)
        if self._has_work():
            self._refuse_differences(before, now, "interrupted")
            return True
        return all(before.get(key) == value for key, value in now.items())

    def _has_work(self) -> bool:
        """Whether the draft holds more than its record; where it does not, there is nothing to lose."""
        return any(path.name != DRAFT for path in self.draft.iterdir())

    def _is_forced_draft(self, now: dict[str, Any]) -> bool:
        """Whether the draft is of this very command with ``--force``, interrupted: then ``--force`` continues it."""
        path = self.draft / DRAFT
        with contextlib.suppress(CrossNERError):
            return path.is_file() and self._has_work() and read_record(path) == {**now, "forced": True}
        return False

    def _refuse_differences(self, before: dict[str, Any], now: dict[str, Any], state: str) -> None:
        command = before.get("command")
        found = [f"command: {command} -> {now['command']}"] if command != now["command"] else []
        # An option that came after the stage was made had its default then.
        found += differences({**self.options.defaults(), **before.get("options", {})}, now["options"])
        found += [f"input {line}" for line in differences(before.get("inputs", {}), now["inputs"])]
        if found:
            raise CrossNERError(
                f"The stage {self.name!r} of {self.run.path} is {state} with other options or inputs:\n  "
                + "\n  ".join(found),
                # The other commands look for prepared data under one name.
                hint="--force does it again, replacing it; "
                + ("--run DIR" if self.command == PREPARED else "--name NAME")
                + " keeps both.",
            )
