"""Tables of ``evaluate --fine-grained``: kinds of error, scores of parts, and confusions."""

from __future__ import annotations

from collections.abc import Mapping

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Row, Table
from crossner_cli.run.results import ModelResult, Record

# The kinds of error in words, with explanations.
KINDS = {
    "missed": ("missed", "no predicted entity shares a word with it, or is left for it"),
    "spurious": ("spurious", "no gold entity shares a word with it, or is left for it"),
    "boundary": ("boundary", "right type, wrong words"),
    "type": ("type", "right words, wrong type"),
    "boundary_and_type": ("boundary and type", "a word in common, wrong words and wrong type"),
}


def fine_grained_blocks(models: Mapping[str, ModelResult], *, is_short: bool) -> list[Block]:
    """Show errors by model: on a screen only their kinds, on the page all tables."""
    records = {label: model.fine_grained or {} for label, model in models.items()}
    blocks: list[Block] = [_kinds_of_error(records)]
    if is_short:
        return [*blocks, Line("Scores of parts: fine_grained.csv; all tables and every sentence: errors.html")]
    for label, record in records.items():
        of = f" of {label}" if len(records) > 1 else ""
        blocks += [_part_table(record, of), _confusion_table(record, of), _error_table(record, of)]
    return blocks


def _format_mean(number: float) -> str:
    """Write a count; a mean that is not a whole number has one decimal."""
    return figures.count(number) if float(number).is_integer() else f"{number:,.1f}"


def _kinds_of_error(records: Mapping[str, Record]) -> Table:
    counts = {label: record["parts"][0] for label, record in records.items()}
    totals = {label: sum(found[kind] for kind in KINDS) for label, found in counts.items()}
    rows: list[Row] = []
    for kind in sorted(KINDS, key=lambda kind: -sum(found[kind] for found in counts.values())):
        name, meaning = KINDS[kind]
        row = [name]
        for label, found in counts.items():
            row += [_format_mean(found[kind]), figures.percent(found[kind], totals[label])]
        rows.append((*row, meaning) if len(records) == 1 else tuple(row))
    if len(records) == 1:
        return Table("Errors by kind", ("kind", "times", "of errors", "what it is"), rows, texts=(0, 3))
    heads = [text for label in records for text in (label, "of errors")]
    return Table("Errors by kind", ("kind", *heads), rows)


def _part_table(record: Record, of: str) -> Table:
    """Show the scores of every part, and the results of its gold entities."""
    rows: list[Row] = []
    last = ""
    for row in record["parts"]:
        scores = figures.spread(row["f1"], row["f1_deviation"]), *map(figures.score, (row["precision"], row["recall"]))
        counts = [_format_mean(row[name]) for name in ("correct", *KINDS, "predicted")]
        heading, last = "" if row["by"] == last else row["by"], row["by"]
        rows.append((heading, row["part"], _format_mean(row["entities"]), *scores, *counts))
    heads = ("correct", *(name.replace(" and ", "\nand ") for name, _ in KINDS.values()), "predicted")
    columns = ("by", "part", "entities", "F1", "precision", "recall", *heads)
    return Table(f"Parts of the entities{of}", columns, rows, texts=(0, 1))


def _confusion_table(record: Record, of: str) -> Table:
    rows = [(row["gold"], row["predicted"], _format_mean(row["times"])) for row in record["confused_types"]]
    return Table(f"Confused types{of}", ("gold", "predicted", "times"), rows, texts=(0, 1))


def _error_table(record: Record, of: str) -> Table:
    rows = [
        (row["gold"] or figures.NOTHING, row["predicted"] or figures.NOTHING, KINDS[row["kind"]][0])
        + (_format_mean(row["times"]),)
        for row in record["frequent_errors"]
    ]
    return Table(f"Most frequent errors{of}", ("gold", "predicted", "kind", "times"), rows, texts=(0, 1, 2))
