"""Evaluated models and trained taggers of runs, read from manifests alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import COMMAND as EVALUATE
from crossner_cli.evaluation.finished import EvaluatedModel, Evaluation, find_evaluations
from crossner_cli.run.directory import MANIFEST, PREPARED, Manifest, RunDirectory, read_manifest
from crossner_cli.run.results import ModelResult, PrepareDataResult, TrainResult, read_result
from crossner_cli.run.storage import digest_file

ADAPT, TRAINING = "dapt", ("pretrain-source", "finetune", "joint-train")
DRAFT_PREFIX = ".draft-"
WHAT_TO_GIVE = "Give run directories, a folder of them, or folders of evaluate stages."


@dataclass(frozen=True)
class Provenance:
    """The origin of a tagger.

    Args:
        run: Its run directory.
        stage: The command that trained it.
        name: Its folder in its run.
        target: The target of its run; empty where the data are not at hand.
        method: The tagging method.
        encoder: What reads the words.
        start: The stages its weights came from, else ``base``.
        regime: The commands that trained taggers on the way, as ``pretrain-source > finetune``.
        train_sentences: Labelled sentences of the target it was trained on.
        corpus_share: Share of the raw corpus its encoder was adapted to, 0 without; None if its run is not at hand.
        settings: Options of the stage and settings of the method, by name.
        history: Dev F1 after each epoch, by seed.
    """

    run: str
    stage: str
    name: str
    target: str
    method: str
    encoder: str
    start: str
    regime: str
    train_sentences: int
    corpus_share: float | None
    settings: Mapping[str, Any]
    history: Mapping[str, list[float]]


@dataclass(frozen=True)
class MeasuredModel:
    """An evaluated model.

    Args:
        run: The run directory.
        stage: The folder of the evaluate stage.
        target: The domain it was scored on.
        split: Of the target; empty where two files were scored.
        mode: How broken tags were read.
        decoding: How tags were decoded.
        model: Its label and predictions.
        scores: Its scores.
        provenance: How it was made; None where no manifest tells.
    """

    run: Path
    stage: str
    target: str
    split: str
    mode: str
    decoding: str
    model: EvaluatedModel
    scores: ModelResult
    provenance: Provenance | None

    @property
    def label(self) -> str:
        """The name of the model in its evaluate stage."""
        return self.model.label

    def identity(self) -> tuple[Any, ...] | None:
        """Equal for two stages, with and without ``--against``, that scored the same taggers alike."""
        f1 = tuple(scores.f1 for scores in self.scores.seeds.values())
        what = (self.run, self.target, self.split, self.mode, self.decoding, self.label, self.model.tagger, f1)
        return what if self.model.tagger else None

    def rows(self) -> list[dict[str, Any]]:
        """A record a seed: place, scores and provenance."""
        made = ("method", "encoder", "start", "regime", "train_sentences", "corpus_share")
        place: dict[str, Any] = {"run": str(self.run), "stage": self.stage, "model": self.label}
        place |= {name: getattr(self, name) for name in ("target", "split", "mode", "decoding")}
        place |= {name: getattr(self.provenance, name, None) for name in made}
        measures = ("f1", "precision", "recall", "macro_f1")
        return [
            {**place, "seed": seed, **{name: getattr(scores, name) for name in measures}}
            for seed, scores in self.scores.seeds.items()
        ]


@dataclass
class Measurements:
    """The measurements of runs.

    Args:
        models: Evaluated models, in the order of the runs.
        trained: The taggers of every training stage.
        notes: What is missing, unfinished or not comparable.
    """

    models: list[MeasuredModel] = field(default_factory=list)
    trained: list[Provenance] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_runs(paths: Sequence[Path]) -> Measurements:
    """Read run directories, folders of run directories, or folders of evaluate stages.

    Raises:
        CrossNERError: A path is none of these, or a manifest is broken.
    """
    found = Measurements()
    places = find_places(paths)
    stages = StagesByDigest()
    for run in dict.fromkeys(map(run_of, places)):
        stages.add_run(run)
    evaluations = {place: find_evaluations(place) for place in places}
    for place in places:
        _read_evaluations(run_of(place), evaluations[place], stages, found)
        if run_of(place) == place:
            found.trained += stages.trained_in(place)
            found.notes += _notes(place, bool(evaluations[place]))
    found.notes += _unequal_sentences([each for several in evaluations.values() for each in several])
    return found


def find_places(paths: Sequence[Path]) -> list[Path]:
    """Find the run directories and evaluate stages that paths stand for, each once.

    Raises:
        CrossNERError: A path is neither, nor a folder of run directories.
    """
    named: dict[Path, Path] = {}
    for path in paths:
        for place in _expand(path):
            named.setdefault(place.resolve(), place)
    # A stage belongs to its run where the run is given too.
    return [place for found, place in named.items() if found.parent not in named or not _is_stage(place)]


def run_of(place: Path) -> Path:
    """Return the run directory of a stage's folder, or of a run directory itself."""
    return place.parent if _is_stage(place) else place


