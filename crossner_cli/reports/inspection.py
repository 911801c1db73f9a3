"""Looking inside a tagger: the weights it computes for a sentence, and the states of its words on a plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import split_tag
from crossner_cli.encoders.subwords import batches_by_length
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger, Weights, find_method, method_names
from crossner_cli.taggers.tagging import inference

Floats = NDArray[np.float32]
FEWEST_POINTS, PERPLEXITY = 5, 30.0


@dataclass(frozen=True)
class HeatMap:
    """Weights of one sentence.

    Args:
        columns: What is weighed, X names.
        values: (W, X).
    """

    columns: tuple[str, ...]
    values: Floats


@dataclass(frozen=True)
class InspectedSentence:
    """A sentence as a tagger saw it.

    Args:
        words: W words.
        tags: Those it gives.
        weights: By name.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    weights: Mapping[str, HeatMap]


@dataclass(frozen=True)
class States:
    """Vectors of words that belong to entities.

    Args:
        vectors: (N, D).
        words: The N words.
        types: Gold entity type of each.
        domains: Domain of each.
    """

    vectors: Floats
    words: list[str]
    types: list[str]
    domains: list[str]


def methods_with_weights() -> list[str]:
    """Methods that compute weights worth looking at."""
    return [name for name in method_names() if find_method(name).explain is not Tagger.explain]


def inspect_sentence(tagger: Tagger, sentence: Sentence, engine: Engine) -> InspectedSentence:
    """Tag one sentence and keep the weights.

    Raises:
        CrossNERError: The tagger computes none.
    """
    reader: Any = tagger.encoder.reader
    with inference(tagger, engine):
        batch = reader.collate(reader.encode([sentence])).to(engine.device)
        (ids,), found = tagger.decode(batch).tags, tagger.explain(batch)
    if not found:
        raise CrossNERError(
            "This tagger computes no weights to look at.",
            hint=f"Methods that do: {', '.join(methods_with_weights())}. --states shows the states of any tagger.",
        )
    tags = tuple(tagger.tag_set.tags[tag_id] for tag_id in ids)
    maps = {name: _heat_map(weights, sentence.words, tags) for name, weights in found.items()}
    return InspectedSentence(sentence.words, tags, maps)


def _heat_map(weights: Weights, words: Sequence[str], tags: Sequence[str]) -> HeatMap:
    columns = weights.columns
    if columns == "words":
        columns = tuple(words)
    elif columns == "labels":
        columns = ("start", *(f"{tag} {word}" for tag, word in zip(tags[:-1], words, strict=False)))
    return HeatMap(tuple(columns), weights.values[0].float().cpu().numpy())


def collect_states(
    tagger: Tagger, sentences: Sequence[Sentence], engine: Engine, *, kind: str, points: int, seed: int
) -> States:
    """States of words inside entities, as many of each domain where there are that many.

    Args:
        tagger: Whose states.
        sentences: With gold tags, of one domain or more.
        engine: Where.
        kind: Name of the states.
        points: Most words.
        seed: Of the choice among more.

    Raises:
        CrossNERError: The tagger has no such states, or there are too few words to draw.
    """
    chosen = _choose_words(sentences, points, seed)
    total = sum(map(len, chosen.values()))
    if total < FEWEST_POINTS:
        raise CrossNERError(
            f"The sentences have {total} words inside entities; {FEWEST_POINTS} are the fewest to draw.",
            hint="Give a larger --points, or prepare more sentences.",
        )
    reader: Any = tagger.encoder.reader
    numbers = sorted(chosen)
    encoded = reader.encode([sentences[number] for number in numbers])
    vectors: dict[int, Floats] = {}
    for group in batches_by_length(encoded, engine.batch_subwords):
        with inference(tagger, engine):
            found = tagger.hidden_states(reader.collate([encoded[place] for place in group]).to(engine.device))
        if kind not in found:
            raise CrossNERError(
                f"--states {kind}: this tagger has no such states.", hint=f"It has: {', '.join(found)}."
            )
        for row, place in enumerate(group):
            words = torch.tensor(chosen[numbers[place]], device=found[kind].device)
            vectors[numbers[place]] = found[kind][row, words].float().cpu().numpy()
    places = [(sentences[number], word) for number in numbers for word in chosen[number]]
    return States(
        np.concatenate([vectors[number] for number in numbers]),
        [sentence.words[word] for sentence, word in places],
        [split_tag((sentence.tags or ())[word])[1] for sentence, word in places],
        [sentence.domain for sentence, _ in places],
    )


def _choose_words(sentences: Sequence[Sentence], points: int, seed: int) -> dict[int, list[int]]:
    """Places of words inside entities, by number of the sentence."""
    by_domain: dict[str, list[tuple[int, int]]] = {}
    for number, sentence in enumerate(sentences):
        inside = [(number, word) for word, tag in enumerate(sentence.tags or ()) if split_tag(tag)[1]]
        by_domain.setdefault(sentence.domain, []).extend(inside)
    generator, chosen, left = np.random.default_rng(seed), dict[int, list[int]](), points
    for done, places in enumerate(sorted(by_domain.values(), key=len)):
        share = min(len(places), left // (len(by_domain) - done))
        left -= share
        for place in sorted(generator.choice(len(places), share, replace=False).tolist() if share else []):
            chosen.setdefault(places[place][0], []).append(places[place][1])
    return chosen


def project(vectors: Floats, seed: int) -> Floats:
    """t-SNE of vectors, (N, D), on a plane, (N, 2); the same vectors and seed give the same plane.

    Source: van der Maaten and Hinton (2008), with scikit-learn's settings and a start by principal components.

    Raises:
        CrossNERError: scikit-learn is not installed.
    """
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise missing_plots() from None
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    method = TSNE(n_components=2, init="pca", perplexity=perplexity, random_state=seed, n_jobs=1)
    plane: Floats = method.fit_transform(vectors).astype(np.float32)
    return plane


def missing_plots() -> CrossNERError:
    """What to say where the packages that draw are not installed."""
    return CrossNERError("matplotlib and scikit-learn, which draw, are not installed.",
                         hint='pip install "crossner[plots]"')  # fmt: skip
