"""Curves of F1 over seeds: against target sentences, share of the raw corpus, epochs, or any option or setting."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas

from crossner_cli.errors import CrossNERError
from crossner_cli.reports.measured import MeasuredModel, Provenance

TRAIN_SENTENCES, CORPUS_SHARE, EPOCH = "train-sentences", "corpus-share", "epoch"
AXIS_TITLES = {
    TRAIN_SENTENCES: "labelled target sentences",
    CORPUS_SHARE: "share of the raw corpus",
    EPOCH: "epoch",
    "label-size": "size of label embeddings",
}
# A curve is named by those that take several values, then by more until no two points of it share a place and a seed.
NAMED_BY = ("method", "regime", "encoder", "target", "mode", "decoding", "dev of")
NAMED_FURTHER_BY = ("model", "run")
MOST_LABELS = 3  # labels named in a note


@dataclass(frozen=True)
class CurvePoint:
    """F1 at one place of a curve: of each seed, their mean and deviation."""

    x: float
    mean: float
    deviation: float | None
    values: list[float]


@dataclass(frozen=True)
class Curves:
    """F1 over one axis.

    Args:
        x: The axis as ``--x`` names it.
        x_title: The axis in words.
        y: What was measured.
        series: The points of each curve, in order of the axis.
        notes: What was left out, and why.
    """

    x: str
    x_title: str
    y: str
    series: dict[str, list[CurvePoint]]
    notes: list[str]


def draw_curves(trained: Sequence[Provenance], models: Sequence[MeasuredModel], x: str) -> Curves:
    """Put what was measured into curves.

    Args:
        trained: Trained taggers, which give dev F1 after each epoch for the axis ``epoch``.
        models: Evaluated models, which give F1 on any other axis.
        x: ``train-sentences``, ``corpus-share``, ``epoch``, or an option or setting that is a number.

    Raises:
        CrossNERError: Nothing has a number for that axis.
    """
    notes: list[str] = []
    y = "dev F1" if x == EPOCH else f"{models[0].split if models else 'test'} F1"
    points = _epochs(trained) if x == EPOCH else _scores(models, x, notes)
    if not points:
        raise CrossNERError(
            f"--x {x}: none of the models has a number for it" + (f" ({notes[0]})." if notes else "."),
            hint=f"Take {TRAIN_SENTENCES}, {CORPUS_SHARE}, {EPOCH}, or an option or setting of the training stage that"
            " is a number, as label-size.",
        )
    frame = pandas.DataFrame(points)
    frame["series"] = _name_series(frame)
    series = {
        name: [_point(place, at_place["f1"].tolist()) for place, at_place in curve.groupby("x")]
        for name, curve in frame.groupby("series", sort=False)
    }
    return Curves(x, AXIS_TITLES.get(x, x.replace("-", " ")), y, series, notes)


def _point(x: float, values: list[float]) -> CurvePoint:
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return CurvePoint(x, statistics.fmean(values), deviation, values)


def _epochs(trained: Sequence[Provenance]) -> list[dict[str, Any]]:
    """Return a point an epoch and seed; a seed that stopped early is in the epochs it had."""
    points = []
    for made in trained:
        is_source = made.stage == "pretrain-source" or made.settings.get("select_on") == "source"
        place = {
            **_names(made),
            "target": made.target,
            "mode": "conll",
            "decoding": "trained",
            "dev of": "source's dev" if is_source else "target's dev",
            "model": made.name,
            "run": made.run,
        }
        for seed, scores in made.history.items():
            points += [{**place, "seed": seed, "x": epoch, "f1": f1} for epoch, f1 in enumerate(scores, start=1)]
    return points


def _scores(models: Sequence[MeasuredModel], x: str, notes: list[str]) -> list[dict[str, Any]]:
    """Return a point a model and seed; note the models without a number for the axis."""
    points, left_out = [], []
    for model in models:
        place = None if model.provenance is None else _axis_value(model.provenance, x)
        if model.provenance is None or place is None:
            left_out.append(f"{model.label} of {model.run}/{model.stage}")
            continue
        row = {**_names(model.provenance), "dev of": "", "x": place}
        points += [{**each, **row, "run": f"{model.run}/{model.stage}"} for each in model.rows()]
    if left_out:
        labels = ", ".join(left_out[:MOST_LABELS]) + (", …" if len(left_out) > MOST_LABELS else "")
        notes.append(f"{len(left_out)} left out of the curves, without a known {x}: {labels}")
    return points


def _names(made: Provenance) -> dict[str, str]:
    return {"method": made.method, "regime": made.regime, "encoder": made.encoder}


def _axis_value(made: Provenance, x: str) -> float | None:
    if x == TRAIN_SENTENCES:
        return made.train_sentences
    if x == CORPUS_SHARE:
        return made.corpus_share
    value = made.settings.get(x.replace("-", "_"))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _name_series(frame: pandas.DataFrame) -> pandas.Series[str]:
    """Name the curve of each point by no more than tells the curves apart."""
    columns = [name for name in NAMED_BY if frame[name].nunique() > 1] or ["method"]
    further = list(NAMED_FURTHER_BY)
    while further and frame.duplicated([*columns, "x", "seed"]).any():
        columns.append(further.pop(0))
    return frame[columns].agg(", ".join, axis="columns")
