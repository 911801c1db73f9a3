"""Finished evaluate stages: finding them, and the files with the predictions of their models."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli.data.sentences import Sentence
from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import MANIFEST, Manifest, RunDirectory, digest_stage, read_manifest
from crossner_cli.run.records import read_result
from crossner_cli.run.results import EvaluateResult, ModelResult
from crossner_cli.run.storage import check_digest

COMMAND = "evaluate"
CROSS_VALIDATE = "cross-validate"  # commands whose result is that of evaluate
LONGEST_NAME = 60  # of the models in the name of an evaluate stage
FOLDS = "folds"  # the stage of cross-validate
OUT_OF_FOLD = "out of fold"  # begins the name of the sentences that are scored so
NO_SEED = "-"  # the seed of a tagger whose folder does not name one
Predictions = list[dict[str, Any]]  # per sentence: words, gold and tags


@dataclass(frozen=True)
class EvaluatedModel:
    """A model of an evaluate stage.

    Args:
        place: The stage's folder, as it is named in messages and tables.
        files: Predictions by seed.
        tagger: Digest of its taggers; empty if unknown.
        digests: SHA-256 of each file by its name, from the manifest; a file that is not listed is not checked.
    """

    label: str
    place: str
    files: dict[str, Path]
    scores: ModelResult
    tagger: str
    digests: Mapping[str, str]

    def read(self) -> dict[str, Predictions]:
        """Read the predictions of each seed.

        Raises:
            CrossNERError: A file is missing or was changed.
        """
        found = {}
        for seed, path in self.files.items():
            if not path.is_file():
                raise CrossNERError(
                    f"{path} with the predictions of {self.label} is missing.",
                    hint="Copy the whole stage folder, or evaluate again with --force.",
                )
            check_digest(path, self.digests.get(path.name), hint="Copy it again, or evaluate again with --force.")
            with path.open(encoding="utf-8") as stream:
                found[seed] = [json.loads(line) for line in stream]
        return found


@dataclass(frozen=True)
class Evaluation:
    """An evaluate stage."""

    folder: Path
    manifest: Manifest
    result: EvaluateResult

    @property
    def is_of_folds(self) -> bool:
        """Return whether the sentences were tagged out of fold."""
        return (self.result.split or "").startswith(OUT_OF_FOLD)

    def models(self) -> list[EvaluatedModel]:
        """Its models, in order."""
        inputs = self.manifest["inputs"]
        if self.manifest["stage"] == CROSS_VALIDATE:  # whose taggers are nowhere else
            inputs = dict.fromkeys(self.result.models, digest_stage(self.manifest))
        return list_models(self.folder, self.result.models, inputs, self.manifest.get("outputs", {}))


def list_models(
    folder: Path, models: Mapping[str, ModelResult], inputs: Mapping[str, str], digests: Mapping[str, str]
) -> list[EvaluatedModel]:
    """List the models of a stage's result and inputs, with the files of their predictions in a folder."""
    runs = [(label, seed) for label, model in models.items() for seed in model.seeds]
    names = dict(zip(runs, prediction_file_names(runs), strict=True))
    found = []
    for label, model in models.items():
        files = {seed: folder / names[label, seed] for seed in model.seeds}
        found.append(EvaluatedModel(label, str(folder), files, model, inputs.get(label, ""), digests))
    return found


def name_evaluation(models: Sequence[str], split: str) -> str:
    """Name the folder of an evaluate stage by its models and split, as ``evaluate-finetune-dev``; test is left out."""
    labels = [_file_name("-".join(Path(label).parts[-2:])) for label in dict.fromkeys(models)]
    names = "-".join(labels) if len("".join(labels)) <= LONGEST_NAME else f"{len(labels)}-models"
    return f"{COMMAND}-{names}" + ("" if split == "test" else f"-{split}")


def _file_name(label: str) -> str:
    """Turn a label into a part of a file name."""
    return re.sub(r"[^\w.-]+", "-", label).strip("-.") or "model"


def prediction_file_names(runs: Sequence[tuple[str, str]]) -> list[str]:
    """Name a file for the predictions of each label and seed; a single one is ``predictions.jsonl``."""
    if len(runs) == 1:
        return ["predictions.jsonl"]
    labels = [label for label, _ in runs]
    names: list[str] = []
    for label, seed in runs:
        name = _file_name(label)
        name = f"{name}-seed-{seed}" if labels.count(label) > 1 else name
        while f"predictions-{name}.jsonl" in names:  # two paths may become the same name
            name += "-2"
        names.append(f"predictions-{name}.jsonl")
    return names


def write_predictions(path: Path, sentences: Sequence[Sentence], tags: Iterable[Sequence[str]]) -> None:
    """Write one sentence per line: its words, its gold tags and the predicted tags."""
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for sentence, predicted in zip(sentences, tags, strict=True):
            record = {"words": sentence.words, "gold": sentence.tags, "tags": predicted}
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def find_evaluations(path: Path) -> list[Evaluation]:
    """Find the finished evaluate stages of a run directory, or the one whose folder is given; there may be none.

    Raises:
        CrossNERError: A manifest is broken.
    """
    run = RunDirectory(path)
    folders = [path] if (path / MANIFEST).is_file() else [run.folder(name) for name in run.stages()]
    manifests = {folder: read_manifest(folder) for folder in folders}
    return [
        Evaluation(folder, manifest, read_result(manifest, EvaluateResult))
        for folder, manifest in manifests.items()
        if manifest["stage"] in (COMMAND, CROSS_VALIDATE)
    ]


def find_folds(run: RunDirectory, names: Sequence[str]) -> dict[str, Evaluation]:
    """Find the stages of ``cross-validate`` among models; there may be none.

    Raises:
        CrossNERError: There are taggers, too: they have seen the sentences.
    """
    folders = {name: run.stage_or_path(name) for name in names}
    manifests = {name: folder for name, folder in folders.items() if (folder / MANIFEST).is_file()}
    found = {name: folder for name, folder in manifests.items() if read_manifest(folder)["stage"] == CROSS_VALIDATE}
    if found and (others := [name for name in names if name not in found]):
        raise CrossNERError(
            f"--model {next(iter(found))} is scored on training sentences, which {', '.join(others)} cannot be.",
            hint="Evaluate them by themselves.",
        )
    return {name: find_evaluations(folder)[0] for name, folder in found.items()}


def find_evaluation(path: Path, *, of_folds: bool = False) -> Evaluation:
    """Find the evaluate stage of a run directory: the one called ``evaluate``, else the only one; or the given one.

    Args:
        path: A run directory, or the folder of a stage.
        of_folds: Look for one whose sentences were tagged out of fold, else for one whose sentences were not.

    Raises:
        CrossNERError: No evaluation is found, or several are.
    """
    found = find_evaluations(path)
    if not (path / MANIFEST).is_file():
        found = [each for each in found if each.is_of_folds == of_folds]
    chosen = [each for each in found if each.folder.name == (FOLDS if of_folds else COMMAND)] or found
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise CrossNERError(
            f"{path} holds no finished evaluate stage to compare with.",
            hint=f"crossner evaluate --run {shlex.quote(str(path))}",
        )
    raise CrossNERError(
        f"{path} holds several evaluate stages: {', '.join(each.folder.name for each in found)}.",
        hint=f"Name one by its folder: {shlex.quote(str(found[0].folder))}",
    )
