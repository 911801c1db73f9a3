"""What mentions may have been seen in before, and all buckets that follow from it."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.sentences import Sentence
from crossner_cli.evaluation import buckets
from crossner_cli.evaluation.buckets import Known, Places, percent_ranges, score_bucket, word_ranges
from crossner_cli.evaluation.error_analysis import ErrorAnalysis
from crossner_cli.evaluation.raw_mentions import is_content_word, mentions_in_raw_text
from crossner_cli.evaluation.spans import Layout, Mask, Numbers, Spans, read_tags
from crossner_cli.evaluation.surface_forms import SurfaceForms
from crossner_cli.run.progress import Work

# Why a bucketing may be left out.
REASONS = {
    "seen in target train": "there are no training sentences of the target",
    "seen in source train": "there are no training sentences of a source",
    "seen in raw text": "there is no raw text of the target",
    "type and source": "there is no source",
    "readings in train": "there are no training sentences of the target",
}


@dataclass(frozen=True)
class Surroundings:
    """What a run knows beside the sentences that are scored; None is what it does not have.

    Args:
        train: Training sentences of the target.
        source_train: Those of the source.
        raw_text: Raw text of the target, a sentence a line.
        source_types: Entity types of the source.
    """

    train: Sequence[Sentence] | None = None
    source_train: Sequence[Sentence] | None = None
    raw_text: Path | None = None
    source_types: tuple[str, ...] | None = None

    def labelled(self) -> dict[str, Sequence[Sentence]]:
        """The labelled sentences there are, by where they come from."""
        sides = {"target train": self.train, "source train": self.source_train}
        return {place: sentences for place, sentences in sides.items() if sentences is not None}


@dataclass(frozen=True)
class Text:
    """Words of the sentences that are scored, as numbers from 1.

    Args:
        numbers: By word; words of labelled surroundings among them.
        layout: Where the sentences are.
        words: The words, (P,).
        known: Words of the labelled surroundings, by where they come from, (P,) each.
        is_content: For each number whether its word is a content word.
    """

    numbers: dict[str, int]
    layout: Layout
    words: NDArray[np.int32]
    known: dict[str, NDArray[np.int32]]
    is_content: Mask

    @classmethod
    def of(cls, sentences: Sequence[Sentence], surroundings: Surroundings) -> Text:
        """Number the words of all labelled sentences."""
        numbers: dict[str, int] = defaultdict(itertools.count(1).__next__)  # a new word gets the next number
        sequences = [sentence.words for sentence in sentences]
        layout = Layout.of(sequences)
        words = layout.number(sequences, numbers)
        known = {}
        for place, side in surroundings.labelled().items():
            sequences = [sentence.words for sentence in side]
            known[place] = Layout.of(sequences).number(sequences, numbers)
        is_content = np.array([False, *map(is_content_word, numbers)])
        return cls(dict(numbers), layout, words, known, is_content)


@dataclass(frozen=True)
class Sorting:
    """What entities are sorted into buckets by.

    Args:
        text: Words of the sentences that are scored.
        forms: Surface forms of all entities, wherever they are.
        known: Labelled text, by where it comes from.
        raw: For each form, whether raw text holds it, and whether it holds one of its content words, (F,) each.
        is_shared: For each type whether the source has it; None without a source.
        readings: Of each form in the target's training sentences, (F,); None without them.
    """

    text: Text
    forms: SurfaceForms
    known: dict[str, Known]
    raw: tuple[Mask, Mask] | None
    is_shared: Mask | None
    readings: Numbers | None

    def buckets(self, analysis: ErrorAnalysis, gold_forms: Numbers, predicted_forms: Numbers) -> dict[str, Any]:
        """Scores of every bucket, by bucketing.

        Args:
            analysis: Entities and what is correct.
            gold_forms: Surface form of each gold entity, (G,).
            predicted_forms: The same of each predicted one, (P,).
        """
        sides = Places(analysis.gold, gold_forms), Places(analysis.predicted, predicted_forms)
        sorted_sides = [self._sort(places, analysis.gold) for places in sides]
        return {
            name: score_bucket(names, gold, sorted_sides[1][name][1], analysis)
            for name, (names, gold) in sorted_sides[0].items()
        }

    def _sort(self, places: Places, gold: Spans) -> dict[str, tuple[tuple[str, ...], Numbers]]:
        """By bucketing, the names of the buckets and the bucket of each entity."""
        spans, layout = places.spans, self.text.layout
        found = {
            "mention length": (word_ranges(buckets.MENTION_LENGTHS), buckets.by_mention_length(spans)),
            "sentence length": (
                word_ranges(buckets.SENTENCE_LENGTHS), buckets.by_sentence_length(spans, layout),
            ),
            "entity density": (
                percent_ranges(buckets.DENSITIES), buckets.by_density(spans, layout, gold),
            ),
        }  # fmt: skip
        for place, known in self.known.items():
            sort = buckets.by_labelled_text(places, self.text.words, known, self.text.is_content)
            found[f"seen in {place}"] = (buckets.SEEN, sort)
        if self.raw is not None:
            found["seen in raw text"] = (buckets.SEEN_IN_TEXT, buckets.by_raw_text(places, *self.raw))
        if self.is_shared is not None:
            found["type and source"] = (buckets.ORIGINS, buckets.by_type(spans, self.is_shared))
        if self.readings is not None:
            found["readings in train"] = (buckets.READINGS, self.readings[places.forms])
        return found


def prepare_sorting(
    text: Text, types: Sequence[str], sides: Sequence[Spans], surroundings: Surroundings
) -> Work[tuple[Sorting, list[Numbers]]]:
    """Number the surface forms of entities and look them up in what surrounds them.

    Args:
        text: Words of the sentences that are scored.
        types: Entity types.
        sides: Gold entities, and those that each tagger predicted.
        surroundings: Where mentions may have been seen.

    Returns:
        What sorts entities, and the surface form of each entity of each side.
    """
    texts, spans, tags = [text.words], list(sides), {}
    for place, known in surroundings.labelled().items():
        tags[place] = read_tags([sentence.tags or () for sentence in known], types)
        spans.append(tags[place].spans("conll", "bio"))
        texts.append(text.known[place])
    offsets = [0] * len(sides) + [int(size) for size in np.cumsum([len(each) for each in texts])[:-1]]
    moved = [each.moved(offset) for each, offset in zip(spans, offsets, strict=True)]
    start, end = (np.concatenate([getattr(each, name) for each in moved]) for name in ("start", "end"))
    forms, numbers = SurfaceForms.build(np.concatenate(texts), start, end)
    found = np.split(numbers, np.cumsum([len(each) for each in spans])[:-1])
    known_texts = {
        place: Known(texts[1 + number], tags[place].prefixes > 0, Places(spans[len(sides) + number], at))
        for number, (place, at) in enumerate(zip(tags, found[len(sides) :], strict=True))
    }
    raw = yield from _look_up(text, sides, found[: len(sides)], forms.count, surroundings.raw_text)
    source = surroundings.source_types
    is_shared = None if source is None else np.array([name in source for name in types], np.bool_)
    train = known_texts.get("target train")
    readings = None if train is None else buckets.count_readings(forms, train)
    return Sorting(text, forms, known_texts, raw, is_shared, readings), found[: len(sides)]


def _look_up(
    text: Text, sides: Sequence[Spans], forms: Sequence[Numbers], count: int, path: Path | None
) -> Work[tuple[Mask, Mask] | None]:
    """Find the forms of the sides in raw text; forms of no side are in none."""
    if path is None:
        return None
    numbers, places = np.unique(np.concatenate(forms), return_index=True)
    start, end = (np.concatenate([getattr(side, name) for side in sides])[places] for name in ("start", "end"))
    found = yield from mentions_in_raw_text(path, list(text.numbers), text.words, start, end)
    seen, partly = np.zeros((2, count), np.bool_)
    seen[numbers], partly[numbers] = found
    return seen, partly
