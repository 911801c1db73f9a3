"""``crossner pretrain-source``, ``finetune`` and ``joint-train``: taggers on the sentences of one or both domains."""

from __future__ import annotations

import dataclasses
import json
import statistics
from pathlib import Path

from crossner_cli import figures
from crossner_cli.engine.devices import Engine
from crossner_cli.engine.processes import keep_freed_memory
from crossner_cli.evaluation.scores import score
from crossner_cli.methods.contract import Tagger
from crossner_cli.methods.multi_task import MultiTaskTagger
from crossner_cli.options import Optimisation
from crossner_cli.run.directory import Manifest, RunDirectory, Stage, read_manifest
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import SeedResult, StartCounts, TrainResult
from crossner_cli.run.storage import write_json
from crossner_cli.stages.recipe import Recipe, TaggerData, read_data, resolve_recipe
from crossner_cli.taggers.card import Provenance, TrainingFacts, write_tagger_card
from crossner_cli.taggers.carry_over import KnownWords, start_tagger
from crossner_cli.taggers.folder import save_tagger
from crossner_cli.taggers.known_words import collect_known_words
from crossner_cli.taggers.tagging import CALIBRATION, fit_calibration, keep_frozen_states, score_entities, tag
from crossner_cli.training.checkpoints import Checkpoints
from crossner_cli.training.loop import FitResult, fit
from crossner_cli.training.plan import Plan, Rates, group_parameters
from crossner_cli.training.raw_inputs import count_words
from crossner_cli.training.streams import Batching, make_streams


def run(run: RunDirectory, options: Optimisation, engine: Engine) -> Work[Manifest]:
    """Train one tagger a seed on the domains of the command, and leave their folders and a manifest.

    The tagger knows the types of all domains that it reads, and gives those of the first one to new text. With two
    domains, each target sentence counts ``--upsample`` times (Liu et al. 2021, 4.2); methods of several tasks read a
    batch of each in an update.

    Raises:
        CrossNERError: Anything a user can cause, before any work starts where it can be known then.
    """
    recipe = resolve_recipe(run, options, engine)
    with engine.open_stage(run, options.stage_request(options.command, recipe.digest_inputs())) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        yield Notice(f"{stage.name}: {engine.describe()}")
        if engine.on_cpu:
            keep_freed_memory()
        yield from (Notice(f"{stage.name}: {note}") for note in recipe.notes)
        data = yield from read_data(recipe)
        raw_words = data.raw.words() if data.raw else []
        known = yield from collect_known_words(
            recipe.design, recipe.prepared, data.sentences, data.tag_set, recipe.start, raw_words, options.seed
        )
        job = TrainingJob(stage, engine, recipe, data, known)
        records = {}
        for seed in recipe.seeds:
            folder = stage.draft / ("tagger" if len(recipe.seeds) == 1 else f"tagger-seed-{seed}")
            records[seed] = yield from job.train(seed, folder)
        result = dataclasses.asdict(job.summarise(records))
        return engine.on_main(lambda: stage.finish(result, lineage=recipe.start.lineage, device=engine.describe()))


class TrainingJob:
    """An open stage with all that one seed after the other is trained on."""

    def __init__(
        self, stage: Stage, engine: Engine, recipe: Recipe, data: TaggerData, known: KnownWords | None
    ) -> None:
        self.stage, self.engine, self.recipe, self.data, self.known = stage, engine, recipe, data, known
        self.plan, self.rates = recipe.options.make(Plan), recipe.options.make(Rates)
        self.batching = recipe.options.make(Batching)
        self.gold = [sentence.tags or () for sentence in data.dev]

    def train(self, seed: int, folder: Path) -> Work[SeedResult]:
        """Train one tagger, or take up one that an interrupted command had finished."""
        stage, engine, data, start = self.stage, self.engine, self.data, self.recipe.start
        task = figures.with_seed(stage.name, seed)
        done, checkpoints = folder / "training.json", Checkpoints(stage.draft / f"checkpoint-{seed}")
        if done.is_file():
            if engine.is_main:
                checkpoints.remove()  # the interruption may have come before this was over
            yield Notice(f"{task}: finished before the interruption.")
            record = json.loads(done.read_text(encoding="utf-8"))
            return SeedResult(**{**record, "start": StartCounts(**record["start"])})
        yield Notice(f"{task}: loading {self.recipe.design.encoder if start.folder is None else start.name}")
        tagger, carried = start_tagger(start, self.recipe.design, data.tag_set, seed, engine, self.known)
        start.check_unchanged(stage.command)
        yield Notice(f"{task}: {carried.describe()}")
        if isinstance(tagger, MultiTaskTagger):
            count_words(tagger, data.labelled, data.raw)
        raw = []
        if data.raw is not None:
            raw = self.batching.find_reread_files(data.raw, map(len, data.labelled.values()), self.plan)
        yield from keep_frozen_states(tagger, [*data.sentences, *data.dev], engine, task, raw)
        fitted = yield from fit(
            tagger,
            group_parameters(tagger, self.rates),
            make_streams(tagger, data.tasks, data.labelled, data.raw, self.batching, seed),
            self.plan,
            engine,
            score=lambda: self._score_dev(tagger),
            checkpoints=checkpoints,
            task=task,
        )
        result = self._describe(tagger, fitted, folder, carried.to_counts())
        calibration = fit_calibration(score_entities(self.gold, tag(tagger, data.dev, engine)))

        def save() -> None:
            found = {CALIBRATION: calibration.to_json()} if calibration.entities else {}
            save_tagger(tagger, folder, lineage=start.lineage, dev_f1=fitted.best, **found)
            self._write_card(tagger, folder, seed, result)
            write_json(done, dataclasses.asdict(result))  # last, since it says that all is there
            checkpoints.remove()

        engine.on_main(save)
        return result

    def _score_dev(self, tagger: Tagger) -> dict[str, float]:
        tagged = tag(tagger, self.data.dev, self.engine)
        return {"dev_f1": score(self.gold, [sentence.tags for sentence in tagged], mode="conll").f1}

    def _describe(self, tagger: Tagger, fitted: FitResult, folder: Path, start: StartCounts) -> SeedResult:
        reader = tagger.encoder.reader
        return SeedResult(
            folder=folder.name,
            learning_rate=self.rates.for_transformer(tagger.encoder),
            head_learning_rate=self.rates.for_head(tagger.encoder),
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

    def _write_card(self, tagger: Tagger, folder: Path, seed: int, result: SeedResult) -> None:
        """Write the model card of a tagger that has been saved."""
        recipe, data = self.recipe, self.data
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
        provenance = Provenance(self.stage.request, self.stage.name, recipe.start.lineage, manifest)
        write_tagger_card(folder, tagger, provenance, facts)

    def summarise(self, records: dict[int, SeedResult]) -> TrainResult:
        """Sum up the taggers of all seeds."""
        scores = [record.dev_f1 for record in records.values() if record.dev_f1 is not None]
        return TrainResult(
            seeds={str(seed): record for seed, record in records.items()},
            dev_f1=statistics.fmean(scores) if scores else None,
            dev_f1_deviation=statistics.stdev(scores) if len(scores) > 1 else None,
            start=next(iter(records.values())).start,
            train_sentences={role: len(sentences) for role, sentences in self.data.labelled.items()},
            settings=dataclasses.asdict(self.recipe.design.settings),
        )
