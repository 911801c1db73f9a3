"""Comparisons of two models on the same sentences: difference, how sure, by type, sentences won and lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crossner_cli.data.tags import scheme_shown, to_spans, to_tags
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import EvaluatedModel, Predictions
from crossner_cli.evaluation.scores import Entity, Mode, mean_and_deviation, sentence_entities
from crossner_cli.evaluation.significance import (
    CONFIDENCE,
    RESAMPLES,
    EntityCounts,
    Interval,
    Significance,
    adjust_for_many,
    compare_counts,
)

Sentences = Sequence[tuple[Sequence[str], Sequence[str]]]  # words and gold tags
Record = dict[str, Any]
TIE = 1e-9  # errors of a sentence are means over runs


class CountedModel:
    """A model whose predictions are read and counted.

    Args:
        model: Where its predictions are.
        mode: How tags that cannot follow the one before them are read.

    Raises:
        CrossNERError: A file of predictions is missing or broken, or two seeds were scored on other sentences.
    """

    def __init__(self, model: EvaluatedModel, mode: Mode) -> None:
        self.model, self.mode = model, mode
        predictions = model.read()
        self._first = next(iter(predictions.values()))
        for seed, path in model.files.items():
            check_same_sentences(self.sentences, pair_up(predictions[seed]), model.place, str(path))
        # Each side by itself: a tagger of another run may tag in another scheme than the gold tags.
        self.gold = sentence_entities(self._first.gold, mode=mode, scheme=scheme_shown(self._first.gold))
        # What the stage tells comes first, as a tagger of BIOES may have written neither E- nor S-; older ones do not.
        shown = scheme_shown([tags for each in predictions.values() for tags in each.tags])
        scheme = model.scores.get("scheme", shown)
        self.predicted = [sentence_entities(each.tags, mode=mode, scheme=scheme) for each in predictions.values()]

    @property
    def sentences(self) -> Sentences:
        """Words and gold tags of each sentence."""
        return pair_up(self._first)

    def types(self) -> set[str]:
        """Entity types found in gold or predicted tags."""
        return {name for side in (self.gold, *self.predicted) for found in side for name, _, _ in found}

    def count(self, types: Sequence[str]) -> EntityCounts:
        """Its entities by run, sentence and column: all, then each of the types."""
        correct = [[found & wanted for found, wanted in zip(side, self.gold, strict=True)] for side in self.predicted]
        return EntityCounts(
            np.stack([_by_type(side, types) for side in correct]),
            np.stack([_by_type(side, types) for side in self.predicted]),
            _by_type(self.gold, types),
        )


def pair_up(predictions: Predictions) -> Sentences:
    """Words and gold tags of each sentence."""
    return list(zip(predictions.words, predictions.gold, strict=True))


def _by_type(sentences: Sequence[set[Entity]], types: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Entities of each sentence: all of them, then by type, (sentences, 1 + types)."""
    columns = {name: number for number, name in enumerate(types, start=1)}
    counts = np.zeros((len(sentences), 1 + len(types)), dtype=np.int32)
    for row, found in zip(counts, sentences, strict=True):
        row[0] = len(found)
        for name, _, _ in found:
            row[columns[name]] += 1
    return counts


def check_same_sentences(one: Sentences, other: Sentences, place: str, other_place: str) -> None:
    """Refuse to compare what was scored on other sentences or against other gold tags.

    Raises:
        CrossNERError: They differ; it tells the first sentence that does.
    """
    hint = "Score both on the same prepared test sentences: prepare-data with the same options, then evaluate."
    for number, ((words, gold), (others, other_gold)) in enumerate(zip(one, other, strict=False), start=1):
        for kind, mine, theirs in (("words", words, others), ("gold tags", *_in_one_scheme(gold, other_gold))):
            if list(mine) != list(theirs):
                raise CrossNERError(
                    f"Sentence {number} has other {kind} in {other_place} than in {place}: "
                    f"{_first_difference(mine, theirs, words)}.",
                    hint=hint,
                )
    if len(one) != len(other):
        raise CrossNERError(
            f"{place} has {len(one)} sentences and {other_place} {len(other)}; the first"
            f" {min(len(one), len(other))} are the same.",
            hint=hint,
        )


def _in_one_scheme(one: Sequence[str], other: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Tags of two sentences, in BIO unless they are alike as they are: another scheme may say the same in others."""
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
    """Compare a model with another; a positive difference speaks for the first.

    Args:
        one: The first.
        other: What it is compared with.
        seed: Of the resamples.

    Returns:
        Record: ``model`` and ``against`` with their F1, ``difference`` with interval and p, what sentences alone and
        each other test say, sentences won and lost, and the same by type.

    Raises:
        CrossNERError: They were scored on other sentences, or there are none.
    """
    check_same_sentences(one.sentences, other.sentences, one.model.place, other.model.place)
    if not one.gold:
        raise CrossNERError(f"{one.model.place} holds no sentence to compare on.", hint="Evaluate again with --force.")
    types = sorted(one.types() | other.types())
    counts = one.count(types), other.count(types)
    is_paired = "" != one.model.tagger == other.model.tagger and list(one.model.files) == list(other.model.files)
    found = compare_counts(*counts, is_paired=is_paired, seed=seed)
    errors = counts[0].errors() - counts[1].errors()
    scores = [side.f1() for side in counts]
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
        **_at(found.interval, 0),
        "of_these_taggers": {**_at(found.of_these, 0), "randomisation_p": float(found.randomisation[0])},
        "permutation": permutation,
        "sentences": {
            "all": len(errors),
            "won": int((errors < -TIE).sum()),
            "lost": int((errors > TIE).sum()),
            "tied": int((np.abs(errors) <= TIE).sum()),
        },
        "per_type": _per_type(types, counts, scores, found),
        "resamples": RESAMPLES,
        "confidence": CONFIDENCE,
        "seed": seed,
    }


def _per_type(
    types: Sequence[str], counts: tuple[EntityCounts, EntityCounts], scores: Sequence[Any], found: Significance
) -> list[Record]:
    adjusted = adjust_for_many(found.interval.p[1:])
    rows = [
        {
            "type": name,
            "support": int(counts[0].gold[:, column].sum()),
            "f1": float(scores[0][:, column].mean()),
            "against_f1": float(scores[1][:, column].mean()),
            "difference": float(found.difference[column]),
            **_at(found.interval, column),
            "adjusted_p": float(adjusted[column - 1]),
        }
        for column, name in enumerate(types, start=1)
    ]
    return sorted(rows, key=lambda row: (-row["support"], row["type"]))


def _at(interval: Interval, column: int) -> dict[str, float]:
    return {"low": float(interval.low[column]), "high": float(interval.high[column]), "p": float(interval.p[column])}
