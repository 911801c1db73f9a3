"""One tagger looked into: weights of sentences and states of words, drawn and as a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.data.text import segment
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger
from crossner_cli.options import Inspect, Report
from crossner_cli.reports.inspection import InspectedSentence, collect_states, inspect_sentence, project
from crossner_cli.reports.inspection_plots import draw_heat_map, draw_states
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice, Work

Looking = Inspect | Report


@dataclass(frozen=True)
class Drawing:
    """Where figures go.

    Args:
        folder: Which is there.
        formats: Each figure is drawn in each: svg, png.
    """

    folder: Path
    formats: tuple[str, ...]


def check_inside(options: Looking, engine: Engine, command: str) -> None:
    """Refuse, before any work, what cannot be looked at.

    Raises:
        CrossNERError: There are several processes, or a figure has no place.
    """
    if engine.world > 1:
        raise CrossNERError(
            f"{command} works in one process, and here are {engine.world}.", hint="Name one GPU: --gpus 0."
        )
    if options.states != "none" and options.output is None:
        raise CrossNERError(f"--states {options.states} draws a figure, and has no place for it.", hint="--output DIR")


def look_inside(
    tagger: Tagger, run: RunDirectory, options: Looking, engine: Engine, drawing: Drawing | None
) -> Work[dict[str, Any]]:
    """Compute what was asked for, and draw it where there is a place.

    Returns:
        ``sentences``, with words, tags and weights; ``states``, the words on a plane, or None; ``files``, as drawn.

    Raises:
        CrossNERError: The tagger has no such weights or states, or the packages that draw are missing.
    """
    seen = [inspect_sentence(tagger, sentence, engine) for sentence in _sentences(options.sentence, tagger)]
    files = [] if drawing is None else _draw_weights(seen, drawing)
    plane: dict[str, Any] | None = None
    if drawing is not None and options.states != "none":
        sentences = yield from _split_sentences(run, options.split)
        plane = _draw_states(sentences, tagger, engine, options, drawing)
        files += plane["files"]
    return {"sentences": [_to_json(each) for each in seen], "states": plane, "files": files}


def _sentences(texts: Sequence[str], tagger: Tagger) -> list[Sentence]:
    """The sentences of texts, to be tagged with the types of the domain as whose text new text is tagged."""
    domain = tagger.domain_of_new_text(tagger.tag_set, vars(tagger.hyper))
    found = []
    for text in texts:
        words = [tuple(word.text for word in sentence) for sentence in segment(text, at_line_breaks=True)]
        if not words:
            raise CrossNERError(f"--sentence {text!r} holds no word.", hint='Write --sentence "Words of a sentence."')
        found += [Sentence(of_sentence, None, domain) for of_sentence in words]
    return found


def _draw_weights(seen: Sequence[InspectedSentence], drawing: Drawing) -> list[str]:
    """One figure for each sentence and kind of weights; the names of the files."""
    files = []
    for number, sentence in enumerate(seen, start=1):
        for name, heat_map in sentence.weights.items():
            for ending in drawing.formats:
                files.append(f"sentence-{number}-{name.replace(' ', '-')}.{ending}")
                draw_heat_map(heat_map, sentence.words, sentence.tags, name, drawing.folder / files[-1])
    return files


def _split_sentences(run: RunDirectory, split: str) -> Work[list[Sentence]]:
    """The sentences of a split, of the target and the source as far as they have it."""
    sentences: list[Sentence] = []
    for role, domain in sorted(PreparedData.load(run, wanted_by="--states").domains.items(), reverse=True):
        if domain.has(split):
            sentences += domain.sentences(split)
        else:
            yield Notice(f"The {role} {domain.name} has no {split} sentences and is left out of the states.")
    return sentences


def _draw_states(
    sentences: Sequence[Sentence], tagger: Tagger, engine: Engine, options: Looking, drawing: Drawing
) -> dict[str, Any]:
    """The figure of words on a plane, and what it was made of."""
    states = collect_states(
        tagger, sentences, engine, kind=options.states, points=options.points, seed=options.seed
    )  # fmt: skip
    plane = project(states.vectors, options.seed)
    title = f"{options.states} (t-SNE of {options.split} words)"
    files = [f"states-{options.states}.{ending}" for ending in drawing.formats]
    for name in files:
        draw_states(plane, states.types, states.domains, title, drawing.folder / name)
    return {
        "files": files, "kind": options.states, "split": options.split, "words": states.words, "types": states.types,
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
