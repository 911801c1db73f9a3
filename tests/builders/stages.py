"""Stages of run directories, and what they leave."""

import dataclasses
import errno
from pathlib import Path
from typing import Any

from crossner_cli.options import Finetune
from crossner_cli.run.directory import RunDirectory, read_manifest
from crossner_cli.run.stage import Stage, open_stage
from crossner_cli.run.storage import digest_file

INPUTS = {"prepare-data/target/train.jsonl": "abc"}


def options(**changes: Any) -> Finetune:
    return dataclasses.replace(Finetune(epochs=3, settings=["dropout=0.1"]), **changes)


def open_finetune(path: Path, *, inputs: dict[str, str] | None = None, **changes: Any) -> Stage:
    return open_stage(RunDirectory(path), options(**changes).stage_request(inputs or INPUTS))


def finish_stage(path: Path, text: str = "weights", **changes: Any) -> dict[str, Any]:
    with open_finetune(path, **changes) as stage:
        work(stage, text)
        return stage.finish({"dev_f1": 0.5}, lineage=[])


def work(stage: Stage, text: str = "weights") -> None:
    (stage.draft / "tagger").mkdir(exist_ok=True)
    (stage.draft / "tagger" / "model.txt").write_text(text)


def files_of(path: Path) -> set[str]:
    return {found.relative_to(path).as_posix() for found in path.rglob("*") if found.is_file()}


def assert_finished(path: Path, text: str) -> None:
    """Assert that the stage is complete and nothing else is there."""
    assert files_of(path) == {".lock-finetune", "finetune/tagger/model.txt", "finetune/manifest.json"}
    assert (path / "finetune/tagger/model.txt").read_text() == text
    manifest = read_manifest(path / "finetune")
    assert manifest["outputs"] == {"tagger/model.txt": digest_file(path / "finetune/tagger/model.txt")}


def full_disk(*arguments: Any, **keywords: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
