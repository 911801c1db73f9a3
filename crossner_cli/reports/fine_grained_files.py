"""Files of ``evaluate --fine-grained`` beside ``scores.json``: numbers as CSV, tables as Markdown, errors as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crossner_cli.evaluation.fine_grained import FineGrained
from crossner_cli.reports.blocks import to_markdown
from crossner_cli.reports.evaluation_tables import evaluation_tables
from crossner_cli.reports.fine_grained_tables import fine_grained_blocks
from crossner_cli.reports.html_report import write_page
from crossner_cli.run.storage import write_atomically, write_csv

CSV_COLUMNS = ("model", "section", "group", "name", "measure", "mean", "deviation")


def with_fine_grained(result: dict[str, Any], found: FineGrained, *, has_seeds: bool = False) -> dict[str, Any]:
    """The result of the stage together with what was found.

    Args:
        result: Of the stage ``evaluate``.
        found: The models of the result, taken apart.
        has_seeds: Keep the numbers of each seed, too; ``scores.json`` has them, the manifest does without.
    """
    models = {}
    for label, model in result["models"].items():
        record = found.models[label].record
        models[label] = {
            **model,
            "fine_grained": {name: part for name, part in record.items() if has_seeds or name != "seeds"},
        }
    return {**result, "models": models, "fine_grained": found.about}


def write_reports(folder: Path, result: dict[str, Any], found: FineGrained) -> None:
    """Write ``fine_grained.csv``, ``fine_grained.md`` and ``errors.html`` into a folder."""
    complete = with_fine_grained(result, found)
    write_numbers(folder / "fine_grained.csv", {label: each.record for label, each in found.models.items()})
    blocks = [*evaluation_tables({"result": result}), *fine_grained_blocks(complete, is_short=False)]
    text = "# Errors\n\n" + to_markdown(blocks, level=2)
    write_atomically(folder / "fine_grained.md", text.encode("utf-8", "backslashreplace").decode())
    write_page(folder / "errors.html", complete, found)


def write_numbers(path: Path, models: Mapping[str, Any]) -> None:
    """Write every number of every model as a row, with its mean and deviation over the seeds.

    Args:
        path: The CSV file.
        models: By label, records with ``mean``.
    """
    rows = []
    for label, record in models.items():
        for names, average in _leaves(record["mean"], ()):
            section, *middle, measure = names
            group, name = (*middle, "", "")[:2]
            rows.append([label, section, group, name, measure, average["mean"], average["deviation"]])
    write_csv(path, CSV_COLUMNS, rows)


def _leaves(record: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for name, value in record.items():
        if not isinstance(value, Mapping):
            continue  # the kind of a pair in the hierarchy, which is no number
        if set(value) == {"mean", "deviation"} and not isinstance(value["mean"], Mapping):
            yield (*above, name), value
        else:
            yield from _leaves(value, (*above, name))
