"""The recipe of a training stage: its options resolved once, its inputs found, and its data read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.data.tags import TagSet, types_of
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import find_method, read_settings
from crossner_cli.option_fields import LARGEST_SEED
from crossner_cli.options import Optimisation
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.storage import digest_path
from crossner_cli.taggers.carry_over import TaggerDesign, check_start, note_on_settings
from crossner_cli.taggers.known_words import (
    CORPUS,
    check_word_files,
    digest_word_files,
    find_strings,
    note_on_strings,
)
from crossner_cli.taggers.sources import Start, find_start, notes_on_start
from crossner_cli.training.plan import note_on_dev
from crossner_cli.training.raw_inputs import (
    Dictionary,
    RawInputs,
    check_dictionary,
    check_raw,
    find_tasks,
    narrow_tasks,
    read_dictionary,
    read_raw,
    split_types,
)


@dataclass(frozen=True)
class Recipe:
    """Everything that a stage is trained from, resolved and checked before any work.

    An update reads a batch of each task; without tasks all sentences are mixed. The dictionary labels raw text.
    """

    options: Optimisation
    design: TaggerDesign
    tasks: Sequence[str]
    seeds: Sequence[int]
    prepared: PreparedData
    start: Start
    dictionary: Dictionary | None
    notes: Sequence[str]

    def digest_inputs(self) -> dict[str, str]:
        """Digest all that is read."""
        files = {f"dictionary/{number}": digest_path(path) for number, path in enumerate(self.options.dictionary)}
        word_files = digest_word_files(self.design)
        return {"prepare-data": self.prepared.digest, "start": self.start.digest, **word_files, **files}


@dataclass(frozen=True)
class TaggerData:
    """The labelled sentences by role and the raw text that a stage trains on; ``dev`` chooses the best epoch."""

    tag_set: TagSet
    labelled: Mapping[str, Sequence[Sentence]]
    dev: Sequence[Sentence]
    tasks: Sequence[str] = ()
    raw: RawInputs | None = None

    @property
    def sentences(self) -> list[Sentence]:
        """The labelled sentences of all roles."""
        return [sentence for sentences in self.labelled.values() for sentence in sentences]

    @property
    def types(self) -> Sequence[str]:
        """The types that labels teach; the tag set of several tasks may hold a domain whose labels none learns."""
        taught = types_of([sentence.tags or () for sentence in self.sentences]) if self.tasks else self.tag_set.types
        return [kind for kind in self.tag_set.types if kind in taught]


def resolve_recipe(run: RunDirectory, options: Optimisation, engine: Engine) -> Recipe:
    """Resolve the options of a training stage, and refuse all that can be refused before any work.

    Raises:
        CrossNERError: Anything a user can cause.
    """
    command, roles = options.command, options.roles
    seeds = parse_seeds(options)
    settings = read_settings(find_method(options.method), options.settings)
    tasks = find_tasks(settings, command, roles)
    settings, narrowed = narrow_tasks(settings, command, roles)
    strings = find_strings(run, options.string_embeddings)
    design = options.make(TaggerDesign, name=options.method, settings=settings, strings=strings)
    if options.dictionary:
        check_dictionary(options.method, settings, tasks, of_source=options.of_source)
    if tasks and engine.world > 1:
        raise CrossNERError(
            f"{options.method} trains in one process, and here are {engine.world}.", hint="Name one GPU: --gpus 0."
        )
    prepared = PreparedData.load(run, wanted_by=command)
    encoder = options.encoder if design.reads_transformer else None
    start = find_start(run, options.start_from, encoder, wanted_by=command)
    check_word_files(design, start)
    check_start(design, start)
    if design.embeddings == CORPUS:
        prepared.corpus("domain")
    for role in roles:
        domain = prepared.domain(role, wanted_by=command)
        if not tasks or f"{role}-ner" in tasks:
            domain.check_has("train")
    prepared.domain(options.select_on, wanted_by=f"{command} --select-on").check_has("dev")
    check_raw(prepared, tasks)
    dictionary = None
    if options.dictionary:
        types = split_types(prepared, settings, tasks)
        dictionary = read_dictionary(options.dictionary, *types, phrases=options.dictionary_phrases)
    notes = (
        *notes_on_start(start, run, encoder),
        note_on_settings(design, start),
        note_on_seeds(start, seeds),
        note_on_strings(design.strings, prepared),
        narrowed,
    )
    return Recipe(options, design, tasks, seeds, prepared, start, dictionary, [note for note in notes if note])


def parse_seeds(options: Optimisation) -> list[int]:
    """Parse the seeds of a stage: ``--seeds``, else ``--seed``.

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
    """Read the labelled sentences of a stage's domains, as far as its tasks read them, and raw text.

    Raises:
        CrossNERError: The run has not got them.
    """
    prepared, options, tasks = recipe.prepared, recipe.options, recipe.tasks
    command, roles = options.command, options.roles
    labelled = {
        role: prepared.domain(role, wanted_by=command).sentences("train")
        for role in roles
        if not tasks or f"{role}-ner" in tasks
    }
    dev = prepared.domain(options.select_on, wanted_by=f"{command} --select-on").sentences("dev")
    # Methods of several tasks tell target from source by their order, also before the target is trained on.
    first = ["target"] if tasks and "target" not in roles and "target" in prepared.domains else []
    tag_set = prepared.tag_set(*first, *roles)
    if len({task.partition("-")[0] for task in tasks}) > len(tag_set.domains):
        raise CrossNERError(
            f"{command}: source and target are both {', '.join(tag_set.domains)}; the tasks are of two domains.",
            hint="Prepare another source, or finetune with tasks of the target alone (--set tasks=target-ner).",
        )
    if any(task.endswith("-lm") for task in tasks):
        yield Notice(f"{command}: reading raw text")
    raw = read_raw(prepared, recipe.design.settings, tasks, labelled, recipe.dictionary, options.raw_minimum)
    data = TaggerData(tag_set, labelled, dev, tasks, raw)
    notes = raw.describe() if raw else []
    if options.keep == "best":
        notes = [*notes, *note_on_dev(dev, data.types, options.select_on)]
    yield from (Notice(f"{command}: {note}") for note in notes)
    return data