def _expand(path: Path) -> list[Path]:
    if not path.is_dir():
        raise CrossNERError(f"{path} is no run directory: there is no such folder.", hint=WHAT_TO_GIVE)
    if _is_stage(path) or _is_run(path):
        return [path]
    inside = sorted((child for child in path.iterdir() if child.is_dir() and _is_run(child)), key=_by_number)
    if not inside:
        raise CrossNERError(
            f"{path} holds no finished stage, and no folder in it is a run directory.", hint=WHAT_TO_GIVE
        )
    return inside


def _is_stage(path: Path) -> bool:
    return (path / MANIFEST).is_file()


def _is_run(path: Path) -> bool:
    return bool(RunDirectory(path).stages()) or any(path.glob(f"{DRAFT_PREFIX}*"))


def _by_number(path: Path) -> tuple[float, str]:
    """Sort folders named by a number in its order, the others behind."""
    return (float(path.name) if path.name.replace(".", "", 1).isdecimal() else float("inf"), path.name)


class StagesByDigest:
    """The finished stages of runs by the digest of their manifests, by which stages name what they were made from."""

    def __init__(self) -> None:
        self.manifests: dict[str, tuple[Path, Manifest]] = {}

    def add_run(self, run: Path) -> None:
        """Read every stage of a run."""
        for name in RunDirectory(run).stages():
            self.manifests[digest_file(run / name / MANIFEST)] = run, read_manifest(run / name)

    def trained_in(self, run: Path) -> list[Provenance]:
        """Tell how the taggers of each training stage of a run were made."""
        digests = (digest_file(run / name / MANIFEST) for name in RunDirectory(run).stages())
        found = (self._provenance(digest) for digest in digests)
        return [provenance for provenance in found if provenance is not None]

    def provenance_of(self, model: EvaluatedModel) -> Provenance | None:
        """Tell how an evaluated model was made, also one of another run that is named by its path."""
        elsewhere = Path(model.label)
        if model.tagger not in self.manifests and (elsewhere / MANIFEST).is_file():
            self.add_run(elsewhere.resolve().parent)
        return self._provenance(model.tagger)

    def _provenance(self, digest: str) -> Provenance | None:
        """Read how a training stage made its taggers; None of any other stage or an unknown one."""
        run, manifest = self.manifests.get(digest, (Path(), None))
        if manifest is None or manifest["stage"] not in TRAINING:
            return None
        options, lineage = manifest["options"], manifest.get("lineage", [])
        result = read_result(manifest, TrainResult)
        settings = {**options, **result.settings}
        stages = [step for step in lineage if "stage" in step]
        first = lineage[0] if lineage else {}
        trainings = [step["stage"] for step in stages if step["stage"] != ADAPT]
        return Provenance(
            run=str(run),
            stage=manifest["stage"],
            name=manifest["name"],
            target=self._target_of(manifest),
            method=options["method"],
            encoder=_describe_encoder(first.get("encoder") or first.get("folder") or options["encoder"], settings),
            start=" > ".join(step["name"] for step in stages) or "base",
            regime=" > ".join([*trainings, manifest["stage"]]),
            train_sentences=result.train_sentences.get("target", 0),
            corpus_share=self._corpus_share(stages),
            settings=settings,
            history={
                seed: [float(epoch["score"]) for epoch in trained.history if epoch.get("score") is not None]
                for seed, trained in result.seeds.items()
            },
        )

    def _target_of(self, manifest: Manifest) -> str:
        """Return the target of the data that a stage was made from."""
        _, prepared = self.manifests.get(manifest["inputs"].get(PREPARED, ""), (None, None))
        domains = read_result(prepared, PrepareDataResult).domains if prepared else {}
        return domains["target"].name if "target" in domains else ""

    def _corpus_share(self, stages: Sequence[Mapping[str, str]]) -> float | None:
        adapted = [step for step in stages if step["stage"] == ADAPT]
        if not adapted:
            return 0.0
        _, manifest = self.manifests.get(adapted[-1]["digest"], (None, None))
        return None if manifest is None else float(manifest["options"].get("corpus_share", 1.0))


