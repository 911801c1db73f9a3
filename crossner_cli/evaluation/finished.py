"""Finished evaluate stages: finding them, and reading the predictions of their models back."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import split_tag
from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import MANIFEST, Manifest, RunDirectory, read_manifest
from crossner_cli.run.storage import check_digest

COMMAND = "evaluate"
ONE_SEED = "-"  # stands for the seed of a tagger whose folder does not tell


@dataclass(frozen=True)
class Predictions:
    """Tagged sentences.

    Args:
        words: Of each sentence.
        gold: Their gold tags.
        tags: Their predicted tags.
    """

    words: list[list[str]]
    gold: list[list[str]]
    tags: list[list[str]]


@dataclass(frozen=True)
class EvaluatedModel:
    """A model of an evaluate stage.

    Args:
        label: As the stage calls it.
        place: The stage's folder as messages and tables call it.
        files: The predictions of each seed.
        scores: What the manifest says of it.
        tagger: Digest of its taggers; empty where none is known.
        digests: SHA-256 of each file by its name, as the manifest has them; empty where nothing is to be checked.
    """

    label: str
    place: str
    files: dict[str, Path]
    scores: Mapping[str, Any]
    tagger: str
    digests: Mapping[str, str]

    def read(self) -> dict[str, Predictions]:
        """The predictions of each seed.

        Raises:
            CrossNERError: A file is missing, was changed, or is none of predictions.
        """
        return {seed: self._read_file(path) for seed, path in self.files.items()}

    def _read_file(self, path: Path) -> Predictions:
        if not path.is_file():
            raise CrossNERError(
                f"{path} is missing: the predictions of {self.label} are not there to compare.",
                hint="Copy the whole stage folder, or evaluate again with --force.",
            )
        check_digest(path, self.digests.get(path.name), hint="Copy it again, or evaluate again with --force.")
        return read_predictions(path)


@dataclass(frozen=True)
class Evaluation:
    """An evaluate stage.

    Args:
        folder: Where it is.
        manifest: What it says.
    """

    folder: Path
    manifest: Manifest

    @property
    def result(self) -> dict[str, Any]:
        """The stage's result."""
        result: dict[str, Any] = self.manifest["result"]
        return result

    def models(self) -> list[EvaluatedModel]:
        """Its models, in order."""
        outputs = self.manifest.get("outputs", {})
        return models_of(self.folder, self.result["models"], self.manifest["inputs"], outputs)


def models_of(
    folder: Path, models: Mapping[str, Any], inputs: Mapping[str, str], digests: Mapping[str, str]
) -> list[EvaluatedModel]:
    """The models of a stage's result and inputs, with the files of their predictions in a folder."""
    runs = [(label, seed) for label, model in models.items() for seed in model["seeds"]]
    names = dict(zip(runs, prediction_file_names(runs), strict=True))
    found = []
    for label, model in models.items():
        files = {seed: folder / names[label, seed] for seed in model["seeds"]}
        found.append(EvaluatedModel(label, str(folder), files, model, inputs.get(label, ""), digests))
    return found


def prediction_file_names(runs: Sequence[tuple[str, str]]) -> list[str]:
    """A file for the predictions of each label and seed; a single one's is ``predictions.jsonl``."""
    if len(runs) == 1:
        return ["predictions.jsonl"]
    labels = [label for label, _ in runs]
    names: list[str] = []
    for label, seed in runs:
        name = re.sub(r"[^\w.-]+", "-", label).strip("-.") or "model"
        name = f"{name}-seed-{seed}" if labels.count(label) > 1 else name
        while f"predictions-{name}.jsonl" in names:  # two paths may differ only in what a file name cannot hold
            name += "-2"
        names.append(f"predictions-{name}.jsonl")
    return names


