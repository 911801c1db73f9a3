"""``crossner pretrain-source``, ``finetune`` and ``joint-train``: taggers on the sentences of one or both domains."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli import figures
from crossner_cli.data.sentences import SILVER, PreparedData, Sentence
from crossner_cli.data.tags import TagSet, types_of
from crossner_cli.encoders.start import Start, TaggerDesign
from crossner_cli.engine.devices import Engine
from crossner_cli.engine.processes import keep_freed_memory
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import Scores, score
from crossner_cli.methods.contract import Tagger, find_method, read_settings
from crossner_cli.methods.inputs import TrainingInputs, TrainingStage
from crossner_cli.options import JointTrain, Optimisation, TargetOptimisation
from crossner_cli.run.directory import Manifest, RunDirectory, read_manifest
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.records import read_result
from crossner_cli.run.results import CarryOver, PrepareDataResult, SeedResult, TrainResult
from crossner_cli.run.stage import Stage
from crossner_cli.stages.checks import parse_seeds
from crossner_cli.taggers.card import ModelOrigin, TrainingFacts, write_tagger_card
from crossner_cli.taggers.carry_over import check_start, note_on_settings, reads_transformer, start_tagger
from crossner_cli.taggers.description import CALIBRATION, THRESHOLDS
from crossner_cli.taggers.folder import save_tagger
from crossner_cli.taggers.sources import find_start, notes_on_start
from crossner_cli.taggers.tagging import (
    Tagged,
    fit_calibration,
    keep_frozen_states,
    score_entities,
    tag,
    tag_in_int8,
)
from crossner_cli.taggers.thresholds import find_thresholds
from crossner_cli.training.checkpoints import Checkpoints, TrainedDraft
from crossner_cli.training.loop import FitResult, fit
from crossner_cli.training.plan import Plan, Rates, group_parameters, note_on_dev, note_on_language
from crossner_cli.training.streams import Batching, make_streams


def run(run: RunDirectory, options: Optimisation, engine: Engine) -> Work[Manifest]:
    """Train one tagger per seed on the domains of the command, and leave their folders and a manifest.

    The tagger knows the types of all domains that it reads, and gives those of the first to new text. With two domains,
    each target sentence counts ``--upsample`` times (Liu et al. 2021, 4.2); some methods read a batch of each in an
    update.
    """
    recipe = resolve_recipe(run, options, engine.world)
    with engine.open_stage(run, options.stage_request(recipe.digest_inputs())) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        yield from begin_training(stage, engine, recipe)
        data = yield from read_data(recipe)
        job = TrainingJob(stage, engine, recipe)
        records = {}
        for seed in recipe.seeds:
            folder = stage.draft / ("tagger" if len(recipe.seeds) == 1 else f"tagger-seed-{seed}")
            records[seed] = yield from job.train(data, seed, folder)
        result = dataclasses.asdict(summarise_seeds(records, recipe, data))
        return engine.on_main(lambda: stage.finish(result, lineage=recipe.start.lineage, device=engine.describe()))


def begin_training(stage: Stage, engine: Engine, recipe: Recipe) -> Work[None]:
    """Say on which device the stage trains and what is noted of its options; prepare the memory of a CPU."""
    yield Notice(f"{stage.name}: {engine.describe()}")
    if engine.on_cpu:
        keep_freed_memory()
    yield from (Notice(f"{stage.name}: {note}") for note in recipe.notes)


@dataclass(frozen=True)
class Recipe:
    """Everything that a training reads, resolved and checked before any work."""

    options: Optimisation
    design: TaggerDesign
    inputs: TrainingInputs
    seeds: Sequence[int]
    prepared: PreparedData
    start: Start
    notes: Sequence[str]

    @property
    def has_silver(self) -> bool:
        """Return whether sentences that a teacher labelled are read, which needs mixed domains."""
        weight = self.options.silver_weight if isinstance(self.options, TargetOptimisation) else 0.0
        return weight > 0 and self.inputs.mixes and SILVER in self.prepared.domains

    def digest_inputs(self) -> dict[str, str]:
        """Digest all that is read."""
        data = self.prepared.inputs(*self.read_files())
        return {**data, self.start.name: self.start.digest, **self.inputs.digest_files()}

    def read_files(self) -> list[str]:
        """List the prepared files that the stage reads."""
        roles = self.options.roles
        files = [f"{role}/{file}" for role in roles for file in ("train.jsonl", "types.json")]
        files += [f"{SILVER}/train.jsonl"] if self.has_silver else []
        files += [f"{self.options.select_on}/dev.jsonl", *self.inputs.list_prepared_files()]
        return list(dict.fromkeys(files))


@dataclass(frozen=True)
class TaggerData:
    """The labelled sentences by role that a tagger is trained on; ``dev`` chooses the best epoch."""

    tag_set: TagSet
    labelled: Mapping[str, Sequence[Sentence]]
    dev: Sequence[Sentence]

    @property
    def sentences(self) -> list[Sentence]:
        """The labelled sentences of all roles."""
        return [sentence for sentences in self.labelled.values() for sentence in sentences]

    @property
    def types(self) -> Sequence[str]:
        """The types whose labels are learnt: the tag set may hold further domains."""
        taught = types_of([sentence.tags or () for sentence in self.sentences])
        return [kind for kind in self.tag_set.types if kind in taught]


def resolve_recipe(run: RunDirectory, options: Optimisation, processes: int) -> Recipe:
    """Resolve the options of a training stage, and refuse all problems that show before any work."""
    command, roles = options.command, options.roles
    seeds = parse_seeds(options)
    method = find_method(options.method)
    settings = read_settings(method, options.settings)
    design = TaggerDesign(options.method, settings, options.attention_dropout, options.word_shapes)
    prepared = PreparedData.load(run, wanted_by=command)
    encoder = options.encoder if reads_transformer(design) else None
    start = find_start(run, options.start_from, encoder, wanted_by=command)
    check_start(design, start)
    inputs = method.inputs_class(TrainingStage(command, roles, design, start, prepared, options.seed))
    design = dataclasses.replace(design, settings=inputs.settings)
    if not inputs.mixes and processes > 1:
        raise CrossNERError(
            f"{options.method} trains in one process, and there are {processes}.", hint="Name one GPU: --gpus 0."
        )
    for role in roles:
        domain = prepared.domain(role, wanted_by=command)
        if role in inputs.roles:
            domain.check_has("train")
    if options.chooses_on_dev:
        prepared.domain(options.select_on, wanted_by=f"{command} --select-on").check_has("dev")
    of_target = options if isinstance(options, TargetOptimisation) else None
    if of_target and of_target.silver_weight not in (0.0, 1.0) and SILVER not in prepared.domains:
        raise CrossNERError(
            "--silver-weight has no effect: the run has no silver sentences.",
            hint="crossner prepare-data … --silver DIR; or leave it out.",
        )
    notes = (*notes_on_start(start, run, encoder), note_on_settings(design, start), note_on_seeds(start, seeds))
    said = [*(note for note in notes if note), *inputs.notes]
    return Recipe(options, design, inputs, seeds, prepared, start, said)


def note_on_seeds(start: Start, seeds: Sequence[int]) -> str | None:
    """Return a note on seeds that the start lacks: they begin with the same weights and differ too little."""
    others = [seed for seed in seeds if seed not in start.seeds]
    if not start.seeds or not others:
        return None
    stand_in = next(seed for seed, folder in start.seeds.items() if folder == start.folder_for(others[0]))
    return (
        f"{start.name} has no seed {', '.join(map(str, others))}: its seed {stand_in}, the best on dev, stands in"
        + (", so these seeds differ less than whole chains would." if len(seeds) > 1 else ".")
    )


def read_data(recipe: Recipe) -> Work[TaggerData]:
    """Read the labelled sentences of the domains that are learnt, and the method's further inputs."""
    prepared, options, inputs = recipe.prepared, recipe.options, recipe.inputs
    command = options.command
    labelled = {role: prepared.domain(role, wanted_by=command).sentences("train") for role in inputs.roles}
    if recipe.has_silver:
        target = prepared.domains["target"].name
        silver = prepared.domains[SILVER].sentences("train")
        labelled[SILVER] = [dataclasses.replace(sentence, domain=target) for sentence in silver]
    elif not inputs.mixes and SILVER in prepared.domains:
        yield Notice(f"{command}: {options.method} learns several tasks and reads no silver sentences.")
    chosen = prepared.domains.get(options.select_on)
    dev = chosen.sentences("dev") if chosen and chosen.has("dev") else []
    data = TaggerData(inputs.make_tag_set(), labelled, dev)
    yield from inputs.read(labelled, data.tag_set)
    notes = note_on_dev(dev, data.types, options.select_on) if options.keep == "best" else []
    yield from (Notice(f"{command}: {note}") for note in notes)
    return data


