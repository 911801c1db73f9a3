"""Run directories: a folder with one folder for each finished stage, and the manifests in them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import digest_file, read_record

MANIFEST = "manifest.json"
PREPARED = "prepare-data"  # the one stage that other stages look for by its command's name
COMMAND_THAT_MAKES = {
    "prepare-data": "crossner prepare-data --source DATASET --target DATASET",
    "dapt": "crossner dapt",
    "pretrain-source": "crossner pretrain-source",
    "finetune": "crossner finetune",
    "joint-train": "crossner joint-train",
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
            CrossNERError: There is none (the message names who needs it and the command that makes it), or it is
                broken.
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
