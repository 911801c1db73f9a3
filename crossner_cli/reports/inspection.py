"""The inside of a tagger: the weights it computes for a sentence, and the states of its words on a plane."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, split_tag
from crossner_cli.data.text import segment
from crossner_cli.encoders.subwords import batches_by_length
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Shares, Tagger, find_method, method_names
from crossner_cli.reports.inspected import HeatMap, InspectedSentence
from crossner_cli.run.environment import import_optional
from crossner_cli.taggers.tagging import inference

Floats = NDArray[np.float32]
FEWEST_POINTS, PERPLEXITY = 5, 30.0


def split_sentences(text: str, tagger: Tagger) -> list[Sentence]:
    """Split a text into sentences of the domain whose types new text is tagged with.

    Raises:
        CrossNERError: The text holds no word.
    """
    domain = tagger.domain_of_new_text
    sentences = [tuple(word.text for word in sentence) for sentence in segment(text, at_line_breaks=True)]
    if not sentences:
        raise CrossNERError(f"--sentence {text!r} holds no word.", hint='Write --sentence "Words of a sentence."')
    return [Sentence(words, None, domain) for words in sentences]


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
        methods = [name for name in method_names() if find_method(name).explain is not Tagger.explain]
        raise CrossNERError(
            "This tagger computes no weights to look at.",
            hint=f"Methods that do: {', '.join(methods)}. --states shows the states of any tagger.",
        )
    tags = [tagger.tag_set.tags[tag_id] for tag_id in ids]
    maps = {name: _heat_map(weights, sentence.words, tags) for name, weights in found.items()}
    return InspectedSentence(list(sentence.words), tags, maps)


def _heat_map(weights: Shares, words: Sequence[str], tags: Sequence[str]) -> HeatMap:
    columns = weights.columns
    if columns == "words":
        columns = tuple(words)
    elif columns == "labels":
        columns = ("start", *(f"{tag} {word}" for tag, word in zip(tags[:-1], words, strict=False)))
    values = weights.values[0].float().cpu().numpy().astype(float)
    return HeatMap(list(columns), values.round(6).tolist())


def collect_states(
    tagger: Tagger, sentences: Sequence[Sentence], engine: Engine, *, kind: str, points: int, seed: int
) -> tuple[Floats, list[tuple[str, str, str]]]:
    """Collect states of at most ``points`` words inside entities, at most as many of a domain as of each other.

    Returns:
        The vectors of N words, (N, D), and of each word its text, its gold entity type and its domain.

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
    vectors: list[Floats] = []
    words: list[tuple[str, str, str]] = []
    for group in batches_by_length(encoded, engine.batch_subwords):
        with inference(tagger, engine):
            found = tagger.hidden_states(reader.collate([encoded[place] for place in group]).to(engine.device))
        if kind not in found:
            raise CrossNERError(
                f"--states {kind}: this tagger has no such states.", hint=f"It has: {', '.join(found)}."
            )
        for row, number in enumerate(numbers[place] for place in group):
            sentence, places = sentences[number], chosen[number]
            vectors.append(found[kind][row, places].float().cpu().numpy())
            tags = sentence.tags or ()
            words += [(sentence.words[place], split_tag(tags[place])[1], sentence.domain) for place in places]
    return np.concatenate(vectors), words


def _choose_words(sentences: Sequence[Sentence], points: int, seed: int) -> dict[int, list[int]]:
    """Choose places of words inside entities, by number of the sentence."""
    by_domain: dict[str, list[tuple[int, int]]] = {}
    for number, sentence in enumerate(sentences):
        inside = [(number, word) for word, tag in enumerate(sentence.tags or ()) if tag != OUTSIDE]
        by_domain.setdefault(sentence.domain, []).extend(inside)
    generator, chosen = random.Random(seed), dict[int, list[int]]()
    for places in by_domain.values():
        for number, word in generator.sample(places, min(len(places), points // len(by_domain))):
            chosen.setdefault(number, []).append(word)
    return chosen


def project(vectors: Floats, seed: int) -> list[list[float]]:
    """Project vectors, (N, D), on a plane, (N, 2), by t-SNE; the same vectors and seed give the same plane.

    Source: van der Maaten and Hinton (2008), with scikit-learn's settings and a start by principal components.

    Raises:
        CrossNERError: scikit-learn is not installed.
    """
    manifold = import_optional("sklearn.manifold", "Words are put on a plane by scikit-learn", extra="plots")
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    method = manifold.TSNE(n_components=2, init="pca", perplexity=perplexity, random_state=seed, n_jobs=1)
    plane: list[list[float]] = method.fit_transform(vectors).astype(np.float32).tolist()
    return plane
