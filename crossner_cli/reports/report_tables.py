"""A report as lines and tables: models by target, comparisons, curves, what papers print."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Row, Table, heading, renamed, short_names
from crossner_cli.reports.comparison_tables import comparison_tables
from crossner_cli.reports.inspection_tables import inspection_tables
from crossner_cli.reports.published import PAPERS, RELABELLED

Record = Mapping[str, Any]
TEXT, INSIDE = "report.md", "inside"
USUAL = {"mode": "conll", "decoding": "trained"}
UNREMARKABLE = ("mean of 3 runs", "number of runs not stated", "")


def report_tables(manifest: Record, *, is_short: bool = True) -> list[Block]:
    """What a report found: the comparison first, where there is one.

    Args:
        manifest: Of the report.
        is_short: Of published rows show only those of the methods and regimes that were measured.
    """
    shown = short_names(dict.fromkeys(model["model"] for model in manifest["result"]["models"]))
    result = {
        **manifest["result"],
        "models": renamed(manifest["result"]["models"], ("model",), shown),
        "comparisons": renamed(manifest["result"]["comparisons"], ("model", "against"), shown),
    }
    blocks: list[Block] = []
    if result["comparisons"]:
        blocks += comparison_tables(result["comparisons"], _details(result))
    if result["curves"] is not None:
        blocks += _curve_tables(result["curves"])
    if result["models"]:
        blocks += _model_tables(result["models"], is_first=not blocks)
    if result["published"]:
        blocks += _published_tables(result, is_short=is_short)
    for seen in result["inside"]:
        place = f"{result['output']}/{INSIDE}/{seen['folder']}"
        blocks += inspection_tables({"result": {**seen, "output": place}})
    blocks += [Line(f"{name} is {label}") for label, name in shown.items() if name != label]
    blocks += [Line(f"Note: {note}") for note in result["notes"]]
    if result["written"]:
        files = [name for name in result["written"] if not name.startswith(f"{INSIDE}/")]  # told with their taggers
        blocks.append(Line(f"Written to {result['output']}: {', '.join(files)}"))
    return blocks


def _details(result: Record) -> str:
    return f"{result['output']}/report.json" if result["written"] else "give --output DIR"


def _model_tables(models: Sequence[Record], *, is_first: bool) -> list[Block]:
    targets = list(dict.fromkeys(model["target"] for model in models))
    best = max(models, key=lambda model: model["f1"]["mean"])
    columns, grouped = _rows(models)
    rows: list[Row] = [
        (*key, "/".join(map(str, sorted({cell["runs"] for cell in cells.values()}))),
         *(_score(cells[target]["f1"]) if target in cells else figures.NOTHING for target in targets),
         *([_mean_of_targets(cells, targets)] if len(targets) > 1 else []))
        for key, cells in grouped.items()
    ]  # fmt: skip
    columns = (*columns, "seeds", *targets)
    splits = " ".join(dict.fromkeys(model["split"] for model in models if model["split"]))  # two files have none
    title = f"{splits} F1, mean ± deviation over seeds".lstrip()
    average = ("mean",) if len(targets) > 1 else ()
    place = f"{best['target']} {best['split']}".rstrip()
    headline = Line(
        f"F1 {_score(best['f1'])} on {place}, the best of {len(models)}: {best['model']}"
        f" ({best['method'] or 'method not told'}, {best['encoder'] or 'encoder not told'})",
        is_headline=is_first,
    )
    return [headline, Table(title, (*columns, *average), rows, texts=(0, 1, 2, 3))]


def _rows(models: Sequence[Record]) -> tuple[Row, dict[Row, dict[str, Record]]]:
    """Models by what a row of the table is, of as few columns as tell two models of one target apart."""
    columns: tuple[str, ...] = ("model", "method", "encoder", "start")
    for more in ((), ("sentences",), ("sentences", "corpus"), ("sentences", "corpus", "from")):
        grouped: defaultdict[Row, dict[str, Record]] = defaultdict(dict)
        for model in models:
            told = _told(model)
            grouped[tuple(told[name] for name in (*columns, *more))][model["target"]] = model
        if sum(map(len, grouped.values())) == len(models):
            break
    return (*columns, *more), grouped


def _told(model: Record) -> dict[str, str]:
    """What columns tell of a model besides its scores."""
    unusual = [model[name] for name, usual in USUAL.items() if model[name] != usual]
    share = model["corpus_share"]
    return {
        "model": f"{model['model']} ({', '.join(unusual)})" if unusual else model["model"],
        **{name: model[name] or figures.NOTHING for name in ("method", "encoder", "start")},
        "sentences": figures.count(model["train_sentences"]),
        "corpus": figures.NOTHING if share is None else figures.percent(share, 1),
        "from": f"{model['run']}/{model['stage']}",
    }


def _mean_of_targets(cells: Mapping[str, Record], targets: Sequence[str]) -> str:
    if set(cells) != set(targets):
        return figures.NOTHING
    return figures.score(sum(cell["f1"]["mean"] for cell in cells.values()) / len(targets))


def _curve_tables(curves: Record) -> list[Block]:
    series = curves["series"]
    by_place = {name: {point["x"]: point for point in points} for name, points in series.items()}
    places = sorted({place for points in by_place.values() for place in points})
    rows: list[Row] = [
        (_place(curves["x"], place), *(_cell(points.get(place)) for points in by_place.values())) for place in places
    ]
    best_name, best = max(
        ((name, point) for name, points in series.items() for point in points), key=lambda pair: pair[1]["mean"]
    )
    headline = Line(
        f"{curves['y']} {_score(best)} at most: {best_name} at {curves['x_title']}"
        f" {_place(curves['x'], best['x'])}",
        is_headline=True,
    )  # fmt: skip
    title = f"{curves['y']} by {curves['x_title']}, mean ± deviation over seeds"
    notes = [Line(f"Note: {note}") for note in curves["notes"]]
    return [headline, Table(title, (heading(curves["x_title"]), *map(heading, series)), rows), *notes]


def _place(x: str, number: float) -> str:
    if x == "corpus-share":
        return figures.percent(number, 1)
    return figures.count(number) if float(number).is_integer() else f"{number:g}"


def _cell(point: Record | None) -> str:
    return figures.NOTHING if point is None else _score(point)


def _score(average: Record) -> str:
    return figures.spread(average["mean"], average["deviation"])


def _published_tables(result: Record, *, is_short: bool) -> list[Block]:
    """A table a paper, its rows as printed."""
    blocks: list[Block] = []
    everything = result["published"]
    published = [number for number in everything if number["comparable"]] if is_short else everything
    for paper, place in dict.fromkeys((number["paper"], number["table"]) for number in published):
        numbers = [number for number in published if (number["paper"], number["table"]) == (paper, place)]
        targets = list(dict.fromkeys(number["target"] for number in numbers))
        rows: defaultdict[Row, dict[str, float]] = defaultdict(dict)
        for number in numbers:
            text = "; ".join(part for part in (number["method"], number["variant"]) if part)
            rows[number["encoder"], text, number["source"]][number["target"]] = number["value"]
        shown = [(*key, *(figures.score(cells.get(target)) for target in targets)) for key, cells in rows.items()]
        title = f"Published, not measured here: {PAPERS[paper]}, {place.lower()}, F1"
        blocks.append(Table(title, ("encoder", "method", "source", *targets), shown, texts=(0, 1, 2)))
        blocks += _remarks(numbers)
    if any(number["target"] in RELABELLED for number in published):
        blocks.append(Line(
            "Published numbers on the CrossNER domains were measured on labels older than their correction of"
            " 2021-01-05."
        ))  # fmt: skip
    left_out = _printed_rows(everything) - _printed_rows(published)
    if left_out:
        place = f"{result['output']}/{TEXT}" if result["written"] else f"{TEXT} of --output DIR"
        blocks.append(Line(
            f"Published rows of other methods, regimes or adaptations ({figures.count(len(left_out))}): {place}"
        ))  # fmt: skip
    return blocks


def _printed_rows(published: Sequence[Record]) -> set[tuple[str, ...]]:
    names = ("paper", "table", "method", "variant", "encoder", "source")
    return {tuple(number[name] for name in names) for number in published}


def _remarks(numbers: Sequence[Record]) -> list[Line]:
    remarks: defaultdict[str, list[str]] = defaultdict(list)
    for number in numbers:
        parts = [part for part in number["notes"].split("; ") if part not in UNREMARKABLE]
        if parts and number["method"] not in remarks["; ".join(parts)]:
            remarks["; ".join(parts)].append(number["method"])
    return [Line(f"{', '.join(methods)}: {remark}") for remark, methods in remarks.items() if methods]
