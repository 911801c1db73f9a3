"""``crossner report``: many runs as one table, curve or comparison. It reads manifests and makes no stage."""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import FOLDS, OUT_OF_FOLD
from crossner_cli.options import Report
from crossner_cli.reports.blocks import to_markdown
from crossner_cli.reports.columns import make_rows
from crossner_cli.reports.plots import check_plots, plot_curves
from crossner_cli.reports.published import mark_comparable, read_published
from crossner_cli.reports.report_tables import JSON, ReportResult, draw_curves, report_tables
from crossner_cli.reports.runs import MeasuredModel, read_runs
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.environment import make_record
from crossner_cli.run.progress import Progress, Work
from crossner_cli.run.storage import check_output_folder, output_folder, write_csv, write_json

COMMAND = "report"
MARKDOWN, SCORES_CSV, CURVE_CSV = "report.md", "report.csv", "curve.csv"


def run(run: RunDirectory, options: Report) -> Work[Manifest]:
    """Read runs and collect their measurements.

    Returns:
        A record like a manifest, stored only in ``--output``.
    """
    began = time.perf_counter()
    if options.output is not None:
        check_output_folder(options.output, JSON, force=options.force)
        if options.x is not None:
            check_plots()
    paths = options.runs or [run.path]
    found = read_runs(paths)
    wanted = OUT_OF_FOLD if options.split == FOLDS else options.split
    models = [model for model in found.models if (model.result.split or wanted).startswith(wanted)]
    notes = list(found.notes)
    if left := len(found.models) - len(models):
        notes.append(f"{left} model{'s' * (left > 1)} scored on other sentences than {options.split}: left out.")
    curves = draw_curves(found.trained, models, options.x, notes) if options.x is not None else None
    if not models and curves is None:
        raise CrossNERError(
            f"There are no {options.split} scores in {', '.join(map(str, paths))}.",
            hint="crossner evaluate --run DIR scores the models of a run; --x epoch shows dev F1 of trained taggers.",
        )
    comparisons = yield from _compare(models, options.baseline, notes)
    result = ReportResult(
        split=options.split,
        models=[row for model in models for row in make_rows(model)],
        comparisons=comparisons,
        curves=curves,
        published=_published(models, notes) if options.published else [],
        notes=notes,
        output=str(options.output) if options.output is not None else None,
        written=[],
    )
    record = make_record(COMMAND, options.record(), {}, dataclasses.asdict(result), began)
    return record if options.output is None else _write(options.output, record, result)


def _write(folder: Path, record: Manifest, result: ReportResult) -> Manifest:
    """Write JSON, CSV, Markdown and pictures into a folder that is whole or not there; return the JSON."""
    with output_folder(folder, JSON, force=True) as draft:
        written = [JSON, SCORES_CSV, MARKDOWN]
        columns = list(result.models[0]) if result.models else []
        write_csv(draft / SCORES_CSV, columns, [list(row.values()) for row in result.models])
        if result.curves is not None:
            targets = ", ".join(dict.fromkeys(row["target"] for row in result.models))
            written += [CURVE_CSV, *plot_curves(result.curves, targets, draft)]
            rows = [(point["series"], point["x"], point["f1"]) for point in result.curves.points]
            write_csv(draft / CURVE_CSV, ("series", result.curves.x, "f1"), rows)
        result = dataclasses.replace(result, written=written)
        text = to_markdown(report_tables(result), level=3)
        (draft / MARKDOWN).write_text(text, "utf-8", "backslashreplace")
        record["result"] = dataclasses.asdict(result)
        write_json(draft / JSON, record)
    return record


def _compare(models: Sequence[MeasuredModel], baseline: str | None, notes: list[str]) -> Work[list[dict[str, Any]]]:
    """Compare models with the baseline; without one, the two with the highest F1 if all are comparable."""
    if baseline is not None:
        pairs = _pairs_with(baseline, models)
        compared = {id(model) for pair in pairs for model in pair}
        others = [model.place for model in models if id(model) not in compared]
        if others:
            notes.append(f"Not compared, without {baseline} on the same target read alike: {', '.join(others)}.")
    else:
        ranked = sorted(models, key=lambda each: each.model.scores.f1.mean or 0.0, reverse=True)
        pairs = [(ranked[0], ranked[1])] if len(ranked) > 1 and len({each.kind for each in models}) == 1 else []
    if not pairs:
        return []
    from crossner_cli.evaluation.comparison import CountedModel, compare_models  # imports scikit-learn

    counted: dict[int, CountedModel] = {}
    found: list[dict[str, Any]] = []
    for number, (one, other) in enumerate(pairs, start=1):
        try:
            for each in (one, other):
                if id(each) not in counted:
                    counted[id(each)] = CountedModel(each.model, "strict" if other.result.mode == "strict" else "conll")
            comparison = compare_models(counted[id(one)], counted[id(other)])
        except CrossNERError as error:
            if baseline is not None:
                raise
            notes.append(f"Not compared: {error.problem}")
            continue
        place = {"target": other.result.domain, "run": str(one.run), "place": one.model.place}
        decodings = {"decoding": one.result.decoding, "against_decoding": other.result.decoding}
        found.append({**place, **decodings, **comparison})
        yield Progress("compare", number, len(pairs), "models", {})
    return found


def _pairs_with(baseline: str, models: Sequence[MeasuredModel]) -> list[tuple[MeasuredModel, MeasuredModel]]:
    """Pair every model with the baseline on its target.

    Raises:
        CrossNERError: No model has that name, or several on one target.
    """
    named = [model for model in models if model.label == baseline]
    named = named or [model for model in models if model.is_called(baseline)]
    if not named:
        labels = ", ".join(dict.fromkeys(model.label for model in models))
        raise CrossNERError(
            f"--baseline {baseline!r} is not one of the models (there are: {labels or 'none'}).",
            hint="Give a model's name, STAGE/NAME with the evaluate stage's, RUN/NAME or RUN/STAGE/NAME.",
        )
    pairs = []
    for chosen in named:
        alike = [other.place for other in named if other.kind == chosen.kind]
        if len(alike) > 1:
            raise CrossNERError(
                f"--baseline {baseline!r} stands for several models on {chosen.result.domain}: {', '.join(alike)}.",
                hint=f"Name one of these: --baseline {shlex.quote(alike[-1])}",
            )
        pairs += [(model, chosen) for model in models if model is not chosen and model.kind == chosen.kind]
    return pairs


def _published(models: Sequence[MeasuredModel], notes: list[str]) -> list[dict[str, Any]]:
    """Find the papers' numbers for the targets, of the methods and regimes that were measured."""
    rows = read_published({model.result.domain for model in models})
    rows = rows[mark_comparable(rows, [model.provenance for model in models if model.provenance is not None])]
    if rows.empty:
        notes.append("The five papers print no F1 of these methods and regimes on these targets.")
    records: list[dict[str, Any]] = rows.to_dict("records")
    return records
