"""The result of ``report``, its lines and tables: comparisons, curves, models by target, published numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas

from crossner_cli import figures
from crossner_cli.errors import CrossNERError
from crossner_cli.reports.blocks import Block, Line, Table, heading, renamed, short_names
from crossner_cli.reports.columns import COLUMNS, make_rows, titles
from crossner_cli.reports.evaluation_tables import comparison_tables
from crossner_cli.reports.published import published_tables
from crossner_cli.reports.runs import MeasuredModel, Provenance
from crossner_cli.run.directory import Manifest
from crossner_cli.run.results import Record

JSON = "report.json"
USUAL = {"mode": "conll", "decoding": "trained"}
# Columns beside a model's name: the first if they vary, the others if two models look alike without them.
VARYING, FURTHER = titles("varying"), (*titles("further"), "from")
TRAIN_SENTENCES, CORPUS_SHARE, EPOCH = "train-sentences", "corpus-share", "epoch"
AXIS_TITLES = {
    TRAIN_SENTENCES: "labelled target sentences",
    CORPUS_SHARE: "share of the raw corpus",
    "label-size": "size of label embeddings",
}
# A curve is named by those that take several values, then by more until no two points of it share a place and a seed.
NAMED_BY = ("method", "regime", "encoder", "target", "mode", "decoding")
NAMED_FURTHER_BY = ("model", "run")


@dataclass(frozen=True)
class Curves:
    """F1 over one axis."""

    x: str  # the axis, as ``--x`` names it
    y: str  # what was measured
    points: list[Record]  # each with ``series`` (the name of the curve), ``x``, ``seed`` and ``f1``

    @property
    def x_title(self) -> str:
        """The axis in words."""
        return AXIS_TITLES.get(self.x, self.x.replace("-", " "))

    def cells(self) -> pandas.DataFrame:
        """Mean and standard deviation of F1 by curve, in their order, and place on the axis."""
        return pandas.DataFrame(self.points).groupby(["series", "x"], sort=False)["f1"].agg(["mean", "std"])


@dataclass(frozen=True)
class ReportResult:
    """The result of ``report``."""

    split: str
    models: list[Record]  # one a model and seed: place, provenance and scores
    comparisons: list[Record]
    curves: Curves | None
    published: list[Record]  # printed numbers of methods and regimes that were measured
    notes: list[str]  # what was left out or should not be compared
    output: str | None
    written: list[str]  # the files in the folder ``output``


def draw_curves(taggers: Sequence[Provenance], models: Sequence[MeasuredModel], x: str, notes: list[str]) -> Curves:
    """Put measurements into curves; note the number of models without a place on the axis.

    Args:
        taggers: Trained taggers, which give dev F1 after each epoch for the axis ``epoch``.
        models: Evaluated models, which give F1 on any other axis.
        x: ``epoch``, or a column, option or setting that is a number, as ``train-sentences``.
        notes: The note is added here.

    Raises:
        CrossNERError: Nothing has a number for that axis.
    """
    points: list[Record] = []
    if x == EPOCH:
        for made in taggers:
            place = {"method": made.method, "regime": made.regime, "encoder": made.encoder}
            place |= {"model": made.name, "run": made.run}
            for seed, trained in made.seeds.items():
                scores = [epoch.get("score") for epoch in trained.history]
                places = [(number, f1) for number, f1 in enumerate(scores, start=1) if f1 is not None]
                points += [{**place, "seed": seed, "x": number, "f1": f1} for number, f1 in places]
    else:
        rows = [{**row, "x": _axis_value(row, model, x)} for model in models for row in make_rows(model)]
        points = [row for row in rows if row["x"] is not None]
        if left_out := len(models) - len({(row["run"], row["stage"], row["model"]) for row in points}):
            notes.append(f"{left_out} of {len(models)} models are left out of the curves: their {x} is not known.")
    if not points:
        raise CrossNERError(
            f"--x {x}: none of the models has a number for it.",
            hint=f"Take {TRAIN_SENTENCES}, {CORPUS_SHARE}, {EPOCH}, or an option or setting of the training stage that"
            " is a number, as label-size.",
        )
    frame = pandas.DataFrame(points)
    columns = [name for name in NAMED_BY if name in frame and frame[name].nunique() > 1] or ["method"]
    columns = _add_until_unique(frame, columns, NAMED_FURTHER_BY, ["x", "seed"])
    frame["series"] = frame[columns].agg(", ".join, axis="columns")
    y = "dev F1" if x == EPOCH else f"{models[0].result.split or 'test'} F1"
    return Curves(x, y, frame[["series", "x", "seed", "f1"]].to_dict("records"))


def _axis_value(row: Record, model: MeasuredModel, x: str) -> float | None:
    """The number of a column, or else of an option or setting; None without one."""
    name, settings = x.replace("-", "_"), model.provenance.settings if model.provenance else {}
    numbers = (value for value in (row.get(name), settings.get(name)) if isinstance(value, int | float))
    return next((value for value in numbers if not isinstance(value, bool)), None)


def _add_until_unique(
    frame: pandas.DataFrame, columns: Sequence[str], further: Sequence[str], place: Sequence[str]
) -> list[str]:
    """Add further columns until no two rows of one place have the same values in all columns."""
    found, left = list(columns), list(further)
    while left and frame.duplicated([*found, *place]).any():
        found.append(left.pop(0))
    return found


def report_tables(result: ReportResult, _: Manifest | None = None) -> list[Block]:
    """Show the result of a report, with the comparison first, if any."""
    shown = short_names(dict.fromkeys(row["model"] for row in result.models))
    details = f"{result.output}/{JSON}" if result.written else "give --output DIR"
    blocks = comparison_tables(renamed(result.comparisons, ("model", "against"), shown), details)
    if result.curves is not None:
        blocks.append(_curve_table(result.curves))
    if result.models:
        blocks += _model_tables(renamed(result.models, ("model",), shown), is_first=not blocks)
    if result.published:
        blocks += published_tables(pandas.DataFrame(result.published))
    blocks += [Line(f"{name} is {label}") for label, name in shown.items() if name != label]
    blocks += [Line(f"Note: {note}") for note in result.notes]
    if result.written:
        blocks.append(Line(f"Written to {result.output}: {', '.join(result.written)}"))
    return blocks


def _model_tables(rows: Sequence[Record], *, is_first: bool) -> list[Block]:
    """Show F1 of each model on each target below the best of all."""
    frame = pandas.DataFrame([_describe(row) for row in rows])
    columns = ["model", *(name for name in VARYING if frame[name].nunique() > 1)]
    columns = _add_until_unique(frame, columns, FURTHER, ["target", "seed"])
    targets = list(frame["target"].unique())
    frame["row"] = frame.groupby(columns, sort=False).ngroup()
    cells = frame.groupby(["row", "target"])["f1"].agg(["mean", "std", "count"])
    texts = _spread(cells).unstack().reindex(columns=targets).fillna(figures.NOTHING)
    if len(targets) > 1:
        averages = cells["mean"].unstack().reindex(columns=targets).mean(axis="columns", skipna=False)
        texts["mean"] = [figures.score(None if pandas.isna(mean) else mean) for mean in averages]
    seeds = cells["count"].groupby("row").agg(lambda found: "/".join(map(str, sorted(set(found)))))
    heads = frame.drop_duplicates("row").assign(seeds=seeds.to_numpy())
    best_row, best_target = cells["mean"].idxmax()
    best = heads.iloc[best_row]
    split = rows[0]["split"]
    of_several = f", the highest of {len(cells)}" if len(cells) > 1 else ""
    headline = (
        f"F1 {texts.loc[best_row, best_target]} on {f'{best_target} {split}'.rstrip()}{of_several}: {best['model']}"
        f" ({best['method']}, {best['encoder']})"
    )
    columns.append("seeds")
    lines = [
        (*head, *texts.loc[number]) for number, head in enumerate(heads[columns].itertuples(index=False, name=None))
    ]
    words = tuple(number for number, name in enumerate(columns) if name in ("model", *VARYING, "from"))
    title = f"{split} F1, mean ± deviation over seeds".lstrip()
    return [Line(headline, is_first), Table(title, (*columns, *texts.columns), lines, texts=words)]


def _describe(row: Record) -> dict[str, Any]:
    """Put a record of a model and seed into the words of the table."""
    unusual = [row[name] for name, usual in USUAL.items() if row[name] != usual]
    return {
        "model": f"{row['model']} ({', '.join(unusual)})" if unusual else row["model"],
        **{column.title: column.format(row[column.name]) for column in COLUMNS if column.shown != "never"},
        "from": f"{row['run']}/{row['stage']}",
        **{name: row[name] for name in ("target", "seed", "f1")},
    }


def _spread(cells: pandas.DataFrame) -> pandas.Series[str]:
    """Write means with their deviations, if any, as text."""
    texts = [
        figures.spread(mean, None if pandas.isna(deviation) else deviation)
        for mean, deviation in zip(cells["mean"], cells["std"], strict=True)
    ]
    return pandas.Series(texts, index=cells.index)


def _curve_table(curves: Curves) -> Table:
    """Show F1 of each curve at each place on the axis."""
    texts = _spread(curves.cells()).unstack("series", sort=False).fillna(figures.NOTHING).sort_index()
    rows = [(_place(curves.x, place), *cells) for place, *cells in texts.itertuples(name=None)]
    title = f"{curves.y} by {curves.x_title}, mean ± deviation over seeds"
    return Table(title, (curves.x_title, *map(heading, texts.columns)), rows)


def _place(x: str, number: float) -> str:
    if x == CORPUS_SHARE:
        return figures.percent(number, 1)
    return figures.count(number) if float(number).is_integer() else f"{number:g}"
