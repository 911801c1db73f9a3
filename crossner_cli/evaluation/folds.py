"""Sentences as taggers tag them that have not seen them: their file, and their scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import scheme_shown
from crossner_cli.evaluation.comparison import CONFIDENCE, RESAMPLES, CountedModel, sentence_weights
from crossner_cli.evaluation.finished import list_models
from crossner_cli.evaluation.scores import Mode, Scored, compute_f1, other_mode, score, summarise
from crossner_cli.run.results import EvaluateResult, ModelResult
from crossner_cli.run.storage import write_atomically
from crossner_cli.taggers.tagging import Tagged, measure_reliability, score_entities


@dataclass(frozen=True)
class FoldPrediction:
    """A sentence as the tagger of the other folds tags it.

    Args:
        fold: Number of its fold, from 0.
        tags: One a word.
        probabilities: What the tagger gives to each of them.
        shares: The probabilities of all tags of each word, those near zero left out; None if its method has none.
    """

    fold: int
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    shares: tuple[Mapping[str, float], ...] | None


def write_predictions(path: Path, sentences: Sequence[Sentence], predictions: Sequence[FoldPrediction]) -> None:
    """Write sentences as ``evaluate`` writes its predictions, with fold and probabilities; whole or not at all."""
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
    """Score all folds of one seed together, as the sentences of a test split are scored."""
    gold = [sentence.tags or () for sentence in sentences]
    tagged = [Tagged(each.tags, each.probabilities) for each in predictions]
    tags = [each.tags for each in tagged]
    scheme = scheme_shown((*gold, *tags))
    scores, other = (score(gold, tags, mode=each, scheme=scheme) for each in (mode, other_mode(mode)))
    return Scored(scores, other, {}, scheme, tags, score_entities(gold, tagged), None)


def summarise_folds(scored: Mapping[str, Scored]) -> ModelResult:
    """Average the scores over seeds, with the reliability of the entities' own scores."""
    entities = [entity for each in scored.values() for entity in each.entities]
    reliability = {"before": measure_reliability(entities), "after": None} if entities else None
    return summarise(scored, reliability=reliability)


def add_intervals(folder: Path, result: EvaluateResult, seed: int) -> EvaluateResult:
    """Add the intervals of each model's scores, by bootstrap over the sentences.

    Args:
        folder: Holds the predictions.
        result: With the scores.
        seed: Of every draw.
    """
    models = {}
    for model in list_models(folder, result.models, {}, {}):
        counted = CountedModel(model, "strict" if result.mode == "strict" else "conll")
        types = sorted(counted.types())
        counts = counted.count(types)
        correct, predicted = counts.correct.mean(axis=0), counts.predicted.mean(axis=0)
        table = np.stack([correct, predicted, counts.gold], axis=1).reshape(len(counts.gold), -1)
        weights = sentence_weights(len(table), RESAMPLES, np.random.default_rng(seed))
        sums = np.concatenate([each @ table for each in weights]).reshape(RESAMPLES, 3, -1)
        f1 = compute_f1(sums[:, 0], sums[:, 1], sums[:, 2])
        draws = {
            "precision": 100 * sums[:, 0, 0] / np.maximum(1, sums[:, 1, 0]),
            "recall": 100 * sums[:, 0, 0] / np.maximum(1, sums[:, 2, 0]),
            "f1": f1[:, 0],
            **{f"f1 of {name}": f1[:, number] for number, name in enumerate(types, start=1)},
        }
        outside = 50 * (1 - CONFIDENCE)
        intervals = {name: np.percentile(each, [outside, 100 - outside]).tolist() for name, each in draws.items()}
        models[model.label] = replace(model.scores, intervals=intervals)
    return replace(result, models=models)
