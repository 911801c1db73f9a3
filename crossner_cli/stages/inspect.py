"""``crossner inspect``: the weights that a tagger computes for a sentence, and the states of words on a plane."""

from __future__ import annotations

import dataclasses
import time

from crossner_cli import figures
from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger
from crossner_cli.options import Inspect
from crossner_cli.reports.inspection import InspectResult, PlacedWord, collect_states, inspect_text, place_words
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
            the drawing packages are missing.
    """
    began = time.perf_counter()
    if not options.sentence and options.states == "none":
        hint = 'Give --sentence "Words of a sentence.", or --states hidden --output DIR.'
        raise CrossNERError("There is nothing to inspect.", hint=hint)
    if options.output is not None:
        check_output_folder(options.output, RECORD, force=options.force)
    trained = best_on_dev(find_taggers(run, [options.model] if options.model else [], wanted_by=COMMAND))
    tagger = load_tagger(trained.folder, engine)
    trained.check_unchanged()
    yield Notice(f"Inspecting {figures.with_seed(trained.label, trained.seed)}")
    seen = [sentence for text in options.sentence for sentence in inspect_text(tagger, text, engine)]
    states = [] if options.states == "none" else (yield from _place_words(run, tagger, options, engine))
    output = None if options.output is None else str(options.output)
    result = InspectResult(trained.label, trained.seed, seen, states, output)
    inputs = {trained.label: trained.digest}
    record = make_record(COMMAND, options.record(), inputs, dataclasses.asdict(result), began)
    if options.output is not None:
        with output_folder(options.output, RECORD, force=options.force) as folder:
            for number, sentence in enumerate(seen, start=1):
                for name in sentence.weights:
                    plot_weights(sentence, name, folder / f"sentence-{number}-{name.replace(' ', '-')}.svg")
            if states:
                title = f"{options.states} (t-SNE of {options.split} words)"
                plot_states(states, title, folder / f"states-{options.states}.svg")
            write_json(folder / RECORD, record)
    return record


def _place_words(run: RunDirectory, tagger: Tagger, options: Inspect, engine: Engine) -> Work[list[PlacedWord]]:
    """Put words of the run's data on a plane: those of the target and the source that have the split."""
    sentences: list[Sentence] = []
    for role, domain in sorted(PreparedData.load(run, wanted_by="--states").domains.items(), reverse=True):
        if domain.has(options.split):
            sentences += domain.sentences(options.split)
        else:
            yield Notice(f"The {role} {domain.name} has no {options.split} sentences and is left out of the states.")
    vectors, words = collect_states(
        tagger, sentences, engine, kind=options.states, points=options.points, seed=options.seed
    )
    return place_words(vectors, words, options.seed)
