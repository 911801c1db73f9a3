"""Tables of ``evaluate --fine-grained``, the same for the terminal, for Markdown and for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Row, Table
from crossner_cli.run.results import EvaluateResult

UNPRINTABLE = "\ufffd"
KIND_NAMES = {
    "correct": "correct",
    "missed": "missed",
    "spurious": "spurious",
    "boundary_left": "boundary, left",
    "boundary_right": "boundary, right",
    "boundary_both": "boundary, both",
    "type": "type",
    "boundary_and_type": "boundary and type",
}
KIND_MEANINGS = {
    "missed": "no predicted entity shares a word with it, or is left for it",
    "spurious": "no gold entity shares a word with it, or is left for it",
    "boundary_left": "right type, wrong first word",
    "boundary_right": "right type, wrong last word",
    "boundary_both": "right type, both ends wrong",
    "type": "right words, wrong type",
    "boundary_and_type": "a word in common, wrong ends and wrong type",
}
ERROR_KINDS = tuple(KIND_MEANINGS)
GOLD_KINDS = tuple(kind for kind in KIND_NAMES if kind != "spurious")
RELATION_NAMES = {
    "too_general": "a parent for its child",
    "too_specific": "a child for its parent",
    "sibling": "two of one parent",
}
MEASURES = ("precision", "recall", "f1")
SHORT = 12
Average = Mapping[str, float | None]


def printable(text: str) -> str:
    """Text from data without characters that steer a terminal or change the direction of a line."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else UNPRINTABLE for letter in text)


def format_average(average: Average) -> str:
    """A score in percent; over several seeds with its deviation."""
    return figures.spread(average["mean"], average["deviation"])


def format_count(average: Average) -> str:
    """A count; over several seeds with its deviation."""
    deviation = average["deviation"]
    return format_mean_count(average) + (f" ± {deviation:,.1f}" if deviation else "")


def format_mean_count(average: Average) -> str:
    """A count; the mean of several seeds with one decimal, unless they agree."""
    mean, deviation = average["mean"], average["deviation"]
    return f"{mean:,.1f}" if mean is not None and deviation else figures.count(mean)


def fine_grained_blocks(result: EvaluateResult, *, is_short: bool = True) -> list[Block]:
    """Errors by model.

    Args:
        result: The result of ``evaluate --fine-grained``.
        is_short: Show the details of the best model only, and the head of long tables.
    """
    models = {label: model.fine_grained or {} for label, model in result.models.items()}
    best = max(models, key=lambda label: result.models[label].f1.mean or 0)
    blocks: list[Block] = [_averages(models), _kinds_of_error(models)]
    for label, record in models.items():
        if not is_short or label == best:
            blocks += _details(label if len(models) > 1 else "", record, SHORT if is_short else None)
    if is_short and len(models) > 1:
        blocks.append(Line("Details of the other models: fine_grained.md and errors.html"))
    about = result.fine_grained or {}
    blocks += [Line(f"Left out: {name}, because {reason}") for name, reason in about["left_out"].items()]
    illegal = about["illegal_tags_in_gold"]
    if illegal["count"]:
        sequences = ", ".join(f"{printable(name)} {figures.count(n)}" for name, n in illegal["sequences"].items())
        blocks.append(Line(f"Illegal tag sequences in the gold tags: {figures.count(illegal['count'])} ({sequences})"))
    return blocks


def _averages(models: Mapping[str, Any]) -> Table:
    rows: list[Row] = []
    for label, record in models.items():
        mean = record["mean"]
        parts = {
            "all entities (micro)": mean["scores"]["micro"],
            "mean of types (macro)": mean["scores"]["macro"],
            "mean weighted by support": mean["scores"]["weighted"],
            "words alone, any type": mean["span_detection"],
        }
        name = [printable(label)] if len(models) > 1 else []
        rows += [(*name, part, *_measures(scores)) for part, scores in parts.items()]
        rows.append((*name, "type of right words (accuracy)", format_average(mean["typing"]["accuracy"]), "", ""))
    names = ("model", "score") if len(models) > 1 else ("score",)
    columns = (*names, "precision", "recall", "F1")
    return Table("Entities, words and types", columns, rows, texts=tuple(range(len(names))))


def _measures(scores: Mapping[str, Average]) -> list[str]:
    return [format_average(scores[name]) for name in MEASURES]


def _kinds_of_error(models: Mapping[str, Any]) -> Table:
    counts = {label: record["mean"]["errors"]["all"] for label, record in models.items()}
    totals = {label: sum(found[kind]["mean"] for kind in ERROR_KINDS) for label, found in counts.items()}
    rows: list[Row] = []
    for kind in sorted(ERROR_KINDS, key=lambda kind: -sum(found[kind]["mean"] for found in counts.values())):
        row = [KIND_NAMES[kind]]
        for label, found in counts.items():
            row += [format_count(found[kind]), figures.percent(found[kind]["mean"], totals[label])]
        rows.append((*row, KIND_MEANINGS[kind]) if len(models) == 1 else tuple(row))
    if len(models) == 1:
        columns: Row = ("kind", "times", "of errors", "what it is")
        return Table("Errors by kind", columns, rows, texts=(0, 3))
    heads = [text for label in models for text in (printable(label), "of errors")]
    return Table("Errors by kind", ("kind", *heads), rows)


