"""Curves of F1 over seeds: against target sentences, share of the raw corpus, epochs, or any option or setting."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.reports.measured import Found, Making, Measured

TRAIN_SENTENCES, CORPUS_SHARE, EPOCH = "train-sentences", "corpus-share", "epoch"
AXIS_TITLES = {
    TRAIN_SENTENCES: "labelled target sentences",
    CORPUS_SHARE: "share of the raw corpus",
    EPOCH: "epoch",
    "label-size": "size of label embeddings",
}
SHOWN = 3  # names of what is left out
Tagger = tuple[str, str, Making]  # run, target and making, as Found has them
SERIES = ("method", "model", "regime", "encoder", "start", "run")


@dataclass(frozen=True)
class Point:
    """F1 at one place of a curve.

    Args:
        x: The place.
        values: F1 of each seed, in percent.
    """

    x: float
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over seeds."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over seeds; None of one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Curves:
    """Curves over one axis.

    Args:
        x: What the axis is, as ``--x`` names it.
        y: What was measured.
        series: The points of each curve, in order of the axis.
        notes: What was left out, and why.
    """

    x: str
    y: str
    series: dict[str, list[Point]]
    notes: list[str]

    @property
    def x_title(self) -> str:
        """The axis in words."""
        return AXIS_TITLES.get(self.x, self.x.replace("-", " "))

    def to_json(self) -> dict[str, Any]:
        """Every point with its values."""
        series = {
            name: [{"x": point.x, "mean": point.mean, "deviation": point.deviation, "values": list(point.values)}
                   for point in points]
            for name, points in self.series.items()
        }  # fmt: skip
        return {"x": self.x, "x_title": self.x_title, "y": self.y, "series": series, "notes": self.notes}


@dataclass(frozen=True)
class _Candidate:
    """What would be one point: names by rising detail, the first of which that tells it from others is taken."""

    names: tuple[str, ...]
    x: float
    values: tuple[float, ...]


def draw_curves(found: Found, models: Sequence[Measured], *, x: str, series: str) -> Curves:
    """Make curves of what runs hold.

    A curve is named by ``series``, and by more (target, regime, model, run) where that does not tell its points apart.

    Args:
        found: The runs, whose trained taggers give dev F1 after each epoch for ``x`` ``epoch``.
        models: Evaluated models, which give F1 on any other axis.
        x: ``train-sentences``, ``corpus-share``, ``epoch``, or an option or setting, as ``label-size``.
        series: ``method``, ``model``, ``regime``, ``encoder``, ``start``, ``run``, or an option or setting.

    Raises:
        CrossNERError: No model has a number for that axis.
    """
    notes: list[str] = []
    shown = (found.taggers, []) if x == EPOCH else ([], models)
    taggers, models = _with_series(*shown, series, notes)
    if x == EPOCH:
        y = "dev F1"
        several = len({target for _, target, _ in taggers}) > 1
        candidates = [
            candidate for run, target, making in taggers
            for candidate in _epochs(_names(making, making.name, run, target, several, series), making)
        ]  # fmt: skip
    else:
        y = f"{models[0].split if models else 'test'} F1"
        several = len({model.target for model in models}) > 1
        candidates = _by_axis(models, x, series, several, notes)
    if not candidates:
        raise CrossNERError(
            f"--x {x}: none of the models has a number for it" + (f" ({notes[0]})." if notes else "."),
            hint=f"Take {TRAIN_SENTENCES}, {CORPUS_SHARE}, {EPOCH}, or an option or setting of the training stage that"
            " is a number, as label-size.",
        )
    return Curves(x, y, _join(candidates), notes)


def _names(
    making: Making, label: str, place: str, target: str, several_targets: bool, series: str
) -> tuple[str, ...]:  # fmt: skip
    first = _series_of(making, label, place, series)
    if several_targets:
        first = f"{first}, {target}"
    return first, f"{first} ({making.regime})", f"{first} ({label})", f"{first} ({label}) in {place}"


def _series_of(making: Making, label: str, place: str, series: str) -> str:
    if series in SERIES:
        return {"model": label, "run": place}.get(series) or str(getattr(making, series))
    value = making.settings[series.replace("-", "_")]
    return f"{series} {'none' if value is None else value}"


def _with_series(
    taggers: Sequence[Tagger], models: Sequence[Measured], series: str, notes: list[str]
) -> tuple[Sequence[Tagger], Sequence[Measured]]:
    """What has the option or setting that makes a curve; what has not is noted.

    Raises:
        CrossNERError: Nothing has it.
    """
    if series in SERIES:
        return taggers, models

    def has_it(making: Making | None) -> bool:
        return making is None or series.replace("-", "_") in making.settings

    lacking = list(dict.fromkeys(making.name for _, _, making in taggers if not has_it(making)))
    lacking += [one.model.label for one in models if not has_it(one.making) and one.model.label not in lacking]
    found = [each for each in taggers if has_it(each[2])], [one for one in models if has_it(one.making)]
    if lacking and not found[0] and all(one.making is None for one in found[1]):
        raise CrossNERError(
            f"--series {series}: none of the models has such an option or setting ({_some(lacking)}).",
            hint=f"Take {', '.join(SERIES)}, or an option or setting of the training stage, as label-size.",
        )
    if lacking:
        notes.append(f"{len(lacking)} left out of the curves, since it has no {series}: {_some(lacking)}")
    return found


def _by_axis(
    models: Sequence[Measured], x: str, series: str, several_targets: bool, notes: list[str]
) -> list[_Candidate]:  # fmt: skip
    axis = _axis(x)
    found = []
    left_out: defaultdict[str, list[str]] = defaultdict(list)
    for one in models:
        label, place = one.model.label, f"{one.run}/{one.stage}"
        value = axis(one.making) if one.making is not None else None
        if one.making is None or value is None:
            reason = "no manifest tells how it was made" if one.making is None else f"it has no {x}"
            left_out[reason].append(f"{label} of {place}")
            continue
        unusual = "".join(f", {way}" for way, usual in ((one.mode, "conll"), (one.decoding, "trained")) if way != usual)
        names = _names(one.making, label, place, one.target, several_targets, series)
        found.append(_Candidate(tuple(name + unusual for name in names), value, tuple(one.f1.values())))
    for reason, labels in left_out.items():
        notes.append(f"{len(labels)} left out of the curves, since {reason}: {_some(labels)}")
    return found


def _some(labels: Sequence[str]) -> str:
    return ", ".join(labels[:SHOWN]) + (", …" if len(labels) > SHOWN else "")


def _axis(x: str) -> Callable[[Making], float | None]:
    """What reads the place on the axis."""
    if x == TRAIN_SENTENCES:
        return lambda making: making.train_sentences
    if x == CORPUS_SHARE:
        return lambda making: making.corpus_share
    return lambda making: _number(making.settings.get(x.replace("-", "_")))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _epochs(names: tuple[str, ...], making: Making) -> list[_Candidate]:
    """F1 after each epoch on the dev sentences that chose it; seeds that stopped early are in the epochs they had."""
    if making.stage == "pretrain-source" or making.settings.get("select_on") == "source":
        names = tuple(f"{name}, source's dev" for name in names)
    longest = max((len(scores) for scores in making.history.values()), default=0)
    return [
        _Candidate(names, epoch + 1, tuple(scores[epoch] for scores in making.history.values() if epoch < len(scores)))
        for epoch in range(longest)
    ]


def _join(candidates: Sequence[_Candidate]) -> dict[str, list[Point]]:
    """Name the curves, each by no more than tells its points apart."""
    groups: defaultdict[str, list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        groups[candidate.names[0]].append(candidate)
    series: defaultdict[str, list[Point]] = defaultdict(list)
    for group in groups.values():
        last = len(group[0].names) - 1
        level = next((level for level in range(last) if _is_told_apart(group, level)), last)
        for candidate in group:
            series[candidate.names[level]].append(Point(candidate.x, candidate.values))
    return {name: sorted(points, key=lambda point: point.x) for name, points in series.items()}


def _is_told_apart(group: Sequence[_Candidate], level: int) -> bool:
    places = [(candidate.names[level], candidate.x) for candidate in group]
    return len(set(places)) == len(places)
