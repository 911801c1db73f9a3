"""Finished evaluate stages: finding them, and reading the predictions of their models back."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import split_tag
from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import MANIFEST, Manifest, RunDirectory, read_manifest
from crossner_cli.run.results import EvaluateResult, ModelResult, read_result
from crossner_cli.run.storage import check_digest

COMMAND = "evaluate"
NO_SEED = "-"  # the seed of a tagger whose folder does not name one


@dataclass(frozen=True)
class Predictions:
    """Tagged sentences.

    Args:
        words: Words of each sentence.
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
        label: Its name in the stage.
        place: The stage's folder as messages and tables call it.
        files: Predictions by seed.
        scores: Its result.
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
            CrossNERError: A file is missing, was changed, or holds no predictions.
        """
        found = {}
        for seed, path in self.files.items():
            if not path.is_file():
                raise CrossNERError(
                    f"{path} with the predictions of {self.label} is missing.",
                    hint="Copy the whole stage folder, or evaluate again with --force.",
                )
            check_digest(path, self.digests.get(path.name), hint="Copy it again, or evaluate again with --force.")
            found[seed] = read_predictions(path)
        return found


@dataclass(frozen=True)
class Evaluation:
    """An evaluate stage.

    Args:
        folder: Its folder.
        manifest: Its manifest.
        result: The result in the manifest.
    """

    folder: Path
    manifest: Manifest
    result: EvaluateResult

    def models(self) -> list[EvaluatedModel]:
        """Its models, in order."""
        outputs = self.manifest.get("outputs", {})
        return list_models(self.folder, self.result.models, self.manifest["inputs"], outputs)


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


def prediction_file_names(runs: Sequence[tuple[str, str]]) -> list[str]:
    """Name a file for the predictions of each label and seed; a single one is ``predictions.jsonl``."""
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
    """Find the finished evaluate stages of a run directory, or the one whose folder is given; there may be none.

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
    folders = [run.folder(name) for name in run.stages()]
    return [_read_evaluation(folder) for folder in folders if read_manifest(folder)["stage"] == COMMAND]


def find_evaluation(path: Path) -> Evaluation:
    """Find the evaluate stage of a run directory: the one called ``evaluate``, else the only one; or the given one.

    Raises:
        CrossNERError: There is none, or there are several to choose from.
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
    return Evaluation(folder, manifest, read_result(manifest, EvaluateResult))


def write_predictions(path: Path, sentences: Sequence[Sentence], tags: Iterable[Sequence[str]]) -> None:
    """Write sentences with their gold tags and the tags predicted for each, as ``read_predictions`` reads them."""
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for sentence, predicted in zip(sentences, tags, strict=True):
            record = {"words": sentence.words, "gold": sentence.tags, "tags": predicted}
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_predictions(path: Path) -> Predictions:
    """Read predictions that ``evaluate`` wrote: a sentence a line, with ``words``, ``gold`` and ``tags``.

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


def _read_line(path: Path, number: int, line: bytes) -> list[list[str]]:
    try:
        record = json.loads(line)
        columns = [[str(item) for item in record[name]] for name in ("words", "gold", "tags")]
        for tag in (*columns[1], *columns[2]):
            split_tag(tag)
        is_sentence = len({len(column) for column in columns}) == 1
    except (ValueError, TypeError, KeyError):
        is_sentence = False
    if not is_sentence:
        raise CrossNERError(
            f'{path}:{number}: no sentence with "words", "gold" and "tags" of one length.',
            hint="Evaluate again with --force.",
        )
    return columns
