"""Comparisons of two models on the same sentences: difference, significance, by type, sentences won and lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crossner_cli.data.tags import Scheme, Span, scheme_shown, to_spans, to_tags
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import EvaluatedModel, Predictions
from crossner_cli.evaluation.scores import Floats, Mode, mean_and_deviation, read_entities
from crossner_cli.evaluation.significance import (
    CONFIDENCE,
    RESAMPLES,
    EntityCounts,
    Interval,
    Significance,
    adjust_for_many,
    compare_counts,
)

TaggedSentences = Sequence[tuple[Sequence[str], Sequence[str]]]  # words and gold tags
Record = dict[str, Any]
TIE = 1e-9  # errors of a sentence are means over runs
HINT = "Score both on the same prepared test sentences: prepare-data with the same options, then evaluate."


class CountedModel:
    """The entities of a model's predictions.

    Args:
        model: The model.
        mode: Reading of tags that cannot follow the one before them.

    Raises:
        CrossNERError: A file of predictions is missing or broken, or two seeds were scored on other sentences.
    """

    def __init__(self, model: EvaluatedModel, mode: Mode) -> None:
        self.model, self.mode = model, mode
        predictions = model.read()
        first = next(iter(predictions.values()))
        self.sentences = list_sentences(first)
        for seed, path in model.files.items():
            check_same_sentences(self.sentences, list_sentences(predictions[seed]), model.place, str(path))
        # Each side by itself, since a tagger of another run may tag in another scheme than the gold tags.
        self.gold = read_entities(first.gold, mode=mode, scheme=scheme_shown(first.gold))
        scheme: Scheme = "bioes" if model.scores.scheme == "bioes" else "bio"
        self.predicted = [read_entities(each.tags, mode=mode, scheme=scheme) for each in predictions.values()]

    def types(self) -> set[str]:
        """Entity types found in gold or predicted tags."""
        return {span.type for side in (self.gold, *self.predicted) for spans in side for span in spans}

    def count(self, types: Sequence[str]) -> EntityCounts:
        """Count its entities by run, sentence and column: all types, then each of ``types``."""
        correct = [
            [[span for span in spans if span in right] for spans, right in zip(side, self.gold, strict=True)]
            for side in self.predicted
        ]
        return EntityCounts(
            np.stack([_count_types(side, types) for side in correct]),
            np.stack([_count_types(side, types) for side in self.predicted]),
            _count_types(self.gold, types),
        )


def list_sentences(predictions: Predictions) -> TaggedSentences:
    """List words and gold tags of each sentence."""
    return list(zip(predictions.words, predictions.gold, strict=True))


def _count_types(sentences: Sequence[Sequence[Span]], types: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Count the entities of each sentence: all of them, then by type, (sentences, 1 + types)."""
    columns = {name: number for number, name in enumerate(types, start=1)}
    counts = np.zeros((len(sentences), 1 + len(types)), dtype=np.int32)
    for row, spans in zip(counts, sentences, strict=True):
        row[0] = len(spans)
        for span in spans:
            row[columns[span.type]] += 1
    return counts


def check_same_sentences(one: TaggedSentences, other: TaggedSentences, place: str, other_place: str) -> None:
    """Refuse to compare scores of other sentences or against other gold tags.

    Raises:
        CrossNERError: They differ; it names the first sentence that does.
    """
    for number, ((words, gold), (others, other_gold)) in enumerate(zip(one, other, strict=False), start=1):
        for kind, mine, theirs in (("words", words, others), ("gold tags", *_in_one_scheme(gold, other_gold))):
            if list(mine) != list(theirs):
                raise CrossNERError(
                    f"Sentence {number} has other {kind} in {other_place} than in {place}: "
                    f"{_first_difference(mine, theirs, words)}.",
                    hint=HINT,
                )
    if len(one) != len(other):
        raise CrossNERError(
            f"{place} has {len(one)} sentences and {other_place} {len(other)}; the first"
            f" {min(len(one), len(other))} are the same.",
            hint=HINT,
        )


def _in_one_scheme(one: Sequence[str], other: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Turn the tags of two sentences into BIO unless they are equal: two schemes may describe the same entities."""
    if list(one) == list(other):
        return one, other
    return to_tags(to_spans(one), len(one)), to_tags(to_spans(other), len(other))


def _first_difference(mine: Sequence[str], theirs: Sequence[str], words: Sequence[str]) -> str:
    for place, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        if one != other:
            at = "" if one == words[place] else f" of {words[place]!r}"
            return f"word {place + 1}{at}: {other!r} and not {one!r}"
    return f"{len(theirs)} and not {len(mine)}"


def compare_models(one: CountedModel, other: CountedModel, *, seed: int = 1) -> Record:
    """Compare a model with another; a positive difference means that the first is better.

    Args:
        one: The first.
        other: The second.
        seed: Seed of the resamples.

    Returns:
        Record: ``model`` and ``against`` with their F1, ``difference`` with interval and p, the result of each single
        test, sentences won and lost, and the same by type.

    Raises:
        CrossNERError: They were scored on other sentences, or there are none.
    """
    check_same_sentences(one.sentences, other.sentences, one.model.place, other.model.place)
    if not one.sentences:
        raise CrossNERError(f"{one.model.place} holds no sentence to compare on.", hint="Evaluate again with --force.")
    types = sorted(one.types() | other.types())
    counts = one.count(types), other.count(types)
    is_paired = "" != one.model.tagger == other.model.tagger and list(one.model.files) == list(other.model.files)
    found = compare_counts(*counts, is_paired=is_paired, seed=seed)
    errors = counts[0].errors() - counts[1].errors()
    scores = counts[0].f1(), counts[1].f1()
    permutation = None
    if found.permutation is not None:
        permutation = {"p": float(found.permutation[0]), "smallest": found.smallest_permutation}
    return {
        "model": one.model.label,
        "against": other.model.label,
        "against_place": other.model.place,
        "mode": one.mode,
        "f1": mean_and_deviation(scores[0][:, 0].tolist()),
        "against_f1": mean_and_deviation(scores[1][:, 0].tolist()),
        "runs": [side.runs for side in counts],
        "is_paired": is_paired,
        "difference": float(found.difference[0]),
        **_column(found.interval, 0),
        "of_these_taggers": {**_column(found.of_these, 0), "randomisation_p": float(found.randomisation[0])},
        "permutation": permutation,
        "sentences": {
            "all": len(errors),
            "won": int((errors < -TIE).sum()),
            "lost": int((errors > TIE).sum()),
            "tied": int((np.abs(errors) <= TIE).sum()),
        },
        "per_type": _compare_types(types, counts[0].gold.sum(axis=0), scores, found),
        "resamples": RESAMPLES,
        "confidence": CONFIDENCE,
        "seed": seed,
    }


def _compare_types(
    types: Sequence[str], supports: Sequence[int], scores: tuple[Floats, Floats], found: Significance
) -> list[Record]:
    adjusted = adjust_for_many(found.interval.p[1:])
    rows = [
        {
            "type": name,
            "support": int(supports[column]),
            "f1": float(scores[0][:, column].mean()),
            "against_f1": float(scores[1][:, column].mean()),
            "difference": float(found.difference[column]),
            **_column(found.interval, column),
            "adjusted_p": float(adjusted[column - 1]),
        }
        for column, name in enumerate(types, start=1)
    ]
    return sorted(rows, key=lambda row: (-row["support"], row["type"]))


def _column(interval: Interval, column: int) -> dict[str, float]:
    return {"low": float(interval.low[column]), "high": float(interval.high[column]), "p": float(interval.p[column])}
