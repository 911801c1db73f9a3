"""Scores of parts of a test set: entities sorted into buckets by what they or their sentence are like.

Gold and predicted entities are sorted by the same rule, so that a bucket has precision, recall and F1: what is correct
is in the same bucket on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_cli.evaluation.error_analysis import CORRECT, ErrorAnalysis
from crossner_cli.evaluation.span_scores import shares
from crossner_cli.evaluation.spans import Layout, Mask, Numbers, Spans
from crossner_cli.evaluation.surface_forms import SurfaceForms, any_within

MENTION_LENGTHS = (1, 2, 3, 4)
SENTENCE_LENGTHS = (10, 20, 30, 50)
DENSITIES = (0.0, 0.1, 0.2, 0.3)  # words of gold entities in all words of the sentence
SEEN = ("seen, this type", "seen, other type", "partly seen", "unseen")
SEEN_IN_TEXT = ("seen", "partly seen", "unseen")
READINGS = ("not in train", "1 reading", "2 readings", "3+ readings")
ORIGINS = ("shared", "target only")


@dataclass(frozen=True)
class Places:
    """Entities to be sorted: where they are, and the number of their surface form.

    Args:
        spans: Entities of the sentences that are scored.
        forms: Surface form of each, (N,).
    """

    spans: Spans
    forms: Numbers


@dataclass(frozen=True)
class Known:
    """Labelled text in which mentions may have been seen.

    Args:
        text: Its words, (P,).
        is_inside: Whether each is in an entity, (P,).
        places: Its entities.
    """

    text: NDArray[Any]
    is_inside: Mask
    places: Places


def score_bucket(names: Sequence[str], gold: Numbers, predicted: Numbers, analysis: ErrorAnalysis) -> dict[str, Any]:
    """Scores of each bucket.

    Args:
        names: The buckets.
        gold: Bucket of each gold entity, (G,).
        predicted: Bucket of each predicted one, (P,).
        analysis: What is correct.

    Returns:
        By bucket ``n`` (gold entities), ``predicted``, ``correct``, precision, recall and F1.
    """
    size = len(names)
    columns = (gold, predicted, gold[analysis.gold_kind == CORRECT])
    counts = np.stack([np.bincount(column, minlength=size) for column in columns])
    return {
        name: {
            "n": int(counts[0, number]), "predicted": int(counts[1, number]), "correct": int(counts[2, number]),
            **shares(*(int(counts[row, number]) for row in (2, 1, 0))),
        }
        for number, name in enumerate(names)
    }  # fmt: skip


def by_mention_length(spans: Spans) -> Numbers:
    """Bucket of each entity by its words."""
    return np.searchsorted(MENTION_LENGTHS, spans.lengths)


def by_sentence_length(spans: Spans, layout: Layout) -> Numbers:
    """Bucket of each entity by the words of its sentence."""
    return np.searchsorted(SENTENCE_LENGTHS, layout.lengths)[layout.sentence_of(spans.start)]


def by_density(spans: Spans, layout: Layout, gold: Spans) -> Numbers:
    """Bucket of each entity by the share of its sentence's words that are in gold entities."""
    inside = np.bincount(
        layout.sentence_of(gold.start), weights=gold.lengths.astype(np.float64), minlength=len(layout.lengths)
    )
    # A hair less, so that a share that is a border but for rounding stays below it.
    density = inside / np.maximum(layout.lengths, 1) - 1e-9
    return np.searchsorted(DENSITIES, density)[layout.sentence_of(spans.start)]


def by_type(spans: Spans, is_shared: Mask) -> Numbers:
    """Bucket of each entity by whether the source has its type."""
    return np.where(is_shared[spans.type], 0, 1)


def by_labelled_text(places: Places, text: NDArray[Any], known: Known, is_content: Mask) -> Numbers:
    """Bucket of each entity by whether its words are an entity of known text.

    Args:
        places: Entities.
        text: Words of the sentences they are in.
        known: Where they may have been seen.
        is_content: For each word, whether it is one that tells something; see ``partly seen``.

    Returns:
        Places in ``SEEN``: the very words are an entity there, of this type or only of others; or one of the content
        words is in an entity there, of any type (Taillé et al. 2020 take partial matches of the same type).
    """
    width = int(max(places.spans.type.max(initial=0), known.places.spans.type.max(initial=0))) + 1
    has_form = np.isin(places.forms, known.places.forms)
    has_both = np.isin(places.forms * width + places.spans.type, known.places.forms * width + known.places.spans.type)
    in_mention = np.zeros(len(is_content), np.bool_)
    in_mention[known.text[known.is_inside]] = True
    is_partly = any_within((in_mention & is_content)[text], places.spans.start, places.spans.end)
    return np.select([has_both, has_form, is_partly], [0, 1, 2], 3)


def by_raw_text(places: Places, seen: Mask, partly: Mask) -> Numbers:
    """Bucket of each entity by whether raw text holds its form, or one of its content words.

    Args:
        places: Entities.
        seen: For each form, whether it is there, (F,).
        partly: For each form, whether one of its content words is, (F,).
    """
    return np.select([seen[places.forms], partly[places.forms]], [0, 1], 2)


def count_readings(forms: SurfaceForms, known: Known) -> Numbers:
    """How many readings each form has in known text: entity types, and ``O`` where it stands outside of all entities.

    Returns:
        A number for each form, at most that of the last of ``READINGS``, (F,).
    """
    kinds = np.unique(np.stack([known.places.forms, known.places.spans.type]), axis=1)
    readings = np.bincount(kinds[0], minlength=forms.count)
    is_outside = np.zeros(forms.count, np.bool_)
    for start, found, length in forms.find(known.text):
        is_outside[found[~any_within(known.is_inside, start, start + length)]] = True
    return np.minimum(readings + is_outside, len(READINGS) - 1)


def word_ranges(borders: Sequence[int]) -> tuple[str, ...]:
    """Names of the buckets between borders, as ``1 word``, ``11-20 words``, ``51+ words``."""
    names, low = [], 1
    for high in borders:
        names.append(f"{low}-{high} words" if low < high else "1 word" if high == 1 else f"{high} words")
        low = high + 1
    return (*names, f"{low}+ words")


def percent_ranges(borders: Sequence[float]) -> tuple[str, ...]:
    """Names of the buckets between shares, as ``0 %``, ``0-10 %`` (without 0), ``over 30 %``."""
    percents = [f"{100 * border:.0f}" for border in borders]
    between = [f"{low}-{high} %" for low, high in pairwise(percents)]
    return (f"{percents[0]} %", *between, f"over {percents[-1]} %")
