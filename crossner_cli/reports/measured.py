"""What runs measured: every evaluated model and every trained tagger, with how it was made, out of manifests alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import COMMAND, EvaluatedModel, find_evaluations
from crossner_cli.run.directory import MANIFEST, Manifest, RunDirectory, read_manifest
from crossner_cli.run.storage import digest_file

PREPARE, ADAPT = "prepare-data", "dapt"
DRAFT_PREFIX = ".draft-"
Scores = dict[str, float | None]  # mean and deviation


@dataclass(frozen=True)
class Making:
    """How a tagger was made.

    Args:
        stage: The command that trained it.
        name: Its folder in its run.
        method: The tagging method.
        encoder: What reads the words.
        start: The stages its weights came from, else ``base``.
        regime: The commands that trained taggers on the way, as ``pretrain-source > finetune``.
        train_sentences: Labelled sentences of the target it was trained on; None where no manifest tells.
        corpus_share: Share of the raw corpus its encoder was adapted to, 0 without; None where no manifest tells.
        settings: Options of the stage and settings of the method, by name.
        history: Dev F1 after each epoch, by seed.
    """

    stage: str
    name: str
    method: str
    encoder: str
    start: str
    regime: str
    train_sentences: int | None
    corpus_share: float | None
    settings: Mapping[str, Any]
    history: Mapping[str, list[float]]


@dataclass(frozen=True)
class Measured:
    """An evaluated model.

    Args:
        run: The run's directory.
        stage: The evaluate stage's folder.
        target: The domain it was scored on.
        split: Of the target.
        mode: How broken tags were read.
        decoding: How tags were decoded.
        model: Its label, scores and predictions.
        making: How it was made; None where no manifest tells.
    """

    run: Path
    stage: str
    target: str
    split: str
    mode: str
    decoding: str
    model: EvaluatedModel
    making: Making | None

    def is_again(self, other: Measured) -> bool:
        """Whether two stages of a run, as of evaluate with and without --against, scored the same taggers alike."""
        mine, its = (
            (each.run, each.target, each.split, each.mode, each.decoding, each.model.label, each.f1)
            for each in (self, other)
        )
        return "" != self.model.tagger == other.model.tagger and mine == its

    @property
    def f1(self) -> dict[str, float]:
        """Micro F1 by seed, in percent."""
        return {seed: float(scores["f1"]) for seed, scores in self.model.scores["seeds"].items()}


@dataclass
class Found:
    """What runs hold.

    Args:
        models: Evaluated models, in the order of the runs.
        taggers: Every training stage, with the name of its run and its target.
        notes: What a reader should know: what is missing, unfinished or does not fit together.
        sizes: Where sentences of a target and split are first met in each number, with that of their words.
    """

    models: list[Measured] = field(default_factory=list)
    taggers: list[tuple[str, str, Making]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sizes: dict[tuple[str, str], dict[tuple[int, int], Path]] = field(default_factory=dict)


def read_runs(paths: Sequence[Path]) -> Found:
    """Read runs: run directories, folders of run directories, or folders of evaluate stages.

    Raises:
        CrossNERError: A path is none of these, or a manifest is broken.
    """
    found = Found()
    places = places_of(paths)
    stages = _Stages([run_of(place) for place in places])
    for place in places:
        _read_run(place, stages, found)
    for (target, split), sets in found.sizes.items():
        if len(sets) > 1:
            told = "; ".join(f"{sentences:,} of {words:,} words in {run}" for (sentences, words), run in sets.items())
            found.notes.append(
                f"{target} {split} is not the same everywhere, so scores are not to be compared: {told}."
            )
    return found


def places_of(paths: Sequence[Path]) -> list[Path]:
    """The run directories and evaluate stages that paths stand for, each once, by whatever path.

    Raises:
        CrossNERError: A path is neither, and no folder of run directories.
    """
    named: dict[Path, Path] = {}
    for path in paths:
        for place in _expand(path):
            named.setdefault(place.resolve(), place)
    # A stage of a run that is there as a whole is part of it.
    return [place for found, place in named.items() if found.parent not in named or not _is_stage(place)]


def run_of(place: Path) -> Path:
    """The run directory that a run directory or a stage of one stands for."""
    return place.parent if _is_stage(place) else place


def _expand(path: Path) -> list[Path]:
    """A folder of run directories stands for these."""
    if not path.is_dir():
        raise CrossNERError(
            f"{path} is no run directory: there is no such folder.",
            hint="Give run directories, a folder of them, or folders of evaluate stages.",
        )
    if _is_stage(path) or _is_run(path):
        return [path]
    inside = sorted((child for child in path.iterdir() if child.is_dir() and _is_run(child)), key=_by_number)
    if not inside:
        raise CrossNERError(
            f"{path} holds no finished stage, and no folder in it is a run directory.",
            hint="Give run directories, a folder of them, or folders of evaluate stages.",
        )
    return inside


def _is_stage(path: Path) -> bool:
    return (path / MANIFEST).is_file()


def _is_run(path: Path) -> bool:
    return bool(RunDirectory(path).stages()) or any(path.glob(f"{DRAFT_PREFIX}*"))


def _by_number(path: Path) -> tuple[float, str]:
    """Folders named by a number in its order, the others behind."""
    return (float(path.name) if path.name.replace(".", "", 1).isdecimal() else float("inf"), path.name)


class _Stages:
    """The finished stages of runs by the digest of their manifests, as stages name what they were made from."""

    def __init__(self, runs: Sequence[Path]) -> None:
        self.by_digest: dict[str, tuple[Path, Manifest]] = {}
        for run in dict.fromkeys(runs):
            for name in RunDirectory(run).stages():
                self.add(run / name)

    def add(self, folder: Path) -> str:
        """Take up a stage; return its digest."""
        digest = digest_file(folder / MANIFEST)
        if digest not in self.by_digest:
            self.by_digest[digest] = folder, read_manifest(folder)
        return digest

    def of_model(self, label: str, digest: str) -> Making | None:
        """How an evaluated model was made: by the digest its evaluation names."""
        elsewhere = Path(label)
        if digest not in self.by_digest and (elsewhere / MANIFEST).is_file():
            self.add(elsewhere)
            for beside in RunDirectory(elsewhere.resolve().parent).stages():
                self.add(elsewhere.resolve().parent / beside)
        if digest not in self.by_digest:
            return None
        return self.making(self.by_digest[digest][1])

    def making(self, manifest: Manifest) -> Making | None:
        """How a training stage made its taggers; None of any other stage.

        Raises:
            CrossNERError: Its manifest is broken.
        """
        try:
            return self._read_making(manifest)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CrossNERError(
                f"The manifest of the stage {manifest['name']!r} ({manifest['stage']}) is broken: {error!r}.",
                hint="Copy the run again, or train the stage again with --force.",
            ) from None

    def _read_making(self, manifest: Manifest) -> Making | None:
        options, result = manifest["options"], manifest["result"]
        seeds = result.get("seeds")
        if "method" not in options or not isinstance(seeds, dict):
            return None
        lineage = manifest.get("lineage", [])
        given = dict(setting.partition("=")[::2] for setting in options.get("settings", []))
        settings = {**options, **{name.strip().replace("-", "_"): value for name, value in given.items()}}
        settings |= result.get("settings", {})
        return Making(
            manifest["stage"], manifest["name"], options["method"], _encoder(options, settings, lineage, seeds),
            " > ".join(entry["name"] for entry in lineage if "stage" in entry) or "base",
            " > ".join([*(entry["stage"] for entry in lineage if entry.get("stage", ADAPT) != ADAPT),
                        manifest["stage"]]),
            self._train_sentences(manifest), self._corpus_share(lineage), settings,
            {seed: _dev_scores(record) for seed, record in seeds.items()},
        )  # fmt: skip

    def target_of(self, manifest: Manifest) -> str:
        """Name of the target a stage was made for; empty where its run no longer tells."""
        return str(self._prepared(manifest).get("domains", {}).get("target", {}).get("name", ""))

    def _prepared(self, manifest: Manifest) -> dict[str, Any]:
        _, prepared = self.by_digest.get(manifest["inputs"].get(PREPARE, ""), (None, None))
        return prepared["result"] if prepared else {}

    def _train_sentences(self, manifest: Manifest) -> int | None:
        """Of the target; manifests of older versions leave it to those of ``prepare-data``."""
        counts = manifest["result"].get("train_sentences")
        if isinstance(counts, dict):
            return int(counts.get("target", 0))
        if manifest["stage"] == "pretrain-source":
            return 0
        splits = self._prepared(manifest).get("domains", {}).get("target", {}).get("splits", {})
        return splits["train"]["sentences"] if "train" in splits else None

    def _corpus_share(self, lineage: Sequence[Mapping[str, str]]) -> float | None:
        adapted = [entry for entry in lineage if entry.get("stage") == ADAPT]
        if not adapted:
            return 0.0
        _, manifest = self.by_digest.get(adapted[-1]["digest"], (None, None))
        return float(manifest["options"].get("corpus_share", 1.0)) if manifest else None


def _encoder(
    options: Mapping[str, Any], settings: Mapping[str, Any], lineage: Sequence[Mapping[str, str]],
    seeds: Mapping[str, Any],
) -> str:  # fmt: skip
    """What reads the words: a transformer, or word vectors with or without one."""
    first = lineage[0] if lineage else {}
    transformer = first.get("encoder") or first.get("folder") or options["encoder"]
    has_rate = any(record.get("learning_rate") is not None for record in seeds.values() if isinstance(record, dict))
    # Older manifests tell a rate that was given for a transformer that is not trained, or not there.
    if has_rate and settings.get("transformer", "trained") == "trained":
        return str(transformer)
    is_read = settings.get("transformer", "none") != "none"
    return f"word vectors, {transformer} frozen" if is_read else "word vectors"


def _dev_scores(record: Any) -> list[float]:
    history = record.get("history", []) if isinstance(record, dict) else []
    return [float(epoch["score"]) for epoch in history if epoch.get("score") is not None]


def _read_run(place: Path, stages: _Stages, found: Found) -> None:
    """Take up one run, or one evaluate stage."""
    run = run_of(place)
    evaluations = find_evaluations(place)
    for evaluation in evaluations:
        result = evaluation.result
        size = (result.get("sentences") or 0, result.get("words") or 0)
        found.sizes.setdefault((result["domain"], result.get("split") or ""), {}).setdefault(size, evaluation.folder)
        unknown = []
        for model in evaluation.models():
            making = stages.of_model(model.label, model.tagger)
            if making is None:
                unknown.append(model.label)
            measured = Measured(
                run, evaluation.folder.name, result["domain"], result.get("split") or "", result["mode"],
                result.get("decoding", "trained"), model, making,
            )  # fmt: skip
            if not any(measured.is_again(other) for other in found.models):
                found.models.append(measured)
        if unknown:
            found.notes.append(f"{evaluation.folder}: no manifest tells how these were made: {', '.join(unknown)}.")
    if run == place:
        found.taggers += _taggers(run, stages)
        found.notes += _notes(run, bool(evaluations))


def _taggers(run: Path, stages: _Stages) -> Iterator[tuple[str, str, Making]]:
    for name in RunDirectory(run).stages():
        _, manifest = stages.by_digest[digest_file(run / name / MANIFEST)]
        making = stages.making(manifest)
        if making is not None:
            yield str(run), stages.target_of(manifest), making


def _notes(run: Path, is_evaluated: bool) -> list[str]:
    unfinished = sorted(path.name.removeprefix(DRAFT_PREFIX) for path in run.glob(f"{DRAFT_PREFIX}*"))
    notes = [f"{run}: unfinished and left out: {', '.join(unfinished)}."] if unfinished else []
    if not is_evaluated:
        finished = ", ".join(RunDirectory(run).stages()) or "none"
        notes.append(f"{run}: no finished {COMMAND} stage, so no test scores (finished stages: {finished}).")
    return notes
