"""Sentences tagged by taggers that have not seen them: their file, and their scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import scheme_shown
from crossner_cli.evaluation.comparison import (
    CONFIDENCE,
    RESAMPLES,
    EntityCounts,
    count_entities,
    resample_f1,
    sentence_weights,
)
from crossner_cli.evaluation.scores import (
    Floats,
    Mode,
    Scored,
    compute_f1,
    other_mode,
    read_entities,
    score,
    summarise,
)
from crossner_cli.run.results import ModelResult, Record
from crossner_cli.run.storage import write_atomically
from crossner_cli.taggers.tagging import Tagged, measure_reliability, score_entities
from crossner_cli.taggers.thresholds import measure_by_score

OUTSIDE = (50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE))  # percentiles of an interval
MORE_SENTENCES = 100  # that a forecast is about
SMALLEST_ERROR = 0.1  # of F1, for the logarithm


@dataclass(frozen=True)
class FoldPrediction:
    """A sentence as tagged by the tagger of the other folds.

    Args:
        fold: Number of its fold, from 0.
        tags: One per word.
        probabilities: The tagger's probability of each tag.
        shares: The probabilities of all tags of each word, those near zero left out; None if its method has none.
    """

    fold: int
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    shares: tuple[Mapping[str, float], ...] | None


def write_predictions(path: Path, sentences: Sequence[Sentence], predictions: Sequence[FoldPrediction]) -> None:
    """Write sentences as ``evaluate`` writes its predictions, with fold and probabilities, in one step."""
    records = [
        {
            "words": sentence.words,
            "gold": sentence.tags,
            "tags": each.tags,
            "fold": each.fold,
            "scores": each.probabilities,
            "probabilities": each.shares,
        }
        for sentence, each in zip(sentences, predictions, strict=True)
    ]
    write_atomically(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def read_predictions(path: Path) -> list[FoldPrediction]:
    """Read what ``write_predictions`` wrote."""
    with path.open(encoding="utf-8") as stream:
        records = [json.loads(line) for line in stream]
    return [
        FoldPrediction(
            record["fold"],
            tuple(record["tags"]),
            tuple(record["scores"]),
            None if record["probabilities"] is None else tuple(record["probabilities"]),
        )
        for record in records
    ]


def score_predictions(sentences: Sequence[Sentence], predictions: Sequence[FoldPrediction], mode: Mode) -> Scored:
    """Score all folds of one seed together, like the sentences of a test split."""
    gold = [sentence.tags or () for sentence in sentences]
    tagged = [Tagged(each.tags, each.probabilities) for each in predictions]
    tags = [each.tags for each in tagged]
    scheme = scheme_shown((*gold, *tags))
    scores, other = (score(gold, tags, mode=each, scheme=scheme) for each in (mode, other_mode(mode)))
    return Scored(scores, other, {}, scheme, tags, score_entities(gold, tagged), None)


def summarise_folds(sentences: Sequence[Sentence], scored: Mapping[str, Scored], mode: Mode, seed: int) -> ModelResult:
    """Average the scores over seeds, with their intervals and the reliability of the entities' own scores.

    Args:
        sentences: With gold tags.
        scored: By seed.
        mode: Reading of tags.
        seed: Of the resamples of sentences that the intervals are of.
    """
    entities = [entity for each in scored.values() for entity in each.entities]
    gold = sum(each.scores.support for each in scored.values())
    reliability = None
    if entities:
        reliability = {"before": measure_reliability(entities), "after": None, **measure_by_score(entities, gold)}
    result = summarise(scored, reliability=reliability)
    types = [row.type for row in result.per_type]
    counts = _count(sentences, scored, mode, types)
    table = np.stack([counts.correct.mean(axis=0), counts.predicted.mean(axis=0), counts.gold], axis=1)
    weights = sentence_weights(len(table), RESAMPLES, np.random.default_rng(seed))
    sums = np.concatenate([each @ table.reshape(len(table), -1) for each in weights])
    correct, predicted, support = np.moveaxis(sums.reshape(RESAMPLES, 3, -1), 1, 0)
    f1 = compute_f1(correct, predicted, support)
    draws = {
        "precision": 100 * correct[:, 0] / np.maximum(1, predicted[:, 0]),
        "recall": 100 * correct[:, 0] / np.maximum(1, support[:, 0]),
        "f1": f1[:, 0],
        **{f"f1 of {name}": f1[:, number] for number, name in enumerate(types, start=1)},
    }
    return replace(result, intervals={name: np.percentile(each, OUTSIDE).tolist() for name, each in draws.items()})


def _count(
    sentences: Sequence[Sentence], scored: Mapping[str, Scored], mode: Mode, types: Sequence[str]
) -> EntityCounts:
    gold = [sentence.tags or () for sentence in sentences]
    predicted = [read_entities(each.tags, mode=mode, scheme=each.scheme) for each in scored.values()]
    return count_entities(read_entities(gold, mode=mode, scheme=scheme_shown(gold)), predicted, types)


def forecast_gain(
    sentences: Sequence[Sentence],
    of_half: Mapping[str, Scored],
    of_all: Mapping[str, Scored],
    folds: int,
    seed: int,
) -> Record:
    """Forecast the F1 that more sentences would bring, by a power law through taggers of half and of all other folds.

    The error, 100 less F1, is taken to fall with a power of the number of sentences that are learnt (Hestness et al.
    2017, section 2).

    Args:
        sentences: All sentences.
        of_half: Their scores by taggers of half of the other folds, by seed.
        of_all: Their scores by taggers of all other folds, by seed.
        folds: Number of folds.
        seed: Of the resamples of sentences that the interval is of.

    Returns:
        ``sentences`` more, ``gain`` in F1, its interval ``low`` to ``high``, and ``half_f1``.
    """
    types = sorted({name for each in (*of_half.values(), *of_all.values()) for name in each.scores.per_type})
    sides = [_count(sentences, scored, "conll", types) for scored in (of_half, of_all)]
    learnt = len(sentences) * (folds - 1) / folds

    def gain(half: Floats, whole: Floats) -> Floats:
        half, whole = (np.maximum(SMALLEST_ERROR, 100 - each) for each in (half, whole))
        power = np.maximum(0.0, np.log2(half / whole))
        now, later = (whole * ((len(sentences) + more) / learnt) ** -power for more in (0, MORE_SENTENCES))
        return now - later

    half, whole = (side.f1()[:, 0].mean() for side in sides)
    draws = resample_f1((sides[0], sides[1]), RESAMPLES, np.random.default_rng(seed))
    low, high = np.percentile(gain(*(each[:, :, 0].mean(axis=1) for each in draws)), OUTSIDE)
    found = {"gain": gain(half, whole), "low": low, "high": high, "half_f1": half}
    return {"sentences": MORE_SENTENCES, **{name: float(value) for name, value in found.items()}}
