"""``crossner inspect``: the weights that a tagger computes for a sentence, and the states of words on a plane."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crossner_cli.data import PreparedData, Sentence
from crossner_cli.engine import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.inspection import InspectedSentence, collect_states, inspect_sentence, project
from crossner_cli.inspection_plots import draw_heat_map, draw_states
from crossner_cli.methods import Tagger
from crossner_cli.options import Inspect
from crossner_cli.output_folder import check_output, output_folder
from crossner_cli.progress import Notice, Work
from crossner_cli.run_directory import Manifest, RunDirectory, write_json
from crossner_cli.tagger_folder import load_tagger
from crossner_cli.text import segment
from crossner_cli.trained_taggers import best_on_dev, find_taggers
from crossner_cli.versions import versions

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
    yield Notice(f"Inspecting {trained.label}" + ("" if trained.seed is None else f", seed {trained.seed}"))
    seen = [inspect_sentence(tagger, sentence, engine) for sentence in _sentences(options.sentence, tagger)]
    with _open_output(options) as folder:
        files = [] if folder is None else _draw_weights(seen, folder, options.format)
        plane: dict[str, Any] | None = None
        if folder is not None and options.states != "none":
            sentences = yield from _split_sentences(run, options.split)
            plane = _draw_states(sentences, tagger, engine, options, folder)
            files.append(plane["file"])
        record = {
            "stage": COMMAND,
            "name": options.name or COMMAND,
            "options": options.record(),
            "inputs": {trained.label: trained.digest},
            "result": {
                "model": trained.label, "seed": trained.seed, "sentences": [_to_json(each) for each in seen],
                "states": plane, "output": None if options.output is None else str(options.output), "files": files,
            },
            "versions": versions(),
            "seconds": round(time.perf_counter() - began, 1),
        }  # fmt: skip
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
        check_output(options.output, RECORD, force=options.force)


@contextlib.contextmanager
def _open_output(options: Inspect) -> Iterator[Path | None]:
    if options.output is None:
        yield None
        return
    with output_folder(options.output, RECORD, force=options.force) as folder:
        yield folder


def _sentences(texts: Sequence[str], tagger: Tagger) -> list[Sentence]:
    """The sentences of texts, to be tagged with the types of the tagger's first domain."""
    domain = next(iter(tagger.tag_set.domains))
    found = []
    for text in texts:
        words = [tuple(word.text for word in sentence) for sentence in segment(text, at_line_breaks=True)]
        if not words:
            raise CrossNERError(f"--sentence {text!r} holds no word.", hint='Write --sentence "Words of a sentence."')
        found += [Sentence(of_sentence, None, domain) for of_sentence in words]
    return found


def _draw_weights(seen: Sequence[InspectedSentence], folder: Path, ending: str) -> list[str]:
    """One figure for each sentence and kind of weights; the names of the files."""
    files = []
    for number, sentence in enumerate(seen, start=1):
        for name, heat_map in sentence.weights.items():
            files.append(f"sentence-{number}-{name.replace(' ', '-')}.{ending}")
            draw_heat_map(heat_map, sentence.words, sentence.tags, name, folder / files[-1])
    return files


def _split_sentences(run: RunDirectory, split: str) -> Work[list[Sentence]]:
    """The sentences of a split, of the target and the source as far as they have it."""
    sentences: list[Sentence] = []
    for role, domain in sorted(PreparedData.load(run, wanted_by=f"{COMMAND} --states").domains.items(), reverse=True):
        if domain.has(split):
            sentences += domain.sentences(split)
        else:
            yield Notice(f"{COMMAND}: the {role} {domain.name} has no {split} sentences and is left out.")
    return sentences


def _draw_states(
    sentences: Sequence[Sentence], tagger: Tagger, engine: Engine, options: Inspect, folder: Path
) -> dict[str, Any]:  # fmt: skip
    """The figure of words on a plane, and what it was made of."""
    states = collect_states(
        tagger, sentences, engine, kind=options.states, points=options.points, seed=options.seed
    )  # fmt: skip
    plane = project(states.vectors, options.seed)
    name = f"states-{options.states}.{options.format}"
    draw_states(
        plane, states.types, states.domains, f"{options.states} (t-SNE of {options.split} words)", folder / name
    )
    return {
        "file": name, "kind": options.states, "split": options.split, "words": states.words, "types": states.types,
        "domains": states.domains, "plane": plane.tolist(),
    }  # fmt: skip


def _to_json(sentence: InspectedSentence) -> dict[str, Any]:
    return {
        "words": sentence.words,
        "tags": sentence.tags,
        "weights": {
            name: {"columns": heat_map.columns, "values": heat_map.values.astype(float).round(6).tolist()}
            for name, heat_map in sentence.weights.items()
        },
    }
