"""``crossner report``: many runs as one table, curve or comparison. It reads manifests and makes no stage."""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.options import Report
from crossner_cli.reports.blocks import short_names, to_markdown
from crossner_cli.reports.curves import Curves, draw_curves
from crossner_cli.reports.measured import MeasuredModel, Measurements, read_runs
from crossner_cli.reports.plots import check_plots, plot_curves
from crossner_cli.reports.published import mark_comparable, published_results
from crossner_cli.reports.report_tables import JSON, MARKDOWN, ReportResult, report_tables
from crossner_cli.run.directory import Manifest
from crossner_cli.run.progress import Progress, Work
from crossner_cli.run.storage import check_output_folder, output_folder, write_csv, write_json

COMMAND = "report"
SCORES_CSV, CURVE_CSV = "report.csv", "curve.csv"
Pair = tuple[MeasuredModel, MeasuredModel]


def run(options: Report) -> Work[Manifest]:
    """Read runs and put together what they measured.

    Returns:
        A record of the form of a manifest, stored nowhere but in ``--output``.

    Raises:
        CrossNERError: There is no such run or baseline, nothing to show, or runs to compare were scored on other
            sentences.
    """
    began = time.perf_counter()
    if options.output is not None:
        check_output_folder(options.output, JSON, force=options.force)
        if options.x is not None:
            check_plots()
    paths = options.runs or [options.run]
    found = read_runs(paths)
    models = [model for model in found.models if model.split in (options.split, "")]  # two files have no split
    notes = [*found.notes, *_notes(found, models, options.split)]
    curves = draw_curves(found.trained, models, options.x) if options.x is not None else None
    comparisons = yield from _compare(models, options.baseline, notes)
    result = ReportResult(
        split=options.split,
        models=[row for model in models for row in model.rows()],
        comparisons=comparisons,
        curves=curves,
        published=_published(models, found, notes) if options.published else [],
        notes=notes,
        output=str(options.output) if options.output is not None else None,
        written=[],
    )
    _refuse_nothing(result, paths)
    record: Manifest = {
        "stage": COMMAND,
        "name": COMMAND,
        "options": options.record(),
        "inputs": {},
        "seconds": round(time.perf_counter() - began, 1),
    }
    if options.output is not None:
        result = _write(options.output, record, result)
    return {**record, "result": dataclasses.asdict(result)}


def _write(folder: Path, record: Manifest, result: ReportResult) -> ReportResult:
    """Write JSON, CSV, Markdown and pictures into a folder that is whole or not there; return what was written."""
    with output_folder(folder, JSON, force=True) as draft:
        written = [JSON, SCORES_CSV, MARKDOWN]
        columns = list(result.models[0]) if result.models else []
        write_csv(draft / SCORES_CSV, columns, [[row[name] for name in columns] for row in result.models])
        if result.curves is not None:
            targets = ", ".join(dict.fromkeys(row["target"] for row in result.models))
            written += [CURVE_CSV, *plot_curves(result.curves, targets, draft)]
            write_csv(draft / CURVE_CSV, ("series", result.curves.x, "f1"), _curve_rows(result.curves))
        result = dataclasses.replace(result, written=written)
        text = to_markdown(report_tables(result, is_short=False), level=3)
        (draft / MARKDOWN).write_text(text, "utf-8", "backslashreplace")
        write_json(draft / JSON, {**record, "result": dataclasses.asdict(result)})
    return result


def _curve_rows(curves: Curves) -> list[list[Any]]:
    return [[name, point.x, f1] for name, points in curves.series.items() for point in points for f1 in point.values]


def _notes(found: Measurements, models: Sequence[MeasuredModel], split: str) -> Iterator[str]:
    """Note what was left out, and what differs between scores that stand side by side."""
    if left := len(found.models) - len(models):
        yield f"{left} model{'s' * (left > 1)} scored on other sentences than {split}: left out."
    for what, names in (
        ("read in several ways", {model.mode for model in models}),
        ("of several encoders", {model.provenance.encoder for model in models if model.provenance}),
    ):
        if len(names) > 1:
            yield f"Scores {what} stand side by side: {', '.join(sorted(names))}."


