"""``crossner inspect``: the weights that a tagger computes for a sentence, and the states of words on a plane."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

from crossner_cli import figures
from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Inspect
from crossner_cli.reports.inspected import InspectedSentence, InspectedStates, InspectResult
from crossner_cli.reports.inspection import collect_states, inspect_sentence, project, split_sentences
from crossner_cli.reports.plots import plot_states, plot_weights
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.environment import make_record
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.storage import check_output_folder, output_folder, write_json
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.sources import best_on_dev, find_taggers

COMMAND, RECORD = "inspect", "inspection.json"


def run(run: RunDirectory, options: Inspect, engine: Engine) -> Work[Manifest]:
    """Show weights of sentences; with ``--output`` draw them, and with ``--states`` the words of the run's data.

    Returns:
        A record like a stage's manifest; with ``--output`` it lies beside the figures.

    Raises:
        CrossNERError: Nothing to show was asked for, the output exists, the tagger has no such weights or states, or
            the packages that draw are missing.
    """
    began = time.perf_counter()
    _check(options, engine)
    trained = best_on_dev(find_taggers(run, [options.model] if options.model else [], wanted_by=COMMAND))
    tagger = load_tagger(trained.folder, engine)
    trained.check_unchanged()
    yield Notice(f"Inspecting {figures.with_seed(trained.label, trained.seed)}")
    sentences = [sentence for text in options.sentence for sentence in split_sentences(text, tagger)]
    seen = [inspect_sentence(tagger, sentence, engine) for sentence in sentences]
    with (
        contextlib.nullcontext()
        if options.output is None
        else output_folder(options.output, RECORD, force=options.force)
    ) as folder:
        files = [] if folder is None else _draw_weights(seen, folder)
        states = None
        if folder is not None and options.states != "none":
            of_split = yield from _read_split(run, options.split)
            found = collect_states(
                tagger, of_split, engine, kind=options.states, points=options.points, seed=options.seed
            )
            plane = project(found.vectors, options.seed)
            states = InspectedStates(options.states, options.split, found.words, found.types, found.domains, plane)
            files.append(f"states-{options.states}.svg")
            plot_states(states, folder / files[-1])
        output = None if options.output is None else str(options.output)
        result = InspectResult(trained.label, trained.seed, seen, states, files, output)
        inputs = {trained.label: trained.digest}
        record = make_record(COMMAND, options.record(), inputs, dataclasses.asdict(result), began)
        if folder is not None:
            write_json(folder / RECORD, record)
    return record


def _check(options: Inspect, engine: Engine) -> None:
    """Refuse what would only fail after the tagger was loaded."""
    if engine.world > 1:
        raise CrossNERError(
            f"{COMMAND} works in one process, and here are {engine.world}.", hint="Name one GPU: --gpus 0."
        )
    if not options.sentence and options.states == "none":
        hint = 'Give --sentence "Words of a sentence.", or --states hidden --output DIR.'
        raise CrossNERError("There is nothing to inspect.", hint=hint)
    if options.states != "none" and options.output is None:
        raise CrossNERError(f"--states {options.states} draws a figure, and has no place for it.", hint="--output DIR")
    if options.output is not None:
        check_output_folder(options.output, RECORD, force=options.force)


def _draw_weights(seen: Sequence[InspectedSentence], folder: Path) -> list[str]:
    """Draw a figure for each sentence and kind of weights; return the names of the files."""
    files = []
    for number, sentence in enumerate(seen, start=1):
        for name in sentence.weights:
            files.append(f"sentence-{number}-{name.replace(' ', '-')}.svg")
            plot_weights(sentence, name, folder / files[-1])
    return files


def _read_split(run: RunDirectory, split: str) -> Work[list[Sentence]]:
    """Read the sentences of a split, of the target and the source as far as they have it."""
    sentences: list[Sentence] = []
    for role, domain in sorted(PreparedData.load(run, wanted_by="--states").domains.items(), reverse=True):
        if domain.has(split):
            sentences += domain.sentences(split)
        else:
            yield Notice(f"The {role} {domain.name} has no {split} sentences and is left out of the states.")
    return sentences