def _describe_encoder(transformer: str, settings: Mapping[str, Any]) -> str:
    """Name what reads the words: a transformer, or word vectors with or without a frozen one."""
    use = settings.get("transformer", "trained")
    if use == "trained":
        return transformer
    return "word vectors" if use == "none" else f"word vectors, {transformer} {use}"


def _read_evaluations(
    run: Path, evaluations: Sequence[Evaluation], stages: StagesByDigest, found: Measurements
) -> None:
    """Add the models of a run's evaluate stages."""
    known = {model.identity() for model in found.models} - {None}
    for evaluation in evaluations:
        result = evaluation.result
        unknown = []
        for model in evaluation.models():
            provenance = stages.provenance_of(model)
            measured = MeasuredModel(
                run=run,
                stage=evaluation.folder.name,
                target=result.domain,
                split=result.split or "",
                mode=result.mode,
                decoding=result.decoding,
                model=model,
                scores=model.scores,
                provenance=provenance,
            )
            if provenance is None:
                unknown.append(model.label)
            if measured.identity() not in known:
                found.models.append(measured)
                known |= {measured.identity()} - {None}
        if unknown:
            found.notes.append(f"{evaluation.folder}: no manifest tells how these were made: {', '.join(unknown)}.")


def _notes(run: Path, is_evaluated: bool) -> list[str]:
    unfinished = sorted(path.name.removeprefix(DRAFT_PREFIX) for path in run.glob(f"{DRAFT_PREFIX}*"))
    notes = [f"{run}: unfinished and left out: {', '.join(unfinished)}."] if unfinished else []
    if not is_evaluated:
        finished = ", ".join(RunDirectory(run).stages()) or "none"
        notes.append(f"{run}: no finished {EVALUATE} stage, so no test scores (finished stages: {finished}).")
    return notes


def _unequal_sentences(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Note each target and split whose sentences are not as many in every evaluation."""
    sizes: dict[tuple[str, str], dict[tuple[int, int], Path]] = {}
    for evaluation in evaluations:
        result = evaluation.result
        of_split = sizes.setdefault((result.domain, result.split or ""), {})
        of_split.setdefault((result.sentences, result.words), evaluation.folder)
    for (target, split), several in sizes.items():
        if len(several) > 1:
            counts = "; ".join(
                f"{sentences:,} of {words:,} words in {at}" for (sentences, words), at in several.items()
            )
            yield f"{target} {split} is not the same everywhere, so scores cannot be compared: {counts}."
