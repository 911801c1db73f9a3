"""Tables of ``evaluate --fine-grained``: for the terminal, for Markdown and for the page alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Row, Table
from crossner_cli.reports.markup import printable

KIND_NAMES = {
    "correct": "correct", "missed": "missed", "spurious": "spurious", "boundary_left": "boundary, left",
    "boundary_right": "boundary, right", "boundary_both": "boundary, both", "type": "type",
    "boundary_and_type": "boundary and type",
}  # fmt: skip
KIND_MEANINGS = {
    "missed": "no predicted entity shares a word with it, or is left for it",
    "spurious": "no gold entity shares a word with it, or is left for it",
    "boundary_left": "right type, wrong first word", "boundary_right": "right type, wrong last word",
    "boundary_both": "right type, both ends wrong", "type": "right words, wrong type",
    "boundary_and_type": "a word in common, wrong ends and wrong type",
}  # fmt: skip
ERROR_KINDS = tuple(KIND_MEANINGS)
HIERARCHY_NAMES = {
    "too_general": "a parent for its child", "too_specific": "a child for its parent", "sibling": "two of one parent",
}  # fmt: skip
SHORT = 12
SHARES = ("precision", "recall", "f1")
Average = Mapping[str, float | None]


def fine_grained_blocks(result: Mapping[str, Any], *, is_short: bool = True) -> list[Block]:
    """What went wrong, by model.

    Args:
        result: Of the stage ``evaluate``, with ``fine_grained``.
        is_short: Of several models show the best one's details only, and the head of long tables.
    """
    models = {label: model["fine_grained"] for label, model in result["models"].items()}
    best = max(models, key=lambda label: result["models"][label]["f1"]["mean"])
    blocks: list[Block] = [_averages(models), *_kinds_of_error(models)]
    for label, record in models.items():
        if not is_short or label == best:
            blocks += _details(label if len(models) > 1 else "", record, SHORT if is_short else None)
    if is_short and len(models) > 1:
        blocks.append(Line("Details of the other models: fine_grained.md and errors.html"))
    return [*blocks, *_about(result["fine_grained"])]


def _about(about: Mapping[str, Any]) -> list[Block]:
    lines = [f"Not told: {name}, since {reason}" for name, reason in about["left_out"].items()]
    illegal = about["illegal_tags_in_gold"]
    if illegal["count"]:
        lines.append(f"Illegal tag sequences in the gold tags: {_sequences(illegal, None)}")
    return [Line(line) for line in lines]


def number(average: Average) -> str:
    """A count; over several seeds with its deviation."""
    deviation = average["deviation"]
    return mean_number(average) + (f" ± {deviation:,.1f}" if deviation else "")


def mean_number(average: Average) -> str:
    """A count; the mean of several seeds with one decimal, unless they agree."""
    mean, deviation = average["mean"], average["deviation"]
    return f"{mean:,.1f}" if mean is not None and deviation else figures.count(mean)


def share(average: Average) -> str:
    """A score in percent; over several seeds with its deviation."""
    return figures.spread(average["mean"], average["deviation"])


def _averages(models: Mapping[str, Any]) -> Table:
    rows: list[Row] = []
    for label, record in models.items():
        mean = record["mean"]
        parts = [
            ("all entities (micro)", mean["scores"]["micro"]), ("mean of types (macro)", mean["scores"]["macro"]),
            ("mean weighted by support", mean["scores"]["weighted"]), ("words alone, any type", mean["span_detection"]),
        ]  # fmt: skip
        name = [printable(label)] if len(models) > 1 else []
        rows += [(*name, part, *(share(scores[which]) for which in SHARES)) for part, scores in parts]
        typing = mean["typing"]
        rows.append((*name, "type of right words (accuracy)", share(typing["accuracy"]), "", ""))
    columns = ("score", "precision", "recall", "F1")
    if len(models) > 1:
        return Table("Entities, words and types", ("model", *columns), rows, texts=(0, 1))
    return Table("Entities, words and types", columns, rows)


def _kinds_of_error(models: Mapping[str, Any]) -> list[Block]:
    counts = {label: record["mean"]["errors"]["all"] for label, record in models.items()}
    totals = {label: sum(found[kind]["mean"] for kind in ERROR_KINDS) for label, found in counts.items()}
    order = sorted(ERROR_KINDS, key=lambda kind: -sum(found[kind]["mean"] for found in counts.values()))
    rows = [
        (KIND_NAMES[kind], *(
            text for label, found in counts.items()
            for text in (number(found[kind]), figures.percent(found[kind]["mean"], totals[label]))
        ), *([KIND_MEANINGS[kind]] if len(models) == 1 else []))
        for kind in order
    ]  # fmt: skip
    heads = [text for label in models for text in (printable(label) if len(models) > 1 else "times", "of errors")]
    meaning = ("what it is",) if len(models) == 1 else ()
    return [Table("Errors by kind", ("kind", *heads, *meaning), rows, texts=(0, len(heads) + 1))]


def _details(label: str, record: Mapping[str, Any], limit: int | None) -> list[Block]:
    of = f" of {printable(label)}" if label else ""
    mean = record["mean"]
    blocks: list[Block] = []
    if limit is None:
        blocks.append(type_table(mean, of))
    blocks += [errors_by_type(mean, of), confusion_list(mean["confusion"], of, limit), bucket_table(mean, of)]
    blocks += [Line(text) for text in _hierarchy_lines(mean["hierarchy"], of, limit)]
    illegal = mean["illegal_tags"]
    if illegal["count"]["mean"]:
        blocks.append(Line(f"Illegal tag sequences{of}, repaired: {_sequences(illegal, limit)}"))
    return [*blocks, frequent_table(record, of, limit)]


def type_table(mean: Mapping[str, Any], of: str = "") -> Table:
    """Precision, recall and F1 of each type, most frequent first, and their averages."""
    per_type = mean["scores"]["per_type"]
    rows = [
        (printable(name), number(row["support"]), *(share(row[which]) for which in SHARES), number(row["predicted"]),
         share(mean["typing"]["per_type"][name]["accuracy"]) if name in mean["typing"]["per_type"] else figures.NOTHING)
        for name, row in _by_support(per_type)
    ]  # fmt: skip
    summary = [
        (name, number(mean["scores"]["support"]), *(share(mean["scores"][name][which]) for which in SHARES),
         number(mean["scores"]["predicted"]), share(mean["typing"]["accuracy"]))
        for name in ("micro", "macro", "weighted")
    ]  # fmt: skip
    columns = ("type", "entities", "precision", "recall", "F1", "predicted", "type right\nof right words")
    return Table(f"By entity type{of}", columns, rows, summary)


def _by_support(per_type: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(per_type.items(), key=lambda item: (-item[1]["support"]["mean"], item[0]))


def errors_by_type(mean: Mapping[str, Any], of: str = "") -> Table:
    """How many gold entities of each type met which error, and how many of the predicted ones are spurious."""
    gold, predicted = mean["errors"]["gold_by_type"], mean["errors"]["predicted_by_type"]
    kinds = ("correct", "missed", "boundary_left", "boundary_right", "boundary_both", "type", "boundary_and_type")
    rows = [
        (printable(name), mean_number(row["support"]), *(mean_number(gold[name][kind]) for kind in kinds),
         mean_number(predicted[name]["spurious"]))
        for name, row in _by_support(mean["scores"]["per_type"])
    ]  # fmt: skip
    heads = tuple(KIND_NAMES[kind].replace(", ", "\n").replace(" and ", "\nand ") for kind in kinds)
    return Table(f"What became of the gold entities{of}", ("type", "entities", *heads, "spurious"), rows)


def confusion_list(confusion: Mapping[str, Any], of: str = "", limit: int | None = None) -> Table:
    """Gold types and what they were called, the most frequent confusion first; ``O`` is no entity."""
    found = [
        (gold, predicted, average)
        for gold, row in confusion.items() for predicted, average in row.items()
        if gold != predicted and average["mean"]
    ]  # fmt: skip
    found.sort(key=lambda item: (-item[2]["mean"], item[:2]))
    totals = {gold: sum(average["mean"] for average in row.values()) for gold, row in confusion.items()}
    rows = [
        (printable(gold), printable(predicted), number(average),
         "" if gold == "O" else figures.percent(average["mean"], totals[gold]))
        for gold, predicted, average in found[:limit]
    ]  # fmt: skip
    return Table(f"Confused types{of}", ("gold", "predicted", "times", "of the gold type"), rows, texts=(0, 1))


def bucket_table(mean: Mapping[str, Any], of: str = "") -> Table:
    """Scores of every part of the sentences that holds an entity; no F1 or recall where it holds no gold one."""
    rows: list[Row] = []
    for name, parts in mean["buckets"].items():
        heading = name
        for part, scores in parts.items():
            if not (scores["n"]["mean"] or scores["predicted"]["mean"]):
                continue
            recall, f1 = (
                share(scores[which]) if scores["n"]["mean"] else figures.NOTHING for which in ("recall", "f1")
            )
            rows.append((heading, part, number(scores["n"]), f1, share(scores["precision"]), recall))
            heading = ""
    columns = ("by", "part", "entities", "F1", "precision", "recall")
    return Table(f"Parts of the sentences{of}", columns, rows, texts=(0, 1))


def _hierarchy_lines(hierarchy: Mapping[str, Any], of: str, limit: int | None) -> list[str]:
    if not hierarchy["type_errors"]["mean"]:
        return []
    kinds = ", ".join(f"{words} {number(hierarchy[kind])}" for kind, words in HIERARCHY_NAMES.items())
    lines = [
        f"Type errors{of} within the hierarchy of types: {share(hierarchy['percent'])} % of"
        f" {number(hierarchy['type_errors'])} ({kinds})"
    ]
    pairs = sorted(hierarchy["pairs"].items(), key=lambda item: (-item[1]["count"]["mean"], item[0]))[:limit]
    if pairs:
        listed = ", ".join(f"{printable(pair)} {number(found['count'])}" for pair, found in pairs)
        lines.append(f"Gold -> predicted: {listed}")
    return lines


def _sequences(illegal: Mapping[str, Any], limit: int | None) -> str:
    """Illegal sequences, as ``12 (O I-person 7, …)``; of several seeds or of the gold tags."""

    def show(count: Any) -> str:
        return number(count) if isinstance(count, Mapping) else figures.count(count)

    found = sorted(illegal["sequences"].items(), key=lambda item: -_mean(item[1]))
    listed = ", ".join(f"{printable(name)} {show(count)}" for name, count in found[:limit])
    return f"{show(illegal['count'])} ({listed})"


def _mean(count: Any) -> float:
    mean: float = count["mean"] if isinstance(count, Mapping) else count
    return mean


def frequent_table(record: Mapping[str, Any], of: str = "", limit: int | None = None) -> Table:
    """The errors that happen most often, by words and types."""
    errors: Sequence[Mapping[str, Any]] = record["frequent_errors"][:limit]
    rows = [
        (str(error["count"]), KIND_NAMES[error["kind"]], mention(error["gold"]), mention(error["predicted"]),
         str(error["sentence"]))
        for error in errors
    ]  # fmt: skip
    columns = ("times", "kind", "gold", "predicted", "first in sentence")
    return Table(figures.with_seed(f"Most frequent errors{of}", record["shown_seed"]), columns, rows, texts=(1, 2, 3))


def mention(entity: Mapping[str, str] | None) -> str:
    """An entity of a frequent error, as ``words [type]``."""
    return figures.NOTHING if entity is None else printable(f"{entity['text']} [{entity['type']}]")