def _compare(models: Sequence[MeasuredModel], baseline: str | None, notes: list[str]) -> Work[list[dict[str, Any]]]:
    """Compare models with the baseline; without one, the second of two models with the first."""
    if baseline is not None:
        pairs = _pairs_with(baseline, models)
        compared = {id(model) for pair in pairs for model in pair}
        others = [f"{model.label} on {model.target} ({model.mode})" for model in models if id(model) not in compared]
        if others:
            notes.append(f"Not compared, without {baseline} on the same target read alike: {', '.join(others)}.")
    else:
        pairs = [(models[1], models[0])] if len(models) == 2 and _kind(models[0]) == _kind(models[1]) else []
    if not pairs:
        return []
    from crossner_cli.evaluation.comparison import CountedModel, compare_models  # loads scikit-learn

    counted: dict[int, CountedModel] = {}
    found: list[dict[str, Any]] = []
    for number, (one, other) in enumerate(pairs, start=1):
        try:
            for each in (one, other):
                if id(each) not in counted:
                    counted[id(each)] = CountedModel(each.model, "strict" if other.mode == "strict" else "conll")
            comparison = compare_models(counted[id(one)], counted[id(other)])
        except CrossNERError as error:
            if baseline is not None:
                raise
            notes.append(f"Not compared: {error.problem}")
            continue
        place = {"target": other.target, "run": str(one.run), "place": one.model.place}
        found.append({**place, "decoding": one.decoding, "against_decoding": other.decoding, **comparison})
        yield Progress("compare", number, len(pairs), "models", {})
    return found


def _pairs_with(baseline: str, models: Sequence[MeasuredModel]) -> list[Pair]:
    """Pair every model with the baseline on its target.

    Raises:
        CrossNERError: No model has that name, or several on one target.
    """
    shown = short_names(dict.fromkeys(model.label for model in models))
    named = [model for model in models if baseline in (shown[model.label], *_names(model))]
    if not named:
        raise CrossNERError(
            f"--baseline {baseline!r} is none of the models (there are: {', '.join(shown.values()) or 'none'}).",
            hint="Give a model's name, STAGE/NAME with the evaluate stage's, RUN/NAME or RUN/STAGE/NAME.",
        )
    pairs: list[Pair] = []
    for chosen in named:
        alike = [other for other in named if _kind(other) == _kind(chosen)]
        if len(alike) > 1:
            places = [_shortest_name(other, models) for other in alike]
            raise CrossNERError(
                f"--baseline {baseline!r} stands for several models on {chosen.target}: {', '.join(places)}.",
                hint=f"Name one of these: --baseline {shlex.quote(places[-1])}; or give the folder of one evaluate"
                " stage in place of its run.",
            )
        pairs += [(model, chosen) for model in models if model is not chosen and _kind(model) == _kind(chosen)]
    return pairs


def _kind(model: MeasuredModel) -> tuple[str, str]:
    """Return what two models must share to be compared."""
    return model.target, model.mode


def _names(model: MeasuredModel) -> list[str]:
    """List what ``--baseline`` can call a model."""
    own = [model.label, f"{model.stage}/{model.label}"]
    return [*own, *(f"{run}/{name}" for run in (model.run.name, str(model.run)) for name in own)]


def _shortest_name(model: MeasuredModel, models: Sequence[MeasuredModel]) -> str:
    """Return the shortest name that no other model on the same target has, else the longest."""
    others = {name for other in models if other is not model and _kind(other) == _kind(model) for name in _names(other)}
    names = sorted(_names(model), key=len)
    return next((name for name in names if name not in others), names[-1])


def _published(models: Sequence[MeasuredModel], found: Measurements, notes: list[str]) -> list[dict[str, Any]]:
    """Find what the papers print of the targets, and mark the rows of methods and regimes that were measured."""
    targets = {model.target for model in models} | {provenance.target for provenance in found.trained}
    rows = published_results(targets)
    missing = sorted(targets - {*rows["target"], ""})
    if missing:
        notes.append(f"The five papers print no F1 on {', '.join(missing)}.")
    made = [model.provenance for model in models if model.provenance is not None]
    rows["comparable"] = mark_comparable(rows, [*made, *found.trained])
    records: list[dict[str, Any]] = rows.to_dict("records")
    return records


def _refuse_nothing(result: ReportResult, paths: Sequence[Path]) -> None:
    if result.models or result.curves or result.published:
        return
    notes = "".join(f"\n  {note}" for note in result.notes)
    raise CrossNERError(
        f"There are no {result.split} scores in {', '.join(map(str, paths))}.{notes}",
        hint="crossner evaluate --run DIR scores the models of a run; --x epoch shows dev F1 of what is trained.",
    )
