"""The result of ``report``, and its lines and tables: comparisons, curves, models by target, published numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Table, heading, renamed, short_names
from crossner_cli.reports.curves import CORPUS_SHARE, Curves
from crossner_cli.reports.evaluation_tables import comparison_tables
from crossner_cli.reports.published import PAPERS, RELABELLED, ROW
from crossner_cli.run.results import Record

JSON, MARKDOWN = "report.json", "report.md"
USUAL = {"mode": "conll", "decoding": "trained"}
UNREMARKABLE = ("mean of 3 runs", "number of runs not stated", "")
# Columns beside a model's name: the first where they vary, the others where two models are not told apart without.
VARYING = ("method", "encoder", "start")
FURTHER = ("sentences", "corpus", "from")


@dataclass(frozen=True)
class ReportResult:
    """The result of ``report``.

    Args:
        split: Of the scores.
        models: A record a model and seed: place, provenance and scores.
        comparisons: Of models with the baseline.
        curves: With ``--x``.
        published: Printed numbers; ``comparable`` ones are of methods and regimes that were measured.
        notes: What was left out or should not be compared.
        output: The folder of the report.
        written: The files in it.
    """

    split: str
    models: list[Record]
    comparisons: list[Record]
    curves: Curves | None
    published: list[Record]
    notes: list[str]
    output: str | None
    written: list[str]


def report_tables(result: ReportResult, *, is_short: bool = True) -> list[Block]:
    """Show what a report found: the comparison first, where there is one.

    Args:
        result: Of the report.
        is_short: Show those published rows alone whose methods and regimes were measured.
    """
    shown = short_names(dict.fromkeys(row["model"] for row in result.models))
    blocks: list[Block] = []
    if result.comparisons:
        details = f"{result.output}/{JSON}" if result.written else "give --output DIR"
        blocks += comparison_tables(renamed(result.comparisons, ("model", "against"), shown), details)
    if result.curves is not None:
        blocks += _curve_tables(result.curves)
    if result.models:
        blocks += _model_tables(renamed(result.models, ("model",), shown), is_first=not blocks)
    if result.published:
        blocks += _published_tables(result, is_short=is_short)
    blocks += [Line(f"{name} is {label}") for label, name in shown.items() if name != label]
    blocks += [Line(f"Note: {note}") for note in result.notes]
    if result.written:
        blocks.append(Line(f"Written to {result.output}: {', '.join(result.written)}"))
    return blocks


def _model_tables(rows: Sequence[Record], *, is_first: bool) -> list[Block]:
    """Show F1 of each model on each target below the best of all."""
    frame = pandas.DataFrame([_describe(row) for row in rows])
    columns = _telling_columns(frame)
    targets = list(frame["target"].unique())
    frame["row"] = frame.groupby(columns, sort=False).ngroup()
    heads = frame.drop_duplicates("row")
    cells = frame.groupby(["row", "target"])["f1"].agg(["mean", "std", "count"])
    texts = cells.apply(_spread, axis="columns").unstack().reindex(columns=targets).fillna(figures.NOTHING)
    averages = cells["mean"].unstack().reindex(columns=targets).mean(axis="columns", skipna=False).map(_score)
    counts = sorted(cells["count"].unique())
    if len(counts) > 1:
        columns.append("seeds")
        heads = heads.assign(seeds=cells["count"].groupby("row").agg(_join_counts).to_numpy())
    best_row, best_target = cells["mean"].idxmax()
    best = heads.iloc[best_row]
    place = f"{best_target} {rows[0]['split']}".rstrip()
    headline = Line(
        f"F1 {texts.loc[best_row, best_target]} on {place}, the best of {len(cells)}: {best['model']}"
        f" ({best['method']}, {best['encoder']})",
        is_headline=is_first,
    )
    over = "" if len(counts) > 1 or counts == [1] else f", mean ± deviation over {counts[0]} seeds"
    has_mean = len(targets) > 1
    table = Table(
        f"{rows[0]['split']} F1{over}".lstrip(),
        (*columns, *targets, *(["mean"] if has_mean else [])),
        [
            (*head, *texts.loc[number], *([averages[number]] if has_mean else []))
            for number, head in enumerate(heads[columns].itertuples(index=False, name=None))
        ],
        texts=tuple(number for number, name in enumerate(columns) if name in ("model", *VARYING, "from")),
    )
    shared = [f"{name} {best[name]}" for name in VARYING if len(heads) > 1 and heads[name].nunique() == 1]
    return [headline, table, *([Line(f"All models: {', '.join(shared)}")] if shared else [])]


def _describe(row: Record) -> dict[str, Any]:
    """Put a record of a model and seed into the words of the table."""
    unusual = [row[name] for name, usual in USUAL.items() if row[name] != usual]
    share = row["corpus_share"]
    return {
        "model": f"{row['model']} ({', '.join(unusual)})" if unusual else row["model"],
        **{name: row[name] or f"{name} unknown" for name in VARYING},
        "sentences": figures.count(row["train_sentences"]),
        "corpus": figures.NOTHING if share is None else figures.percent(share, 1),
        "from": f"{row['run']}/{row['stage']}",
        **{name: row[name] for name in ("target", "seed", "f1")},
    }


def _telling_columns(frame: pandas.DataFrame) -> list[str]:
    """Choose the columns that tell models apart: those that vary, and as few more as are needed."""
    columns = ["model", *(name for name in VARYING if frame[name].nunique() > 1)]
    if (frame["method"] == frame["model"]).all() and "method" in columns:
        columns.remove("method")
    further = list(FURTHER)
    while further and frame.duplicated([*columns, "target", "seed"]).any():
        columns.append(further.pop(0))
    return columns


def _join_counts(counts: pandas.Series[int]) -> str:
    return "/".join(map(str, sorted(set(counts))))


def _spread(cell: Any) -> str:
    return figures.spread(cell["mean"], None if pandas.isna(cell["std"]) else cell["std"])


def _score(mean: float) -> str:
    return figures.score(None if pandas.isna(mean) else mean)


def _curve_tables(curves: Curves) -> list[Block]:
    by_place = {name: {point.x: point for point in points} for name, points in curves.series.items()}
    places = sorted({place for points in by_place.values() for place in points})
    cells = {
        (name, place): figures.spread(point.mean, point.deviation)
        for name, points in by_place.items()
        for place, point in points.items()
    }
    best_name, best_place = max(cells, key=lambda key: by_place[key[0]][key[1]].mean)
    headline = Line(
        f"{curves.y} {cells[best_name, best_place]} at most: {best_name} at {curves.x_title}"
        f" {_place(curves.x, best_place)}",
        is_headline=True,
    )
    title = f"{curves.y} by {curves.x_title}, mean ± deviation over seeds"
    if len(by_place) > len(places):  # what there is less of makes the columns
        columns = ("curve", *(_place(curves.x, place) for place in places))
        rows = [(name, *(cells.get((name, place), figures.NOTHING) for place in places)) for name in by_place]
    else:
        columns = (curves.x_title, *map(heading, by_place))
        rows = [
            (_place(curves.x, place), *(cells.get((name, place), figures.NOTHING) for name in by_place))
            for place in places
        ]
    return [headline, Table(title, columns, rows), *(Line(f"Note: {note}") for note in curves.notes)]


def _place(x: str, number: float) -> str:
    if x == CORPUS_SHARE:
        return figures.percent(number, 1)
    return figures.count(number) if float(number).is_integer() else f"{number:g}"


def _published_tables(result: ReportResult, *, is_short: bool) -> list[Block]:
    """Make a table for each table of a paper, its rows as printed."""
    everything = pandas.DataFrame(result.published)
    published = everything[everything["comparable"]] if is_short else everything
    blocks: list[Block] = []
    for (paper, place), numbers in published.groupby(["paper", "table"], sort=False):
        targets = list(numbers["target"].unique())
        numbers = numbers.assign(row=numbers.groupby(ROW, sort=False).ngroup())
        values = numbers.pivot(index="row", columns="target", values="value").reindex(columns=targets)
        rows = [
            ("; ".join(filter(None, (row.printed, row.variant, row.encoder))), row.source, *map(_score, cells))
            for row, cells in zip(numbers.drop_duplicates("row").itertuples(), values.to_numpy(), strict=True)
        ]
        title = f"Published, not measured here: {PAPERS[paper]}, {place.lower()}, F1"
        blocks.append(Table(title, ("method and encoder", "source", *targets), rows, texts=(0, 1)))
        blocks += _remarks(numbers)
    if published["target"].isin(RELABELLED).any():
        text = (
            "Published numbers on the CrossNER domains were measured before their labels were corrected (2021-01-05)."
        )
        blocks.append(Line(text))
    left_out = len(everything.drop_duplicates(ROW)) - len(published.drop_duplicates(ROW))
    if left_out:
        where = f"{result.output}/{MARKDOWN}" if result.written else f"{MARKDOWN} of --output DIR"
        blocks.append(Line(f"Published rows of other methods, regimes or adaptations ({left_out}): {where}"))
    return blocks


def _remarks(numbers: pandas.DataFrame) -> list[Line]:
    """Repeat what the notes of printed rows say beyond the usual, with the methods they are about."""
    methods: dict[str, dict[str, None]] = {}
    for number in numbers.itertuples():
        remark = "; ".join(part for part in number.notes.split("; ") if part not in UNREMARKABLE)
        methods.setdefault(remark, {})[number.printed] = None
    return [Line(f"{', '.join(names)}: {remark}") for remark, names in methods.items() if remark]
