"""The files of a report: JSON, CSV, Markdown and pictures, in a folder that is whole or not there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from crossner_cli.reports.curves import Curves
from crossner_cli.reports.markdown import to_markdown
from crossner_cli.reports.plots import plot_curves
from crossner_cli.reports.report_tables import INSIDE, TEXT, report_tables
from crossner_cli.run.directory import Manifest
from crossner_cli.run.storage import output_folder, write_csv, write_json

REPORT, TABLE, CURVE_TABLE = "report.json", "report.csv", "curve.csv"
COLUMNS = ("run", "stage", "model", "target", "split", "mode", "decoding", "method", "encoder", "start",
           "train_sentences", "corpus_share", "seed", "f1")  # fmt: skip


def write_report(folder: Path, record: Manifest, curves: Curves | None, inside: Path | None = None) -> None:
    """Write a report beside its place, then put it there; the record is told which files it has.

    Args:
        folder: Of the report.
        record: Of the report.
        curves: To draw.
        inside: Folder of figures drawn of the inside of taggers, to take along.

    Raises:
        CrossNERError: A picture is asked for and matplotlib is not installed.
    """
    with output_folder(folder, REPORT, force=True) as draft:
        result = record["result"]
        result["written"] = [REPORT, TABLE, TEXT]
        if curves is not None:
            targets = ", ".join(dict.fromkeys(model["target"] for model in result["models"]))
            pictures = plot_curves(curves, targets, draft, f"curve-{curves.x}")
            result["written"] += [CURVE_TABLE, *pictures]
            write_csv(draft / CURVE_TABLE, ("series", curves.x, "f1"), _curve_rows(curves))
        if inside is not None and result["inside"]:
            shutil.copytree(inside, draft / INSIDE)
            result["written"] += [
                f"{INSIDE}/{each['folder']}/{name}" for each in result["inside"] for name in each["files"]
            ]
        write_csv(draft / TABLE, COLUMNS, [
            [seed if name == "seed" else f1 if name == "f1" else model[name] for name in COLUMNS]
            for model in result["models"] for seed, f1 in model["seeds"].items()
        ])  # fmt: skip
        (draft / TEXT).write_text(
            to_markdown(report_tables(record, is_short=False), level=3), "utf-8", "backslashreplace"
        )
        write_json(draft / REPORT, record)


def _curve_rows(curves: Curves) -> list[list[Any]]:
    return [[name, point.x, value] for name, points in curves.series.items() for point in points
            for value in point.values]  # fmt: skip
