"""The result of ``inspect``, and its tables."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Table

LARGEST, SMALLEST_SHOWN = 3, 0.005  # weights of a word that inspect shows


@dataclass(frozen=True)
class HeatMap:
    """Weights of a sentence: a row a word, a column for each thing that is weighed."""

    columns: list[str]
    values: list[list[float]]


@dataclass(frozen=True)
class InspectedSentence:
    """A sentence with the tags that a tagger gives, and its weights by name."""

    words: list[str]
    tags: list[str]
    weights: dict[str, HeatMap]


@dataclass(frozen=True)
class InspectedStates:
    """Words inside entities and their places on a plane, (N, 2)."""

    kind: str
    split: str
    words: list[str]
    types: list[str]
    domains: list[str]
    plane: list[list[float]]


@dataclass(frozen=True)
class InspectResult:
    """The result of ``inspect``; ``files`` are the figures drawn in ``output``."""

    model: str
    seed: int | None
    sentences: list[InspectedSentence]
    states: InspectedStates | None
    files: list[str]
    output: str | None


def inspection_tables(result: InspectResult) -> list[Block]:
    """Make a table for each sentence and kind of weights."""
    blocks: list[Block] = [Line(f"Inside {figures.with_seed(result.model, result.seed)}", is_headline=True)]
    for number, sentence in enumerate(result.sentences, start=1):
        for name, weights in sentence.weights.items():
            blocks.append(_weights_table(f"Sentence {number}: {name}", sentence, weights))
    if result.states is not None:
        domains = ", ".join(dict.fromkeys(result.states.domains))
        blocks.append(Line(f"{figures.count(len(result.states.words))} words of {domains} on a plane"))
    return blocks + [Line(f"{result.output}/{name}") for name in result.files]


def _weights_table(title: str, sentence: InspectedSentence, weights: HeatMap) -> Table:
    most = min(LARGEST, len(weights.columns))
    rows = []
    for word, tag, values in zip(sentence.words, sentence.tags, weights.values, strict=True):
        order = sorted(range(len(values)), key=lambda place: -values[place])[:most]
        shown = [f"{values[place]:.2f} {weights.columns[place]}" for place in order if values[place] >= SMALLEST_SHOWN]
        rows.append((word, tag, *shown, *[""] * (most - len(shown))))
    columns = ("word", "tag", "largest", *("next",) * (most - 1))
    return Table(title, columns, rows, texts=tuple(range(2 + most)))