def _details(label: str, record: Mapping[str, Any], limit: int | None) -> list[Block]:
    """All tables of one model; ``limit`` is the number of rows of tables that may be long."""
    of = f" of {printable(label)}" if label else ""
    mean = record["mean"]
    blocks: list[Block] = [] if limit else [type_table(mean, of)]
    blocks += [
        type_error_table(mean, of),
        confusion_table(mean["confusion"], of, limit),
        bucket_table(mean["buckets"], of),
        *_relation_lines(mean["hierarchy"], of, limit),
    ]
    illegal = mean["illegal_tags"]
    if illegal["count"]["mean"]:
        found = sorted(illegal["sequences"].items(), key=lambda item: -item[1]["mean"])[:limit]
        sequences = ", ".join(f"{printable(name)} {format_count(count)}" for name, count in found)
        count = format_count(illegal["count"])
        blocks.append(Line(f"Illegal tag sequences{of}, repaired: {count} ({sequences})"))
    return [*blocks, frequent_error_table(record, of, limit)]


def type_table(mean: Mapping[str, Any], of: str = "") -> Table:
    """Precision, recall and F1 of each type, most frequent first, and their averages."""
    scores, typing = mean["scores"], mean["typing"]
    rows: list[Row] = []
    for name, row in _by_support(scores["per_type"]):
        accuracy = typing["per_type"].get(name, {}).get("accuracy")
        counts = format_count(row["support"]), format_count(row["predicted"])
        type_right = figures.NOTHING if accuracy is None else format_average(accuracy)
        rows.append((printable(name), counts[0], *_measures(row), counts[1], type_right))
    counts = format_count(scores["support"]), format_count(scores["predicted"])
    summary = [
        (name, counts[0], *_measures(scores[name]), counts[1], format_average(typing["accuracy"]))
        for name in ("micro", "macro", "weighted")
    ]
    columns = ("type", "entities", "precision", "recall", "F1", "predicted", "type right\nof right words")
    return Table(f"By entity type{of}", columns, rows, summary)


def _by_support(per_type: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(per_type.items(), key=lambda item: (-item[1]["support"]["mean"], item[0]))


def type_error_table(mean: Mapping[str, Any], of: str = "") -> Table:
    """Gold entities of each type by kind of error, and predicted ones that are spurious."""
    gold, predicted = mean["errors"]["gold_by_type"], mean["errors"]["predicted_by_type"]
    rows: list[Row] = []
    for name, scores in _by_support(mean["scores"]["per_type"]):
        counts = [scores["support"], *(gold[name][kind] for kind in GOLD_KINDS), predicted[name]["spurious"]]
        rows.append((printable(name), *map(format_mean_count, counts)))
    heads = tuple(KIND_NAMES[kind].replace(", ", "\n").replace(" and ", "\nand ") for kind in GOLD_KINDS)
    return Table(f"What became of the gold entities{of}", ("type", "entities", *heads, "spurious"), rows)


def confusion_table(confusion: Mapping[str, Any], of: str = "", limit: int | None = None) -> Table:
    """Gold types and the types predicted for them, the most frequent confusion first; ``O`` is no entity."""
    found = [
        (-average["mean"], gold, predicted)
        for gold, row in confusion.items()
        for predicted, average in row.items()
        if gold != predicted and average["mean"]
    ]
    rows: list[Row] = []
    for _, gold, predicted in sorted(found)[:limit]:
        row, average = confusion[gold], confusion[gold][predicted]
        share = "" if gold == "O" else figures.percent(average["mean"], sum(each["mean"] for each in row.values()))
        rows.append((printable(gold), printable(predicted), format_count(average), share))
    return Table(f"Confused types{of}", ("gold", "predicted", "times", "of the gold type"), rows, texts=(0, 1))


def bucket_table(buckets: Mapping[str, Any], of: str = "") -> Table:
    """Scores of every bucket that holds an entity; no F1 or recall if it holds no gold one."""
    rows: list[Row] = []
    for name, parts in buckets.items():
        heading = name
        for part, scores in parts.items():
            if not (scores["n"]["mean"] or scores["predicted"]["mean"]):
                continue
            precision, recall, f1 = _measures(scores)
            if not scores["n"]["mean"]:
                recall = f1 = figures.NOTHING
            rows.append((heading, part, format_count(scores["n"]), f1, precision, recall))
            heading = ""
    columns = ("by", "part", "entities", "F1", "precision", "recall")
    return Table(f"Parts of the sentences{of}", columns, rows, texts=(0, 1))


def _relation_lines(hierarchy: Mapping[str, Any], of: str, limit: int | None) -> list[Line]:
    if not hierarchy["type_errors"]["mean"]:
        return []
    kinds = ", ".join(f"{words} {format_count(hierarchy[kind])}" for kind, words in RELATION_NAMES.items())
    lines = [
        f"Type errors{of} within the hierarchy of types: {format_average(hierarchy['percent'])} % of"
        f" {format_count(hierarchy['type_errors'])} ({kinds})"
    ]
    pairs = sorted(hierarchy["pairs"].items(), key=lambda item: (-item[1]["count"]["mean"], item[0]))[:limit]
    if pairs:
        listed = ", ".join(f"{printable(pair)} {format_count(found['count'])}" for pair, found in pairs)
        lines.append(f"Gold -> predicted: {listed}")
    return [Line(text) for text in lines]


def frequent_error_table(record: Mapping[str, Any], of: str = "", limit: int | None = None) -> Table:
    """The most frequent errors by words and types."""
    errors: Sequence[Mapping[str, Any]] = record["frequent_errors"][:limit]
    rows: list[Row] = []
    for error in errors:
        mentions = _mention(error["gold"]), _mention(error["predicted"])
        rows.append((str(error["count"]), KIND_NAMES[error["kind"]], *mentions, str(error["sentence"])))
    columns = ("times", "kind", "gold", "predicted", "first in sentence")
    return Table(figures.with_seed(f"Most frequent errors{of}", record["shown_seed"]), columns, rows, texts=(1, 2, 3))


def _mention(entity: Mapping[str, str] | None) -> str:
    return figures.NOTHING if entity is None else printable(f"{entity['text']} [{entity['type']}]")
