"""Run directories: a folder with one folder for each finished stage, and the manifests of stages."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

from crossner_cli import figures
from crossner_cli.errors import CrossNERError, suggest_path
from crossner_cli.run.storage import check_digest, digest_folder, read_record

MANIFEST = "manifest.json"
PREPARED = "prepare-data"  # the only stage that other stages find by its command's name
FINAL = "tagger"  # the stage of the tagger that crossner adapt makes
PREVIOUS = "-previous"  # ends the name of a tagger stage that was made again from other inputs
RECORDS = ("README.md", "training.json", "scores.json")  # outputs that describe the work, for instance its times
COMMAND_THAT_MAKES = {
    PREPARED: "crossner prepare-data --source DATASET --target DATASET",
    **{name: f"crossner {name}" for name in ("dapt", "pretrain-source", "finetune", "joint-train")},
}


class Manifest(TypedDict, total=False):
    """The record of a command: its options, inputs and result (``run.results``).

    ``inputs`` and ``outputs`` are digests by name; an input is called ``prepare-data/target/dev.jsonl``, say, or by the
    name of a stage. ``lineage`` are the stages whose weights it started from; ``taggers`` is there if it holds taggers,
    one per seed. ``directory`` is where the command was given: relative paths of its options start there.
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
    taggers: bool
    device: str
    directory: str


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest in the folder of a finished stage; refuse one that is broken."""
    manifest = read_record(folder / MANIFEST)
    kinds = {"stage": str, "name": str, "options": dict, "inputs": dict, "result": dict}
    broken = [key for key, kind in kinds.items() if not isinstance(manifest.get(key), kind)]
    if broken:
        raise CrossNERError(
            f"{folder / MANIFEST} is not the manifest of a stage: {', '.join(broken)} missing or of another kind.",
            hint="Move its folder away, or make it again with --force.",
        )
    return cast(Manifest, manifest)


def given_in(manifest: Manifest) -> Path:
    """Return the directory in which the command of a manifest was given; the current one if it is gone."""
    directory = Path(manifest.get("directory") or "")
    return directory if directory.is_dir() else Path()


def digest_stage(manifest: Manifest) -> str:
    """Digest a stage: its command, name and options, and its outputs except those with times."""
    outputs = manifest.get("outputs", {})
    content = {path: digest for path, digest in outputs.items() if path.rpartition("/")[2] not in RECORDS}
    identity = [manifest["stage"], manifest["name"], manifest["options"], content]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def digest_model(folder: Path) -> str:
    """The digest of a stage by its folder, or of all files in another folder."""
    return digest_stage(read_manifest(folder)) if (folder / MANIFEST).is_file() else digest_folder(folder)


def check_outputs(stage: Path, folder: Path, *, hint: str) -> None:
    """Refuse a folder in or of a stage with a file that differs from the stage's manifest; times may differ."""
    for place, digest in read_manifest(stage).get("outputs", {}).items():
        path = stage / place
        if folder in path.parents and path.name not in RECORDS:
            check_digest(path, digest, hint=hint)


def propose_tagger(dev_f1: Mapping[str, float | None]) -> str:
    """Propose the tagger stage with the best score on dev, and of equals that of ``adapt``."""
    return max(dev_f1, key=lambda name: (dev_f1[name] or 0.0, name == FINAL))


def describe_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Describe each value that differs between two records, as ``epochs: 3 -> 4``."""
    changed = [key for key in dict.fromkeys((*before, *after)) if before.get(key) != after.get(key)]
    return [f"{key}: {_to_text(before.get(key))} -> {_to_text(after.get(key))}" for key in changed]


def _to_text(value: Any) -> str:
    """Write a value as on a command line; ``none`` without one."""
    if value is None or value == []:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else figures.setting(value)


class RunDirectory:
    """One experiment: a folder with one folder for each finished stage."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def folder(self, name: str) -> Path:
        """Return the folder of the stage of this name."""
        return self.path / name

    def has(self, name: str) -> bool:
        """Return whether a stage of this name is finished; a path is not a name."""
        return Path(name).name == name and (self.folder(name) / MANIFEST).is_file()

    def stage_or_path(self, name: str, directory: Path | None = None) -> Path:
        """Return the folder of a finished stage, else the name as a path from the current directory or another.

        A slash at its end is ignored.
        """
        stage = name.rstrip("/")
        return self.folder(stage) if self.has(stage) else (directory or Path()) / name

    def manifest(self, name: str, *, wanted_by: str) -> Manifest:
        """Read the manifest of a finished stage.

        Raises:
            CrossNERError: It is missing (the message names the command that makes it), or it is broken.
        """
        path = self.folder(name) / MANIFEST
        if not path.is_file():
            others = ", ".join(self.stages()) or "none"
            alike = "" if self.path.exists() else suggest_path(self.path)
            raise CrossNERError(
                f"{wanted_by} needs the stage {name!r}, and {path} does not exist (finished stages here: {others}).",
                hint=f"{alike}Make it first: {COMMAND_THAT_MAKES.get(name, f'crossner COMMAND --name {name}')}"
                f" --run {shlex.quote(str(self.path))}",
            )
        return read_manifest(path.parent)

    def read(self, name: str) -> Manifest:
        """Read the manifest of a finished stage that is known to be there."""
        return read_manifest(self.folder(name))

    def stages(self) -> list[str]:
        """List the names of the finished stages."""
        found = self.path.glob(f"*/{MANIFEST}") if self.path.is_dir() else []
        return sorted(path.parent.name for path in found if not path.parent.name.startswith("."))

    def digest(self, name: str) -> str:
        """Return the digest of a finished stage."""
        return digest_stage(self.read(name))
