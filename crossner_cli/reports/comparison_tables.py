"""Comparisons of models as lines and tables: the difference, its interval and p first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Row, Table

Record = Mapping[str, Any]


def comparison_tables(comparisons: Sequence[Record], details_in: str) -> list[Block]:
    """Comparisons: one with all that is known of it, several as a table of a row each.

    Args:
        comparisons: As ``compare_models`` makes them; at least one.
        details_in: Where the rest can be read.
    """
    comparisons = [_told_apart(one) for one in comparisons]
    if len(comparisons) == 1:
        only = comparisons[0]
        return [headline(only), _sureness(only), _by_type(only), *_explanations(comparisons)]
    lines = ["p swapped: approximate randomisation, about these taggers alone", f"By entity type: {details_in}"]
    return [headline(_of_the_best(comparisons)), _overview(comparisons), *_explanations(comparisons), *map(Line, lines)]


def headline(comparison: Record) -> Line:
    """Difference, interval and p in one sentence."""
    return Line(
        f"F1 {figures.signed(comparison['difference'])} ({_percent(comparison)} interval {_interval(comparison)},"
        f" {_p(comparison['p'])}): {comparison['model']}"
        f" {_score(comparison['f1'])} against {comparison['against']} {_score(comparison['against_f1'])}"
        + (f" on {comparison['target']}" if "target" in comparison else ""),
        is_headline=True,
    )


def _of_the_best(comparisons: Sequence[Record]) -> Record:
    """The best model against its strongest opponent; the clearest of many differences would be chance's choice."""
    return max(comparisons, key=lambda one: (one["f1"]["mean"], one["against_f1"]["mean"]))


def _told_apart(comparison: Record) -> Record:
    """A comparison whose two models are named with their decoding where it is not as usual, and with their places where
    these are not one; the other model also where it has the same label.
    """
    here, there = comparison.get("place"), comparison["against_place"]
    is_elsewhere, is_alike = here not in (None, there), comparison["model"] == comparison["against"]
    return {
        **comparison,
        "model": _told(comparison["model"], comparison.get("decoding"), here if is_elsewhere else None),
        "against": _told(comparison["against"], comparison.get("against_decoding"),
                         there if is_elsewhere or is_alike else None),
    }  # fmt: skip


def _told(label: str, decoding: str | None, place: str | None) -> str:
    decoded = label if decoding in (None, "trained") else f"{label} ({decoding})"
    return decoded if place is None else f"{decoded} of {place}"


def _overview(comparisons: Sequence[Record]) -> Table:
    targets = [one.get("target", "") for one in comparisons]
    has_targets = len(set(targets)) > 1
    rows: list[Row] = [
        (one["model"], one["against"], *([target] if has_targets else []), _score(one["f1"]),
         _score(one["against_f1"]), figures.signed(one["difference"]), _interval(one), figures.p_value(one["p"]),
         figures.p_value(one["of_these_taggers"]["randomisation_p"]), _sentences(one))
        for one, target in zip(comparisons, targets, strict=True)
    ]  # fmt: skip
    scores = ("F1", "F1 against", "difference", f"{_percent(comparisons[0])} interval", "p", "p swapped")
    columns = ("model", "against", *(["target"] if has_targets else []), *scores, "won/lost/tied")
    return Table("Compared on the same sentences", columns, rows, texts=(0, 1, 2) if has_targets else (0, 1))


def _sureness(comparison: Record) -> Table:
    """What each way of asking says."""
    these = comparison["of_these_taggers"]
    rows: list[Row] = []
    if max(comparison["runs"]) > 1:
        rows.append(("sentences and seeds", "bootstrap", _interval(comparison), figures.p_value(comparison["p"])))
    rows += [
        ("sentences, of these taggers", "bootstrap", _interval(these), figures.p_value(these["p"])),
        ("sentences, of these taggers", "randomisation", figures.NOTHING, figures.p_value(these["randomisation_p"])),
    ]
    permutation = comparison["permutation"]
    if permutation is not None:
        rows.append(("seeds, on these sentences", "permutation", figures.NOTHING, figures.p_value(permutation["p"])))
    return Table(
        f"{comparison['model']} against {comparison['against']}: sentences won/lost/tied {_sentences(comparison)}",
        ("what varies", "by", f"{_percent(comparison)} interval", "p"), rows, texts=(0, 1),
    )  # fmt: skip


def _by_type(comparison: Record) -> Table:
    rows: list[Row] = [
        (row["type"], figures.count(row["support"]), figures.score(row["f1"]), figures.score(row["against_f1"]),
         figures.signed(row["difference"]), _interval(row), figures.p_value(row["p"]),
         figures.p_value(row["adjusted_p"]))
        for row in comparison["per_type"]
    ]  # fmt: skip
    columns = ("type", "entities", "F1", "against", "difference", f"{_percent(comparison)} interval", "p", "p (Holm)")
    return Table("By entity type; p (Holm) allows for how many types there are", columns, rows)


def _explanations(comparisons: Sequence[Record]) -> list[Line]:
    first = comparisons[0]
    counts = sorted({one["sentences"]["all"] for one in comparisons})
    lines = [
        f"Paired on {' or '.join(map(figures.count, counts))} sentences, {figures.count(first['resamples'])} resamples,"
        f" read as {first['mode']}",
        "p: the larger of bootstrap's and randomisation's; where few sentences differ, the first is too sure",
    ]
    if any(max(one["runs"]) > 1 for one in comparisons):
        lines.append("Several seeds: intervals and p allow for other seeds as well as for other sentences")
    if any(one["is_paired"] and max(one["runs"]) > 1 for one in comparisons):
        lines.append("The same taggers read in two ways are compared seed by seed")
    if any(max(one["runs"]) == 1 for one in comparisons):
        lines.append("One seed a side: this is about these two trained taggers, not about how they were trained")
    elif any(min(one["runs"]) == 1 for one in comparisons):
        lines.append("A side of one seed is taken to vary between seeds as the other does")
    smallest = [one["permutation"]["smallest"] for one in comparisons if one["permutation"] is not None]
    if len(comparisons) == 1 and smallest:
        lines.append(f"So few seeds allow no p of permutation below {figures.p_value(smallest[0])}")
    return [Line(text) for text in lines]


def _percent(comparison: Record) -> str:
    return f"{100 * comparison['confidence']:.0f} %"


def _interval(record: Record) -> str:
    return f"{figures.signed(record['low'])} to {figures.signed(record['high'])}"


def _p(number: float) -> str:
    text = figures.p_value(number)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def _score(average: Mapping[str, float | None]) -> str:
    return figures.spread(average["mean"], average["deviation"])


def _sentences(comparison: Record) -> str:
    counts = comparison["sentences"]
    return "/".join(figures.count(counts[name]) for name in ("won", "lost", "tied"))
