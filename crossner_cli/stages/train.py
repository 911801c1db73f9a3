"""What the three training stages share: seeds, the start, the loop, the tagger's folder, the manifest."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli import figures
from crossner_cli.data.names import Names
from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.data.tags import TagSet, types_of
from crossner_cli.encoders.raw_text import RawSentences, RawText
from crossner_cli.engine.devices import Engine
from crossner_cli.engine.runtime import keep_freed_memory
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import score
from crossner_cli.methods.contract import Tagger, find_method, read_settings
from crossner_cli.options import LARGEST_SEED, Optimisation
from crossner_cli.run.directory import Manifest, RunDirectory, read_manifest
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.stage import Stage
from crossner_cli.run.storage import digest_path, write_atomically, write_json
from crossner_cli.taggers.calibration import ENTRY as CALIBRATION
from crossner_cli.taggers.calibration import fit_calibration, score_entities
from crossner_cli.taggers.card import CARD, Provenance, TrainingFacts, tagger_card
from crossner_cli.taggers.carry_over import KnownWords, check_encoder, start_tagger
from crossner_cli.taggers.folder import save_tagger
from crossner_cli.taggers.known_words import (
    check_corpus,
    check_word_inputs,
    digest_word_inputs,
    find_strings,
    known_words,
    note_on_strings,
)
from crossner_cli.taggers.sources import Start, check_start, check_unchanged, find_start
from crossner_cli.taggers.tagging import keep_frozen_states, tag
from crossner_cli.taggers.vector_spaces import notes_on_vectors
from crossner_cli.training.checkpoints import Checkpoints
from crossner_cli.training.loop import FitResult, SentenceStream, Stream, fit
from crossner_cli.training.plan import head_learning_rate_of, learning_rate_of, note_on_dev, parameter_groups, plan_of
from crossner_cli.training.streams import (
    RawInputs,
    check_dictionary,
    check_raw,
    dictionary_paths,
    domain_streams,
    read_dictionary,
    read_raw,
    tasks_of,
    times_read,
    types_of_dictionary,
    with_tasks,
)


@dataclass(frozen=True)
class TaggerData:
    """What a training stage trains on and chooses by.

    Args:
        tag_set: The tags of the tagger.
        labelled: Labelled sentences to train on, by role.
        dev: Labelled sentences that choose the best epoch.
        prepared: Manifest of the run's data.
        tasks: What an update reads a batch of each; none where all labelled sentences are mixed.
        raw: Raw text that some tasks read.
    """

    tag_set: TagSet
    labelled: Mapping[str, Sequence[Sentence]]
    dev: Sequence[Sentence]
    prepared: Manifest
    tasks: Sequence[str] = ()
    raw: RawInputs | None = None

    @property
    def sentences(self) -> list[Sentence]:
        """The labelled sentences of all roles."""
        return [sentence for sentences in self.labelled.values() for sentence in sentences]

    @property
    def types(self) -> Sequence[str]:
        """Those that labels teach; the tag set of several tasks may hold a domain whose labels none of them learns."""
        taught = types_of([sentence.tags or () for sentence in self.sentences]) if self.tasks else self.tag_set.types
        return [kind for kind in self.tag_set.types if kind in taught]


@dataclass(frozen=True)
class TrainingInputs:
    """What a stage is trained from, known and checked before any work.

    Args:
        seeds: One tagger each.
        prepared: The data of the run.
        start: The weights.
        strings: Language models of characters, where words have vectors of them.
        names: The dictionary that labels raw text, if there is one.
        tasks: What an update reads a batch of each.
        trained: The options with the tasks that these domains have.
        narrowed: What became of tasks that they have not, if there are any.
        inputs: Digests of all that is read.
    """

    seeds: Sequence[int]
    prepared: PreparedData
    start: Start
    strings: Path | None
    names: Names | None
    tasks: Sequence[str]
    trained: Optimisation
    narrowed: str | None
    inputs: Mapping[str, str]

    def notes(self, options: Optimisation) -> list[str]:
        """What a person should know of the start and of the files that are read beside it."""
        notes = (
            *self.start.notes,
            note_on_seeds(self.start, self.seeds),
            self.strings and note_on_strings(self.strings, self.prepared),
            *notes_on_vectors(self.start, options, self.inputs),
        )
        return [note for note in notes if note]


def parse_seeds(options: Optimisation) -> list[int]:
    """The seeds of a stage: ``--seeds``, else ``--seed``.

    Raises:
        CrossNERError: Not a list of distinct numbers up to the largest seed.
    """
    if options.seeds is None:
        return [options.seed]
    parts = [part.strip() for part in options.seeds.split(",")]
    seeds = [int(part) for part in parts if part.isdecimal() and len(part) < 20]
    if len(set(seeds)) != len(parts) or max(seeds) > LARGEST_SEED:
        raise CrossNERError(
            f"--seeds {options.seeds!r} is not a list of distinct numbers from 0 to {LARGEST_SEED}.",
            hint="Write --seeds 1,2,3.",
        )
    return seeds


def train_stage(
    run: RunDirectory, options: Optimisation, engine: Engine, command: str, roles: Sequence[str]
) -> Work[Manifest]:
    """Train one tagger a seed and leave their folders and a manifest.

    Args:
        run: Where.
        options: How.
        engine: On what.
        command: The stage's name.
        roles: The domains it reads, whose types the tagger knows; the first one's are given to new text.

    Raises:
        CrossNERError: Anything a user can cause, before any work starts where it can be known then.
    """
    ready = resolve_inputs(run, options, engine, command, roles)
    prepared, start, tasks, seeds = ready.prepared, ready.start, ready.tasks, ready.seeds
    stage = engine.open_stage(run, options.stage_request(command, ready.inputs))
    with stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        yield Notice(f"{stage.name}: {engine.describe()}")
        if engine.on_cpu:
            keep_freed_memory()
        yield from map(Notice, ready.notes(options))
        options = ready.trained  # the stage keeps those that were given
        if ready.narrowed:
            yield Notice(f"{stage.name}: {ready.narrowed}")
        data = read_data(prepared, options, command, roles, tasks, ready.names)
        raw_words = data.raw.words() if data.raw else []
        known, notes = known_words(prepared, options, data.sentences, data.tag_set, start, raw_words, ready.strings)
        notes += data.raw.describe() if data.raw else []
        if options.keep == "best":
            notes += note_on_dev(data.dev, data.types, options.select_on)
        for note in notes:
            yield Notice(f"{stage.name}: {note}")
        records: dict[str, Any] = {}
        for seed in seeds:
            folder = stage.draft / ("tagger" if len(seeds) == 1 else f"tagger-seed-{seed}")
            records[str(seed)] = yield from _train_seed(stage, options, engine, data, start, known, seed, folder)
        result = {**_summary(records), **_what_was_trained(data, options)}
        return engine.on_main(lambda: stage.finish(result, lineage=start.lineage, device=engine.describe()))


def resolve_inputs(
    run: RunDirectory, options: Optimisation, engine: Engine, command: str, roles: Sequence[str]
) -> TrainingInputs:
    """Find what a stage is trained from, and refuse all that can be refused before any work.

    Raises:
        CrossNERError: Anything a user can cause.
    """
    seeds = parse_seeds(options)
    check_word_inputs(options)
    strings = find_strings(run, options)
    check_encoder(options)
    tasks = tasks_of(options, command, roles)
    trained, narrowed = with_tasks(options, command, roles)
    check_dictionary(options, tasks)
    if tasks and engine.world > 1:
        raise CrossNERError(
            f"{options.method} trains in one process, and here are {engine.world}.", hint="Name one GPU: --gpus 0."
        )
    prepared = PreparedData.load(run, wanted_by=command)
    start = find_start(run, options, wanted_by=command)
    check_start(start, options)
    check_encoder(options, start)
    check_corpus(options, prepared)
    for role in roles:
        domain = prepared.domain(role, wanted_by=command)
        if not tasks or f"{role}-ner" in tasks:
            domain.check_has("train")
    prepared.domain(options.select_on, wanted_by=f"{command} --select-on").check_has("dev")
    check_raw(prepared, tasks)
    names = read_dictionary(trained, *types_of_dictionary(prepared, trained, tasks)) if options.dictionary else None
    files = {name: digest_path(path) for name, path in dictionary_paths(options).items()}
    inputs = {"prepare-data": prepared.digest, "start": start.digest, **digest_word_inputs(options, strings), **files}
    return TrainingInputs(seeds, prepared, start, strings, names, tasks, trained, narrowed, inputs)


def read_data(
    prepared: PreparedData,
    options: Optimisation,
    command: str,
    roles: Sequence[str],
    tasks: Sequence[str],
    names: Names | None,
) -> TaggerData:
    """Read what a stage trains on: labelled sentences of its domains, as far as its tasks read them, and raw text.

    Raises:
        CrossNERError: The run has not got them.
    """
    domains = {role: prepared.domain(role, wanted_by=command) for role in roles}
    labelled = {
        role: domain.sentences("train") for role, domain in domains.items() if not tasks or f"{role}-ner" in tasks
    }
    chooser = prepared.domain(options.select_on, wanted_by=f"{command} --select-on")
    raw = read_raw(prepared, options, tasks, labelled, names)
    # Methods of several tasks tell target from source by their order, also before the target is trained on.
    first = ["target"] if tasks and "target" not in roles and "target" in prepared.domains else []
    tag_set, manifest = prepared.tag_set(*first, *roles), read_manifest(prepared.folder)
    if len({task.partition("-")[0] for task in tasks}) > len(tag_set.domains):
        raise CrossNERError(
            f"{command}: source and target are both {', '.join(tag_set.domains)}; the tasks are of two domains.",
            hint="Prepare another source, or finetune with tasks of the target alone (--set tasks=target-ner).",
        )
    return TaggerData(tag_set, labelled, chooser.sentences("dev"), manifest, tasks, raw)


def note_on_seeds(start: Start, seeds: Sequence[int]) -> str | None:
    """Tell of seeds that the start has not got: they begin with the same weights, so their deviation is too small."""
    others = [seed for seed in seeds if seed not in start.seeds]
    if not start.seeds or not others:
        return None
    stand_in = next(seed for seed, folder in start.seeds.items() if folder == start.folder_for(others[0]))
    return (
        f"{start.name} has no seed {', '.join(map(str, others))}: its seed {stand_in}, the best on dev, stands in"
        + (", so these seeds differ less than whole chains would." if len(seeds) > 1 else ".")
    )


def _train_seed(
    stage: Stage,
    options: Optimisation,
    engine: Engine,
    data: TaggerData,
    start: Start,
    known: KnownWords | None,
    seed: int,
    folder: Path,
) -> Work[dict[str, Any]]:
    """Train one tagger, or take up one that an interrupted command had finished."""
    task = figures.with_seed(stage.name, seed)
    done, checkpoints = folder / "training.json", Checkpoints(stage.draft / f"checkpoint-{seed}")
    if done.is_file():
        if engine.is_main:
            checkpoints.remove()  # the interruption may have come before this was over
        record: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
        yield Notice(f"{task}: finished before the interruption.")
        return record
    tagger, carried = start_tagger(start, options, data.tag_set, seed, engine, known)
    check_unchanged(start, stage.run, options, wanted_by=stage.command)
    yield Notice(f"{task}: {carried.describe()}")
    if data.tasks:
        _count_words(tagger, data)
    raw = data.raw.reread(data.labelled, options) if data.raw else ()
    yield from keep_frozen_states(tagger, [*data.sentences, *data.dev], engine, task, raw)
    streams = streams_of(tagger, data, options, seed)
    gold = [sentence.tags or () for sentence in data.dev]

    def dev_f1() -> dict[str, float]:
        tagged = tag(tagger, data.dev, engine)
        return {"dev_f1": score(gold, [sentence.tags for sentence in tagged], mode="conll").f1}

    result: FitResult = yield from fit(
        tagger,
        parameter_groups(tagger, options),
        streams,
        plan_of(options),
        engine,
        score=dev_f1,
        checkpoints=checkpoints,
        task=task,
    )
    record = {
        "folder": folder.name,
        "learning_rate": learning_rate_of(tagger.encoder, options),
        "head_learning_rate": head_learning_rate_of(tagger.encoder, options),
        "dev_f1": result.best,
        "epoch": result.best_epoch,
        "epochs": len(result.history),
        "updates": result.steps,
        "words_per_second": round(result.words_per_second),
        "start": carried.to_json(),
        "unreadable_words": tagger.encoder.reader.unreadable_words,
        "shortened_words": tagger.encoder.reader.shortened_words,
        "history": result.history,
    }
    measured = fit_calibration(score_entities(gold, tag(tagger, data.dev, engine)))

    def save() -> None:
        found = {CALIBRATION: measured.to_json()} if measured.entities else {}
        save_tagger(tagger, folder, lineage=start.lineage, dev_f1=result.best, **found)
        write_atomically(folder / CARD, _card(folder, tagger, stage, options, data, start, seed, record))
        write_json(done, record)  # last, since it tells that all is there
        checkpoints.remove()

    engine.on_main(save)
    return record


def _card(
    folder: Path,
    tagger: Tagger,
    stage: Stage,
    options: Optimisation,
    data: TaggerData,
    start: Start,
    seed: int,
    record: dict[str, Any],
) -> str:
    """The model card of a tagger that has been saved."""
    provenance = Provenance(
        stage.command, stage.name, options.record(), options.defaults(), start.lineage, data.prepared
    )
    chooser, raw = (
        data.prepared["result"]["domains"][options.select_on]["name"],
        data.raw.describe() if data.raw else [],
    )
    training = TrainingFacts(data.labelled, raw, chooser, len(data.dev), seed, parse_seeds(options), record)
    return tagger_card(folder, options.method, tagger, provenance, training)


def _count_words(tagger: Tagger, data: TaggerData) -> None:
    """Tell the tagger how often each word is to be predicted: in raw text, and in labelled sentences of domains whose
    language model reads no raw text.
    """
    hyper: Any = tagger.hyper
    texts: dict[str, RawText] = {
        role: RawSentences([sentence.words for sentence in sentences])
        for role, sentences in data.labelled.items()
        if f"{role}-lm" in hyper.task_names and getattr(hyper, "lm_text", "raw") != "raw"
    }
    counted = RawInputs(texts | dict(data.raw.texts if data.raw else {}), {}, None, 1)
    reader = tagger.encoder.reader
    tagger.set_word_counts(counted.predicted(counted.count(reader)))


def streams_of(tagger: Tagger, data: TaggerData, options: Optimisation, seed: int) -> list[Stream]:
    """One stream of all labelled sentences, those of the target repeated beside another domain's; or one a task."""
    if data.tasks:
        return domain_streams(tagger, data.tasks, data.labelled, data.raw, options, seed)
    reader = tagger.encoder.reader
    repeats = [times_read(options, role) for role, sentences in data.labelled.items() for _ in sentences]
    encoded = reader.encode(data.sentences, data.tag_set)
    return [SentenceStream(encoded, reader, options.batch_size, seed, repeats)]


def _what_was_trained(data: TaggerData, options: Optimisation) -> dict[str, Any]:
    """Labelled sentences by role, and all settings of the method, those left at their defaults too."""
    settings = dataclasses.asdict(read_settings(find_method(options.method), options.settings))
    return {
        "train_sentences": {role: len(sentences) for role, sentences in data.labelled.items()},
        "settings": settings,
    }


def _summary(records: dict[str, Any]) -> dict[str, Any]:
    scores = [record["dev_f1"] for record in records.values() if record["dev_f1"] is not None]
    return {
        "seeds": records,
        "dev_f1": statistics.fmean(scores) if scores else None,
        "dev_f1_deviation": statistics.stdev(scores) if len(scores) > 1 else None,
        "start": next(iter(records.values()))["start"],
    }
