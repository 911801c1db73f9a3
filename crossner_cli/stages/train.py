"""The work that the three training stages share: the loop, the taggers' folders, the manifest."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crossner_cli import figures
from crossner_cli.engine.devices import Engine
from crossner_cli.engine.processes import keep_freed_memory
from crossner_cli.evaluation.scores import score
from crossner_cli.methods.contract import Tagger
from crossner_cli.methods.multi_task import MultiTaskTagger
from crossner_cli.options import Optimisation
from crossner_cli.run.directory import Manifest, RunDirectory, read_manifest
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import SeedResult, StartCounts, TrainResult
from crossner_cli.run.stage import Stage
from crossner_cli.run.storage import write_json
from crossner_cli.stages.recipe import Recipe, TaggerData, read_data, resolve_recipe
from crossner_cli.taggers.card import Provenance, TrainingFacts, write_tagger_card
from crossner_cli.taggers.carry_over import KnownWords, start_tagger
from crossner_cli.taggers.folder import save_tagger
from crossner_cli.taggers.known_words import collect_known_words
from crossner_cli.taggers.tagging import CALIBRATION, fit_calibration, keep_frozen_states, score_entities, tag
from crossner_cli.training.checkpoints import Checkpoints
from crossner_cli.training.loop import FitResult, fit
from crossner_cli.training.plan import group_parameters
from crossner_cli.training.raw_inputs import count_words
from crossner_cli.training.streams import make_streams


@dataclass(frozen=True)
class TrainingJob:
    """An open stage with all that one seed after the other is trained on."""

    stage: Stage
    engine: Engine
    recipe: Recipe
    data: TaggerData
    known: KnownWords | None


def train_stage(
    run: RunDirectory, options: Optimisation, engine: Engine, command: str, roles: Sequence[str]
) -> Work[Manifest]:
    """Train one tagger a seed and leave their folders and a manifest.

    Args:
        run: The run directory.
        options: The options of the command.
        engine: Devices and processes.
        command: The stage's name.
        roles: The domains it reads, whose types the tagger knows; the first one's are given to new text.

    Raises:
        CrossNERError: Anything a user can cause, before any work starts where it can be known then.
    """
    recipe = resolve_recipe(run, options, engine, command, roles)
    stage = engine.open_stage(run, options.stage_request(command, recipe.digest_inputs()))
    with stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        yield Notice(f"{stage.name}: {engine.describe()}")
        if engine.on_cpu:
            keep_freed_memory()
        yield from (Notice(f"{stage.name}: {note}") for note in recipe.notes)
        data = yield from read_data(recipe, command)
        raw_words = data.raw.words() if data.raw else []
        known = yield from collect_known_words(
            recipe.design, recipe.prepared, data.sentences, data.tag_set, recipe.start, raw_words, options.seed
        )
        job = TrainingJob(stage, engine, recipe, data, known)
        records = {}
        for seed in recipe.seeds:
            folder = stage.draft / ("tagger" if len(recipe.seeds) == 1 else f"tagger-seed-{seed}")
            records[str(seed)] = yield from _train_seed(job, seed, folder)
        result = dataclasses.asdict(_summarise(job, records))
        return engine.on_main(lambda: stage.finish(result, lineage=recipe.start.lineage, device=engine.describe()))


def _train_seed(job: TrainingJob, seed: int, folder: Path) -> Work[SeedResult]:
    """Train one tagger, or take up one that an interrupted command had finished."""
    stage, engine, data, start = job.stage, job.engine, job.data, job.recipe.start
    task = figures.with_seed(stage.name, seed)
    done, checkpoints = folder / "training.json", Checkpoints(stage.draft / f"checkpoint-{seed}")
    if done.is_file():
        if engine.is_main:
            checkpoints.remove()  # the interruption may have come before this was over
        yield Notice(f"{task}: finished before the interruption.")
        return _read_seed_result(done)
    yield Notice(f"{task}: loading {job.recipe.design.encoder if start.folder is None else start.name}")
    tagger, carried = start_tagger(start, job.recipe.design, data.tag_set, seed, engine, job.known)
    start.check_unchanged(stage.command)
    yield Notice(f"{task}: {carried.describe()}")
    if isinstance(tagger, MultiTaskTagger):
        count_words(tagger, data.labelled, data.raw)
    raw = []
    if data.raw is not None:
        counts = map(len, data.labelled.values())
        raw = job.recipe.batching.find_reread_files(data.raw, counts, job.recipe.plan)
    yield from keep_frozen_states(tagger, [*data.sentences, *data.dev], engine, task, raw)
    fitted = yield from _fit(job, tagger, seed, checkpoints, task)
    result = _describe_training(job, tagger, fitted, folder, carried.to_counts())
    gold = [sentence.tags or () for sentence in data.dev]
    calibration = fit_calibration(score_entities(gold, tag(tagger, data.dev, engine)))

    def save() -> None:
        found = {CALIBRATION: calibration.to_json()} if calibration.entities else {}
        save_tagger(tagger, folder, lineage=start.lineage, dev_f1=fitted.best, **found)
        _write_card(job, tagger, folder, seed, result)
        write_json(done, dataclasses.asdict(result))  # last, since it says that all is there
        checkpoints.remove()

    engine.on_main(save)
    return result


def _fit(job: TrainingJob, tagger: Tagger, seed: int, checkpoints: Checkpoints, task: str) -> Work[FitResult]:
    """Train a tagger and leave the weights of the epoch that is kept."""
    recipe, data, dev = job.recipe, job.data, job.data.dev
    gold = [sentence.tags or () for sentence in dev]

    def score_dev() -> dict[str, float]:
        tagged = tag(tagger, dev, job.engine)
        return {"dev_f1": score(gold, [sentence.tags for sentence in tagged], mode="conll").f1}

    return (
        yield from fit(
            tagger,
            group_parameters(tagger, recipe.rates),
            make_streams(tagger, data.tasks, data.labelled, data.raw, recipe.batching, seed),
            recipe.plan,
            job.engine,
            score=score_dev,
            checkpoints=checkpoints,
            task=task,
        )
    )


def _describe_training(
    job: TrainingJob, tagger: Tagger, fitted: FitResult, folder: Path, start: StartCounts
) -> SeedResult:
    rates, reader = job.recipe.rates, tagger.encoder.reader
    return SeedResult(
        folder=folder.name,
        learning_rate=rates.for_transformer(tagger.encoder),
        head_learning_rate=rates.for_head(tagger.encoder),
        dev_f1=fitted.best,
        epoch=fitted.best_epoch,
        epochs=len(fitted.history),
        updates=fitted.steps,
        words_per_second=round(fitted.words_per_second),
        start=start,
        unreadable_words=reader.unreadable_words,
        shortened_words=reader.shortened_words,
        history=[*fitted.history],
    )


def _read_seed_result(path: Path) -> SeedResult:
    record = json.loads(path.read_text(encoding="utf-8"))
    return SeedResult(**{**record, "start": StartCounts(**record["start"])})


def _write_card(job: TrainingJob, tagger: Tagger, folder: Path, seed: int, result: SeedResult) -> None:
    """Write the model card of a tagger that has been saved."""
    recipe, data = job.recipe, job.data
    manifest = read_manifest(recipe.prepared.folder)
    facts = TrainingFacts(
        labelled=data.labelled,
        raw=data.raw.describe() if data.raw else [],
        dev=manifest["result"]["domains"][recipe.options.select_on]["name"],
        dev_sentences=len(data.dev),
        seed=seed,
        seeds=recipe.seeds,
        result=result,
    )
    provenance = Provenance(job.stage.request, job.stage.name, recipe.start.lineage, manifest)
    write_tagger_card(folder, tagger, provenance, facts)


def _summarise(job: TrainingJob, records: dict[str, SeedResult]) -> TrainResult:
    scores = [record.dev_f1 for record in records.values() if record.dev_f1 is not None]
    return TrainResult(
        seeds=records,
        dev_f1=statistics.fmean(scores) if scores else None,
        dev_f1_deviation=statistics.stdev(scores) if len(scores) > 1 else None,
        start=next(iter(records.values())).start,
        train_sentences={role: len(sentences) for role, sentences in job.data.labelled.items()},
        settings=dataclasses.asdict(job.recipe.design.settings),
    )
