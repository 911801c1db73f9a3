"""The result of ``inspect``, and its tables."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Table
from crossner_cli.run.directory import Manifest

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
class PlacedWord:
    """A word inside an entity, with the entity's type and domain, and its place on a plane."""

    word: str
    type: str
    domain: str
    x: float
    y: float


@dataclass(frozen=True)
class InspectResult:
    """The result of ``inspect``; ``output`` is the folder of its figures."""

    model: str
    seed: int | None
    sentences: list[InspectedSentence]
    states: list[PlacedWord]
    output: str | None


def inspection_tables(result: InspectResult, _: Manifest | None = None) -> list[Block]:
    """Make a table for each sentence and kind of weights."""
    blocks: list[Block] = [Line(f"Inside {figures.with_seed(result.model, result.seed)}", is_headline=True)]
    for number, sentence in enumerate(result.sentences, start=1):
        for name, weights in sentence.weights.items():
            blocks.append(_weights_table(f"Sentence {number}: {name}", sentence, weights))
    if result.states:
        domains = ", ".join(dict.fromkeys(word.domain for word in result.states))
        blocks.append(Line(f"{figures.count(len(result.states))} words of {domains} on a plane"))
    return blocks if result.output is None else [*blocks, Line(f"Figures and numbers: {result.output}")]


def _weights_table(title: str, sentence: InspectedSentence, weights: HeatMap) -> Table:
    rows = []
    for word, tag, values in zip(sentence.words, sentence.tags, weights.values, strict=True):
        largest = sorted(zip(values, weights.columns, strict=True), key=lambda pair: -pair[0])[:LARGEST]
        shown = ", ".join(f"{value:.2f} {name}" for value, name in largest if value >= SMALLEST_SHOWN)
        rows.append((word, tag, shown))
    return Table(title, ("word", "tag", "largest"), rows, texts=(0, 1, 2))
