"""Scores counted from columns of entities: the same numbers as seqeval's, for millions of sentences in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crossner_cli.evaluation.error_analysis import CORRECT, ErrorAnalysis
from crossner_cli.evaluation.spans import Numbers

Shares = dict[str, float]


def shares(correct: float, predicted: float, gold: float) -> Shares:
    """Precision, recall and F1 in percent; what cannot be divided is 0."""
    return {
        "precision": 100 * correct / predicted if predicted else 0.0,
        "recall": 100 * correct / gold if gold else 0.0,
        "f1": 200 * correct / (predicted + gold) if predicted + gold else 0.0,
    }


def score_spans(analysis: ErrorAnalysis, types: Sequence[str]) -> dict[str, Any]:
    """Precision, recall, F1 and support by type and over all types.

    Returns:
        ``micro``, ``macro`` and ``weighted`` (by gold entities) averages, the counts behind them, and ``per_type``:
        types found in gold or predicted tags.
    """
    gold, predicted, correct = (
        np.bincount(column, minlength=len(types))
        for column in (
            analysis.gold.type, analysis.predicted.type, analysis.gold.type[analysis.gold_kind == CORRECT],
        )
    )  # fmt: skip
    per_type = {
        name: {
            **shares(int(correct[number]), int(predicted[number]), int(gold[number])),
            "support": int(gold[number]), "predicted": int(predicted[number]), "correct": int(correct[number]),
        }
        for number, name in enumerate(types) if gold[number] or predicted[number]
    }  # fmt: skip
    return {
        "micro": shares(int(correct.sum()), int(predicted.sum()), int(gold.sum())),
        "macro": _average(per_type, [1] * len(per_type)),
        "weighted": _average(per_type, [row["support"] for row in per_type.values()]),
        "support": int(gold.sum()), "predicted": int(predicted.sum()), "correct": int(correct.sum()),
        "per_type": per_type,
    }  # fmt: skip


def _average(per_type: dict[str, Any], weights: Sequence[float]) -> Shares:
    total = sum(weights)
    return {
        name: sum(weight * row[name] for weight, row in zip(weights, per_type.values(), strict=True)) / total
        if total else 0.0
        for name in ("precision", "recall", "f1")
    }  # fmt: skip


def score_detection(analysis: ErrorAnalysis) -> dict[str, float]:
    """Scores of the entities' words alone, whatever their types."""
    found, _ = analysis.right_spans()
    counts = {"support": len(analysis.gold), "predicted": len(analysis.predicted), "correct": len(found)}
    return {**shares(counts["correct"], counts["predicted"], counts["support"]), **counts}


def score_typing(analysis: ErrorAnalysis, types: Sequence[str]) -> dict[str, Any]:
    """How often the type is right where the words are, in percent, over all gold types and by each."""
    found, _ = analysis.right_spans()
    named = analysis.gold.type[found]
    right: Numbers = np.bincount(named[analysis.gold_kind[found] == CORRECT], minlength=len(types))
    spans: Numbers = np.bincount(named, minlength=len(types))
    return {
        **_accuracy(int(right.sum()), int(spans.sum())),
        "per_type": {
            name: _accuracy(int(right[number]), int(spans[number])) for number, name in enumerate(types)
            if spans[number]
        },
    }  # fmt: skip


def _accuracy(right: int, spans: int) -> dict[str, float | None]:
    return {"accuracy": 100 * right / spans if spans else None, "right_spans": spans, "right_types": right}
