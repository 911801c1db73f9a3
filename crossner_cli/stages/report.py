"""``crossner report``: many runs as one table or curve. It reads manifests and makes no stage."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import FOLDS, OUT_OF_FOLD
from crossner_cli.options import Report
from crossner_cli.reports.blocks import to_markdown
from crossner_cli.reports.columns import make_rows
from crossner_cli.reports.plots import check_plots, plot_curves
from crossner_cli.reports.report_tables import JSON, ReportResult, draw_curves, report_tables
from crossner_cli.reports.runs import read_runs
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.storage import check_output_folder, output_folder, write_csv, write_json

COMMAND = "report"
MARKDOWN, SCORES_CSV, CURVE_CSV = "report.md", "report.csv", "curve.csv"


def run(run: RunDirectory, options: Report) -> Work[Manifest]:
    """Read runs and put together what they measured.

    Returns:
        A record of the form of a manifest, stored nowhere but in ``--output``.

    Raises:
        CrossNERError: There is no such run, or nothing to show.
    """
    began = time.perf_counter()
    if options.output is not None:
        check_output_folder(options.output, JSON, force=options.force)
        if options.x is not None:
            check_plots()
    paths = options.runs or [run.path]
    yield Notice(f"reading {', '.join(map(str, paths))}")
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
            hint="crossner evaluate --run DIR scores the models of a run; --x epoch shows dev F1 of what is trained.",
        )
    result = ReportResult(
        split=options.split,
        models=[row for model in models for row in make_rows(model)],
        curves=curves,
        notes=notes,
        output=str(options.output) if options.output is not None else None,
        written=[],
    )
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
        write_csv(draft / SCORES_CSV, columns, [list(row.values()) for row in result.models])
        if result.curves is not None:
            targets = ", ".join(dict.fromkeys(row["target"] for row in result.models))
            written += [CURVE_CSV, *plot_curves(result.curves, targets, draft)]
            rows = [(point["series"], point["x"], point["f1"]) for point in result.curves.points]
            write_csv(draft / CURVE_CSV, ("series", result.curves.x, "f1"), rows)
        result = dataclasses.replace(result, written=written)
        text = to_markdown(report_tables(result), level=3)
        (draft / MARKDOWN).write_text(text, "utf-8", "backslashreplace")
        write_json(draft / JSON, {**record, "result": dataclasses.asdict(result)})
    return result
