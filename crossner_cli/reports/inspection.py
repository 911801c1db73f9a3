"""The inside of a tagger: the weights it computes for a sentence, states of its words on a plane, and their tables."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_cli import figures
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, split_tag
from crossner_cli.data.text import segment
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger, find_method, method_names
from crossner_cli.reports.blocks import Block, Line, Table
from crossner_cli.run.directory import Manifest
from crossner_cli.run.environment import import_optional
from crossner_cli.taggers.tagging import inference

LARGEST, SMALLEST_SHOWN = 3, 0.005  # weights of a word in its table
FEWEST_POINTS, PERPLEXITY = 5, 30.0


@dataclass(frozen=True)
class HeatMap:
    """Weights of a sentence: a row per word, a column for each thing that is weighed."""

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


def inspect_text(tagger: Tagger, text: str, engine: Engine) -> list[InspectedSentence]:
    """Tag the sentences of a text as new text, and keep their weights.

    Raises:
        CrossNERError: The text holds no words, or the tagger computes no weights.
    """
    found = segment(text, at_line_breaks=True)
    if not found:
        raise CrossNERError(f"--sentence {text!r} holds no words.", hint='Write --sentence "Words of a sentence."')
    domain = tagger.domain_of_new_text
    sentences = [Sentence(tuple(word.text for word in words), None, domain) for words in found]
    return [inspect_sentence(tagger, sentence, engine) for sentence in sentences]


def inspect_sentence(tagger: Tagger, sentence: Sentence, engine: Engine) -> InspectedSentence:
    """Tag one sentence, and keep its weights.

    Raises:
        CrossNERError: The tagger computes no weights.
    """
    reader: Any = tagger.encoder.reader
    with inference(tagger, engine):
        batch = reader.collate(reader.encode([sentence])).to(engine.device)
        (ids,), found = tagger.decode(batch).tags, tagger.explain(batch)
    if not found:
        methods = [name for name in method_names() if find_method(name).explain is not Tagger.explain]
        raise CrossNERError(
            "This tagger computes no weights to look at.",
            hint=f"Methods that do: {', '.join(methods)}. --states shows the states of any tagger.",
        )
    words, tags = list(sentence.words), [tagger.tag_set.tags[tag_id] for tag_id in ids]
    labels = ["start", *(f"{tag} {word}" for tag, word in zip(tags[:-1], words, strict=False))]
    named = {"words": words, "labels": labels}
    maps = {}
    for name, (weights, columns) in found.items():
        of_words = named[columns] if isinstance(columns, str) else list(columns)
        maps[name] = HeatMap(of_words, weights[0].double().cpu().numpy().round(6).tolist())
    return InspectedSentence(words, tags, maps)


def collect_states(
    tagger: Tagger, sentences: Sequence[Sentence], engine: Engine, *, kind: str, points: int, seed: int
) -> tuple[NDArray[np.float32], list[tuple[str, str, str]]]:
    """Collect states of at most ``points`` words inside entities, equally many of each domain if possible.

    Returns:
        The vectors of N words, (N, D), and of each word its text, its gold entity type and its domain.

    Raises:
        CrossNERError: The tagger has no such states, or there are too few words to draw.
    """
    inside: dict[str, list[tuple[Sentence, int]]] = {}
    for sentence in sentences:
        places = [place for place, tag in enumerate(sentence.tags or ()) if tag != OUTSIDE]
        inside.setdefault(sentence.domain, []).extend((sentence, place) for place in places)
    generator = random.Random(seed)
    chosen = [word for of in inside.values() for word in generator.sample(of, min(len(of), points // len(inside)))]
    if len(chosen) < FEWEST_POINTS:
        raise CrossNERError(
            f"The sentences have {len(chosen)} words inside entities; {FEWEST_POINTS} are the fewest to draw.",
            hint="Give a larger --points, or prepare more sentences.",
        )
    reader: Any = tagger.encoder.reader
    vectors, words = [], []
    for sentence, place in chosen:
        with inference(tagger, engine):
            found = tagger.hidden_states(reader.collate(reader.encode([sentence])).to(engine.device))
        if kind not in found:
            raise CrossNERError(
                f"--states {kind}: this tagger has no such states.", hint=f"It has: {', '.join(found)}."
            )
        vectors.append(found[kind][0, place].float().cpu().numpy())
        words.append((sentence.words[place], split_tag((sentence.tags or ())[place])[1], sentence.domain))
    return np.stack(vectors), words


def place_words(vectors: NDArray[np.float32], words: Sequence[tuple[str, str, str]], seed: int) -> list[PlacedWord]:
    """Put words with vectors, (N, D), on a plane by t-SNE; the same vectors and seed give the same plane.

    Source: van der Maaten and Hinton (2008), with scikit-learn's settings and a start by principal components.

    Raises:
        CrossNERError: scikit-learn is not installed.
    """
    manifold = import_optional("sklearn.manifold", "Words are put on a plane by scikit-learn", extra="plots")
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    method = manifold.TSNE(n_components=2, init="pca", perplexity=perplexity, random_state=seed, n_jobs=1)
    return [PlacedWord(*word, *map(float, at)) for word, at in zip(words, method.fit_transform(vectors), strict=True)]


def inspection_tables(result: InspectResult, _: Manifest | None = None) -> list[Block]:
    """Make a table for each sentence and kind of weights."""
    blocks: list[Block] = [Line(f"Inside {figures.with_seed(result.model, result.seed)}", is_headline=True)]
    for number, sentence in enumerate(result.sentences, start=1):
        for name, weights in sentence.weights.items():
            rows = []
            for word, tag, values in zip(sentence.words, sentence.tags, weights.values, strict=True):
                largest = sorted(zip(values, weights.columns, strict=True), key=lambda pair: -pair[0])[:LARGEST]
                shown = [f"{value:.2f} {column}" for value, column in largest if value >= SMALLEST_SHOWN]
                rows.append((word, tag, ", ".join(shown)))
            title = f"Sentence {number}: {name}"
            blocks.append(Table(title, ("word", "tag", "largest"), rows, texts=(0, 1, 2)))
    if result.states:
        domains = ", ".join(dict.fromkeys(word.domain for word in result.states))
        blocks.append(Line(f"{figures.count(len(result.states))} words of {domains} on a plane"))
    return blocks if result.output is None else [*blocks, Line(f"Figures and numbers: {result.output}")]