def find_evaluations(path: Path) -> list[Evaluation]:
    """The finished evaluate stages of a run directory, or the one whose folder is given; there may be none.

    Raises:
        CrossNERError: There is no such folder, or a manifest in it is broken.
    """
    if (path / MANIFEST).is_file():
        return [_read_evaluation(path)]
    if not path.is_dir():
        raise CrossNERError(
            f"{path} is no run directory: there is no such folder.", hint="Give a run directory, or a stage's folder."
        )
    run = RunDirectory(path)
    manifests = {name: read_manifest(run.folder(name)) for name in run.stages()}
    return [_read_evaluation(run.folder(name)) for name, manifest in manifests.items() if manifest["stage"] == COMMAND]


def find_evaluation(path: Path) -> Evaluation:
    """The evaluate stage of a run directory: the one of that name, else the only one; or the one given.

    Raises:
        CrossNERError: There is none, or several to choose from.
    """
    found = find_evaluations(path)
    named = [each for each in found if each.folder.name == COMMAND]
    if len(found) == 1 or named:
        return (named or found)[0]
    if not found:
        raise CrossNERError(
            f"{path} holds no finished evaluate stage to compare with.",
            hint=f"crossner evaluate --run {shlex.quote(str(path))}",
        )
    names = ", ".join(each.folder.name for each in found)
    raise CrossNERError(
        f"{path} holds several evaluate stages: {names}.",
        hint=f"Name one by its folder: {shlex.quote(str(found[0].folder))}",
    )


def _read_evaluation(folder: Path) -> Evaluation:
    manifest = read_manifest(folder)
    if manifest["stage"] != COMMAND:
        raise CrossNERError(
            f"{folder} holds the stage {manifest['stage']}, which has no scores on test sentences.",
            hint=f"Give a run directory, or the folder of an evaluate stage as {folder.parent / COMMAND}.",
        )
    result = manifest["result"]
    models = result.get("models")
    is_told = isinstance(result.get("domain"), str) and result.get("mode") in ("conll", "strict")
    if not (is_told and isinstance(models, dict) and models and all(map(_is_scored, models.values()))):
        raise CrossNERError(
            f"{folder / MANIFEST} is no manifest of an evaluate stage: domain, mode or models are missing or of another"
            " kind.",
            hint="Evaluate again with --force.",
        )
    return Evaluation(folder, manifest)


def _is_scored(model: Any) -> bool:
    """Whether a model of a manifest has F1 as mean and by seed."""
    seeds, average = (model.get(name) if isinstance(model, dict) else None for name in ("seeds", "f1"))
    if not isinstance(seeds, dict) or not seeds or not isinstance(average, dict) or "deviation" not in average:
        return False
    scores = [seed.get("f1") if isinstance(seed, dict) else None for seed in seeds.values()]
    return all(isinstance(score, int | float) for score in (average.get("mean"), *scores))


def write_predictions(path: Path, sentences: Sequence[Sentence], tags: Iterable[Sequence[str]]) -> None:
    """Write what ``read_predictions`` reads: sentences with their gold tags, and the tags predicted for each."""
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for sentence, predicted in zip(sentences, tags, strict=True):
            record = {"words": sentence.words, "gold": sentence.tags, "tags": predicted}
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_predictions(path: Path) -> Predictions:
    """Read what ``evaluate`` wrote: a sentence a line, with ``words``, ``gold`` and ``tags``.

    Raises:
        CrossNERError: A line is something else.
    """
    found = Predictions([], [], [])
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            words, gold, tags = _read_line(path, number, line)
            found.words.append(words)
            found.gold.append(gold)
            found.tags.append(tags)
    return found


def _read_line(path: Path, number: int, line: bytes) -> tuple[list[str], list[str], list[str]]:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    columns = [record.get(name) if isinstance(record, dict) else None for name in ("words", "gold", "tags")]
    lists = [column for column in columns if isinstance(column, list) and all(isinstance(item, str) for item in column)]
    lengths = {len(column) for column in lists}
    if len(lists) != 3 or len(lengths) != 1 or not all(map(_is_tag, [*lists[1], *lists[2]])):
        raise CrossNERError(
            f'{path}:{number}: no sentence with "words", "gold" and "tags" of one length.',
            hint="Evaluate again with --force.",
        )
    return lists[0], lists[1], lists[2]


def _is_tag(tag: str) -> bool:
    try:
        split_tag(tag)
    except ValueError:
        return False
    return True