@dataclass(frozen=True)
class FittedTagger:
    """A trained tagger in memory.

    ``dev`` are the sentences that it was scored on, empty if the last epoch is kept without them, and ``tagged`` their
    tags by the kept weights.
    """

    tagger: Tagger
    seed: int
    carried: CarryOver
    fit: FitResult
    dev: Sequence[Sentence]
    tagged: Sequence[Tagged]

    @property
    def gold(self) -> list[Sequence[str]]:
        """The gold tags of the dev sentences."""
        return [sentence.tags or () for sentence in self.dev]


class TrainingJob:
    """An open stage with everything that its taggers are trained with."""

    def __init__(self, stage: Stage, engine: Engine, recipe: Recipe) -> None:
        self.stage, self.engine, self.recipe = stage, engine, recipe
        self.plan, self.rates = make_plan(recipe.options), make_rates(recipe.options)
        self.batching = make_batching(recipe.options)
        self.has_noted_language = False

    def train(self, data: TaggerData, seed: int, folder: Path) -> Work[SeedResult]:
        """Train and keep the tagger of a seed, or take over one that an interrupted command finished."""
        task = figures.with_seed(self.stage.name, seed)
        record, checkpoints = TrainedDraft(folder), Checkpoints(self.stage.draft / f"checkpoint-{seed}")
        result = record.read(SeedResult)
        if result is None:
            fitted = yield from self.fit_tagger(data, seed, task, checkpoints)
            result = self.describe(fitted, folder)
            self.engine.on_main(lambda: self.keep(fitted, folder, data, result))
            self.engine.on_main(lambda: record.write(result))  # last, since it says that everything is written
        else:
            yield Notice(f"{task}: finished before the interruption.")
        self.engine.on_main(checkpoints.remove)  # the interruption may have come before this was finished
        return result

    def fit_tagger(
        self, data: TaggerData, seed: int, task: str, checkpoints: Checkpoints | None = None
    ) -> Work[FittedTagger]:
        """Train a tagger without saving it.

        Args:
            data: Sentences to train on and to score on; without dev sentences there are no scores.
            seed: Of all random choices; the start may have weights of each seed.
            task: Name for the progress.
            checkpoints: Checkpoints to continue from after an interruption; None without any.

        Raises:
            CrossNERError: No weight of the start fits, or it has changed; or the loss is not finite.
        """
        engine, recipe, start, inputs = self.engine, self.recipe, self.recipe.start, self.recipe.inputs
        yield Notice(f"{task}: loading {start.encoder or start.name}")
        tagger, carried = start_tagger(start, recipe.design, data.tag_set, seed, engine, inputs.known)
        start.check_unchanged(self.stage.command)
        yield Notice(f"{task}: {carried.describe(verbose=recipe.options.verbose)}")
        if not self.has_noted_language:
            self.has_noted_language = True
            yield from (Notice(f"{self.stage.name}: {note}") for note in note_on_language(tagger, recipe.prepared))
        inputs.begin(tagger, data.labelled)
        updates = self.batching.count_updates(map(len, data.labelled.values()), self.plan)
        yield from keep_frozen_states(
            tagger, [*data.sentences, *data.dev], engine, task, inputs.find_reread_texts(updates)
        )
        gold = [sentence.tags or () for sentence in data.dev]
        last: list[Tagged] = []  # the tags of dev at the last scoring

        def score_dev() -> dict[str, float]:
            last[:] = tag(tagger, data.dev, engine)
            return {"dev_f1": score_tags(gold, last).f1}

        fitted = yield from fit(
            tagger,
            group_parameters(tagger, self.rates),
            make_streams(tagger, inputs, data.labelled, self.batching, seed),
            self.plan,
            engine,
            score=score_dev if data.dev else None,
            checkpoints=checkpoints,
            task=task,
        )
        tagged = (fitted.best_epoch == len(fitted.history) and last) or tag(tagger, data.dev, engine)
        return FittedTagger(tagger, seed, carried, fitted, data.dev, tagged)

    def describe(self, fitted: FittedTagger, folder: Path) -> SeedResult:
        """Describe a training, and score the tagger on dev as it is and in int8."""
        tagger, fit, reader = fitted.tagger, fitted.fit, fitted.tagger.encoder.reader
        is_scored = fit.best is not None
        dev = score_tags(fitted.gold, fitted.tagged)
        in_int8 = tag_in_int8(tagger, fitted.dev, self.engine) if is_scored else None
        return SeedResult(
            folder=folder.name,
            learning_rate=self.rates.for_transformer(tagger.encoder),
            head_learning_rate=self.rates.for_head(tagger.encoder),
            dev_f1=fit.best,
            epoch=fit.best_epoch,
            epochs=len(fit.history),
            updates=fit.steps,
            words_per_second=round(fit.words_per_second),
            start=fitted.carried,
            unreadable_words=reader.unreadable_words,
            shortened_words=reader.shortened_words,
            history=[*fit.history],
            dev_precision=dev.precision if is_scored else None,
            dev_recall=dev.recall if is_scored else None,
            dev_f1_int8=score_tags(fitted.gold, in_int8).f1 if in_int8 else None,
            differently_cut=reader.differently_cut,
        )

    def keep(self, fitted: FittedTagger, folder: Path, data: TaggerData, result: SeedResult) -> None:
        """Save a tagger with its calibration and its model card."""
        recipe = self.recipe
        entities = score_entities(fitted.gold, fitted.tagged)
        found: dict[str, Any] = {}
        if entities:
            found = {CALIBRATION: fit_calibration(entities).to_json(), THRESHOLDS: find_thresholds(entities)}
        save_tagger(fitted.tagger, folder, lineage=recipe.start.lineage, dev_f1=fitted.fit.best, **found)
        prepared = read_result(read_manifest(recipe.prepared.folder), PrepareDataResult)
        scored_on = recipe.prepared.domains.get(recipe.options.select_on)
        facts = TrainingFacts(
            labelled=data.labelled,
            raw=recipe.inputs.describe_raw_text(),
            dev=scored_on.name if scored_on else "",
            dev_sentences=len(fitted.dev),
            seed=fitted.seed,
            seeds=recipe.seeds,
            result=result,
        )
        provenance = ModelOrigin(self.stage.request, self.stage.name, recipe.start.lineage, prepared)
        write_tagger_card(folder, fitted.tagger, provenance, facts)


