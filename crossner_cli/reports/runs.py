"""Evaluated models and trained taggers of runs, read from manifests alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import CROSS_VALIDATE, EvaluatedModel, Evaluation, find_evaluations
from crossner_cli.run.directory import MANIFEST, Manifest, RunDirectory, digest_stage, read_manifest
from crossner_cli.run.records import read_result
from crossner_cli.run.results import EvaluateResult, SeedResult, TrainResult

ADAPT = "dapt"
PATHS_HINT = "Give run directories, a folder of them, or folders of evaluate stages."


@dataclass(frozen=True)
class Provenance:
    """The origin of the taggers of a training stage."""

    run: str
    stage: str  # the command
    name: str  # the folder in its run
    method: str
    encoder: str
    start: str  # the stages its weights came from, else ``base``
    regime: str  # the commands that trained taggers on the way, as ``pretrain-source > finetune``
    train_sentences: int  # of the target, labelled
    corpus_share: float | None  # of the raw corpus its encoder was adapted to; None if its run is not at hand
    settings: Mapping[str, Any]  # options of the stage and settings of the method
    seeds: Mapping[str, SeedResult]  # empty of those that were cross-validated


@dataclass(frozen=True)
class MeasuredModel:
    """An evaluated model; the provenance is None if no manifest has it."""

    run: Path
    stage: str
    result: EvaluateResult
    model: EvaluatedModel
    provenance: Provenance | None

    @property
    def label(self) -> str:
        """The name of the model in its evaluate stage."""
        return self.model.label

    @property
    def place(self) -> str:
        """The full name of the model."""
        return f"{self.run}/{self.stage}/{self.label}"

    @property
    def kind(self) -> tuple[str, str]:
        """The properties that two models must share to be compared: the target and the reading of tags."""
        return self.result.domain, self.result.mode

    def is_called(self, name: str) -> bool:
        """Return whether this is the end of its full name, with or without the evaluate stage."""
        return any(f"/{place}".endswith(f"/{name}") for place in (self.place, f"{self.run}/{self.label}"))


@dataclass
class Measurements:
    """The measurements of runs: evaluated models and the taggers of every training stage, in the order of the runs."""

    models: list[MeasuredModel] = field(default_factory=list)
    trained: list[Provenance] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_runs(paths: Sequence[Path]) -> Measurements:
    """Read run directories, folders of run directories, or folders of evaluate stages, each once.

    Raises:
        CrossNERError: A path is none of these, or a manifest is broken.
    """
    found, stages = Measurements(), Stages()
    places = {place.resolve(): place for path in paths for place in _find_places(path)}
    runs = {place: path.parent if _is_stage(path) else path for place, path in places.items()}
    for run in dict.fromkeys(runs.values()):
        stages.add_run(run)
    evaluations = {place: find_evaluations(path) for place, path in places.items()}
    known: set[Any] = set()
    for place, run in runs.items():
        for evaluation in evaluations[place]:
            for model in evaluation.models():
                # Two stages, with and without --against, may have scored the same taggers.
                result = evaluation.result
                scored = (result.domain, result.split, result.mode, result.decoding, model.label)
                f1 = tuple(scores.f1 for scores in model.scores.seeds.values())
                tagger = model.tagger or str(evaluation.folder.resolve())
                identity = (evaluation.folder.resolve().parent, *scored, tagger, f1)
                if identity not in known:
                    known.add(identity)
                    provenance = stages.provenance_of(model)
                    found.models.append(MeasuredModel(run, evaluation.folder.name, result, model, provenance))
        if not _is_stage(place):
            found.trained += stages.trained_in(run)
    found.notes += _unequal_sentences([each for several in evaluations.values() for each in several])
    return found


def _find_places(path: Path) -> list[Path]:
    """Find the run directories or the evaluate stage that a path stands for."""
    if _is_stage(path) or RunDirectory(path).stages():
        return [path]
    inside = [child for child in path.glob("*") if RunDirectory(child).stages()]
    if not inside:
        raise CrossNERError(f"{path} holds no finished stage, and no folder in it is a run directory.", hint=PATHS_HINT)
    return sorted(inside, key=lambda child: (len(child.name), child.name))  # 9 before 10


def _is_stage(path: Path) -> bool:
    return (path / MANIFEST).is_file()


class Stages:
    """The finished stages of runs by their digest, by which stages name what they were made from."""

    def __init__(self) -> None:
        self.manifests: dict[str, tuple[Path, Manifest]] = {}

    def add_run(self, run: Path) -> None:
        """Read every stage of a run."""
        for name in RunDirectory(run).stages():
            manifest = read_manifest(run / name)
            self.manifests[digest_stage(manifest)] = run, manifest

    def trained_in(self, run: Path) -> list[Provenance]:
        """Read the provenance of the taggers of each training stage of a run."""
        found = (self._provenance(RunDirectory(run).digest(name)) for name in RunDirectory(run).stages())
        return [provenance for provenance in found if provenance is not None]

    def provenance_of(self, model: EvaluatedModel) -> Provenance | None:
        """Find the provenance of an evaluated model, also of one of another run that is named by its path."""
        elsewhere = Path(model.label)
        if model.tagger not in self.manifests and _is_stage(elsewhere):
            self.add_run(elsewhere.resolve().parent)
        return self._provenance(model.tagger)

    def _provenance(self, digest: str) -> Provenance | None:
        """Read the provenance of a training stage; None for any other stage or an unknown one."""
        run, manifest = self.manifests.get(digest, (Path(), None))
        if manifest is None or not (manifest.get("taggers") or manifest["stage"] == CROSS_VALIDATE):
            return None
        options, lineage = manifest["options"], manifest.get("lineage", [])
        if manifest["stage"] == CROSS_VALIDATE:
            sentences, trained = read_result(manifest, EvaluateResult).sentences, None
        else:
            trained = read_result(manifest, TrainResult)
            sentences = trained.train_sentences.get("target", 0)
        settings = {**options, **(trained.settings if trained else {})}
        stages = [step for step in lineage if "stage" in step]
        first = lineage[0] if lineage else {}
        trainings = [step["stage"] for step in stages if step["stage"] != ADAPT]
        share: float | None = 0.0
        if adapted := [step for step in stages if step["stage"] == ADAPT]:
            _, adaptation = self.manifests.get(adapted[-1]["digest"], (None, None))
            share = None if adaptation is None else float(adaptation["options"].get("corpus_share", 1.0))
        return Provenance(
            run=str(run),
            stage=manifest["stage"],
            name=manifest["name"],
            method=options["method"],
            encoder=_describe_encoder(first.get("encoder") or first.get("folder") or options["encoder"], settings),
            start=" > ".join(step["name"] for step in stages) or "base",
            regime=" > ".join([*trainings, manifest["stage"]]),
            train_sentences=sentences,
            corpus_share=share,
            settings=settings,
            seeds=trained.seeds if trained else {},
        )


def _describe_encoder(transformer: str, settings: Mapping[str, Any]) -> str:
    """Name the inputs: a transformer, or word vectors with or without a frozen one."""
    use = settings.get("transformer", "trained")
    if use == "trained":
        return transformer
    return "word vectors" if use == "none" else f"word vectors, {transformer} {use}"


def _unequal_sentences(evaluations: Sequence[Evaluation]) -> list[str]:
    """Note each target and split whose evaluations differ in their numbers of sentences."""
    sizes: dict[tuple[str, str], dict[tuple[int, int], Path]] = {}
    for each in evaluations:
        of_split = sizes.setdefault((each.result.domain, each.result.split or ""), {})
        of_split.setdefault((each.result.sentences, each.result.words), each.folder)
    return [
        f"{target} {split} is not the same everywhere, so scores cannot be compared: "
        + "; ".join(f"{sentences:,} of {words:,} words in {at}" for (sentences, words), at in several.items())
        + "."
        for (target, split), several in sizes.items()
        if len(several) > 1
    ]