def make_plan(options: Optimisation) -> Plan:
    """Make the plan of a training."""
    return Plan(
        epochs=options.epochs,
        max_steps=options.max_steps,
        schedule=options.schedule,
        warmup=options.warmup,
        clip_norm=options.clip_norm,
        accumulate=options.accumulate,
        patience=options.patience,
        keep=options.keep,
        checkpoint_every=options.checkpoint_every,
    )


def make_rates(options: Optimisation) -> Rates:
    """Make the learning rates of a training."""
    return Rates(
        learning_rate=options.learning_rate,
        head_learning_rate=options.head_learning_rate,
        weight_decay=options.weight_decay,
        train_embeddings=options.train_embeddings,
    )


def make_batching(options: Optimisation) -> Batching:
    """Make the batching: the sentences of an update, and how often each is read in a pass."""
    if not isinstance(options, TargetOptimisation):
        return Batching(batch_size=options.batch_size)
    return Batching(
        batch_size=options.batch_size,
        upsample=options.upsample if isinstance(options, JointTrain) else 1,
        silver_weight=options.silver_weight,
        replace_mentions=options.replace_mentions,
    )


def summarise_seeds(records: Mapping[int, SeedResult], recipe: Recipe, data: TaggerData) -> TrainResult:
    """Summarise the taggers of all seeds."""
    scores = [record.dev_f1 for record in records.values() if record.dev_f1 is not None]
    return TrainResult(
        seeds={str(seed): record for seed, record in records.items()},
        dev_f1=statistics.fmean(scores) if scores else None,
        dev_f1_deviation=statistics.stdev(scores) if len(scores) > 1 else None,
        start=next(iter(records.values())).start,
        train_sentences={role: len(sentences) for role, sentences in data.labelled.items()},
        settings=dataclasses.asdict(recipe.design.settings),
    )


def score_tags(gold: Sequence[Sequence[str]], tagged: Sequence[Tagged]) -> Scores:
    """Score tagged sentences by conlleval's rules."""
    return score(gold, [each.tags for each in tagged], mode="conll")
