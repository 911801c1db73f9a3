"""Files of ``evaluate --fine-grained`` beside ``scores.json``: numbers as CSV, tables as Markdown, errors as a page.

The page is one file that loads nothing and needs no server. Everything from data is escaped; beyond that, the page
forbids its reader to run any script or style but its own two, named by their digests.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from crossner_cli import figures
from crossner_cli.reports.blocks import Table, to_markdown
from crossner_cli.reports.evaluation_tables import result_tables
from crossner_cli.reports.fine_grained_tables import (
    ERROR_KINDS,
    KIND_MEANINGS,
    KIND_NAMES,
    fine_grained_blocks,
    format_average,
    format_count,
    printable,
)
from crossner_cli.run.results import EvaluateResult
from crossner_cli.run.storage import write_atomically, write_csv

if TYPE_CHECKING:
    import pandas as pd

    from crossner_cli.evaluation.fine_grained import FineGrainedAnalysis, ModelAnalysis

TEMPLATES = Path(__file__).parent / "templates"
CSV_COLUMNS = ("model", "section", "group", "name", "measure", "mean", "deviation")
SENTENCES = 5000  # shown of each model; those with errors go first if there are more


def add_fine_grained(
    result: EvaluateResult, analysis: FineGrainedAnalysis, *, has_seeds: bool = False
) -> EvaluateResult:
    """Add an analysis to the result of the stage.

    Args:
        result: The result of ``evaluate``.
        analysis: The analysis of its models.
        has_seeds: Keep the numbers of each seed, too; ``scores.json`` holds them, the manifest does not.
    """
    models = {}
    for label, model in result.models.items():
        record = analysis.models[label].record
        kept = {name: part for name, part in record.items() if has_seeds or name != "seeds"}
        models[label] = replace(model, fine_grained=kept)
    return replace(result, models=models, fine_grained=analysis.about)


def write_reports(folder: Path, result: EvaluateResult, analysis: FineGrainedAnalysis) -> None:
    """Write ``fine_grained.csv``, ``fine_grained.md`` and ``errors.html`` into a folder.

    Args:
        folder: The folder.
        result: The result of ``evaluate`` without its fine-grained part.
        analysis: The analysis of its models.
    """
    complete = add_fine_grained(result, analysis)
    write_numbers(folder / "fine_grained.csv", {label: each.record for label, each in analysis.models.items()})
    blocks = [*result_tables(result), *fine_grained_blocks(complete, is_short=False)]
    text = "# Errors\n\n" + to_markdown(blocks, level=2)
    write_atomically(folder / "fine_grained.md", text.encode("utf-8", "backslashreplace").decode())
    with (folder / "errors.html").open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        stream.writelines(render_page(complete, analysis))


def write_numbers(path: Path, records: Mapping[str, Any]) -> None:
    """Write every number of every model as a row, with its mean and deviation over the seeds.

    Args:
        path: The CSV file.
        records: By label, records with ``mean``.
    """
    rows = []
    for label, record in records.items():
        for names, average in _leaves(record["mean"], ()):
            section, *middle, measure = names
            group, name = (*middle, "", "")[:2]
            rows.append([label, section, group, name, measure, average["mean"], average["deviation"]])
    write_csv(path, CSV_COLUMNS, rows)


def _leaves(record: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for name, value in record.items():
        if not isinstance(value, Mapping):
            continue  # the relation of a pair of types, which is no number
        if set(value) == {"mean", "deviation"} and not isinstance(value["mean"], Mapping):
            yield (*above, name), value
        else:
            yield from _leaves(value, (*above, name))


@dataclass(frozen=True)
class Bar:
    """A bar of a chart: its length, the value as text, and half the length of the whisker at its end."""

    label: str
    value: float
    text: str
    deviation: float | None = None


@dataclass(frozen=True)
class BarChart:
    """Horizontal bars from top to bottom; ``full`` is the value of the full width."""

    title: str
    bars: Sequence[Bar]
    full: float


def render_page(result: EvaluateResult, analysis: FineGrainedAnalysis) -> Iterator[str]:
    """Render the page, part by part: charts, the sentences with gold and predicted entities, and all tables."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters.update(count=figures.count, average=format_average)
    environment.tests["table"] = lambda block: isinstance(block, Table)
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("errors.css", "errors.js"))
    models = [_page_model(label, result, analysis) for label in result.models]
    types = sorted({name for model in models for name in model["types"]})
    best = max(models, key=lambda model: model["f1"]["mean"])
    return environment.get_template("errors.html").generate(
        result=result,
        place=" ".join(part for part in (result.domain, result.split) if part),
        models=models,
        best=best,
        types=types,
        type_numbers={name: number for number, name in enumerate(types)},
        kinds=KIND_NAMES,
        error_kinds=ERROR_KINDS,
        meanings=KIND_MEANINGS,
        blocks=fine_grained_blocks(result, is_short=False),
        style=style,
        script=script,
        style_digest=_digest(style),
        script_digest=_digest(script),
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _page_model(label: str, result: EvaluateResult, analysis: FineGrainedAnalysis) -> dict[str, Any]:
    """Everything that the page shows of one model."""
    model = analysis.models[label]
    mean = model.record["mean"]
    per_type = mean["scores"]["per_type"]
    types = sorted(per_type, key=lambda name: (-per_type[name]["support"]["mean"], name))
    sentences = _choose_sentences(model.entities, len(analysis.sentences))
    return {
        "label": label,
        "f1": vars(result.models[label].f1),
        "types": types,
        "charts": _bar_charts(mean, types),
        "confusion": {
            name: {other: cell["mean"] for other, cell in row.items()} for name, row in mean["confusion"].items()
        },
        "seed": model.record["shown_seed"],
        "shown": len(sentences),
        "sentences": _marked_sentences(analysis, model, sentences),
    }


def _bar_charts(mean: Mapping[str, Any], types: Sequence[str]) -> list[BarChart]:
    counts, per_type = mean["errors"]["all"], mean["scores"]["per_type"]
    total = sum(counts[kind]["mean"] for kind in ERROR_KINDS)
    errors = []
    for kind in sorted(ERROR_KINDS, key=lambda kind: -counts[kind]["mean"]):
        text = f"{format_count(counts[kind])} ({figures.percent(counts[kind]['mean'], total)})"
        errors.append(Bar(KIND_NAMES[kind], counts[kind]["mean"], text, counts[kind]["deviation"]))
    charts = [
        BarChart("Errors by kind", errors, max(bar.value for bar in errors) or 1),
        BarChart(
            "F1 by entity type (n: gold entities)", [_f1_bar(name, per_type[name], "support") for name in types], 100
        ),
    ]
    for name, parts in mean["buckets"].items():
        bars = [_f1_bar(part, scores, "n") for part, scores in parts.items() if scores["n"]["mean"]]
        charts.append(BarChart(f"F1 by {name} (n: gold entities)", bars, 100))
    return charts


def _f1_bar(name: str, scores: Mapping[str, Any], count: str) -> Bar:
    text = f"{format_average(scores['f1'])} (n {format_count(scores[count])})"
    return Bar(name, scores["f1"]["mean"], text, scores["f1"]["deviation"])


def _choose_sentences(entities: pd.DataFrame, total: int) -> list[int]:
    """Choose the sentences to show: all, or those with errors and as many others as there is room for."""
    wrong = set(entities["sentence"][entities["kind"] != "correct"])
    return sorted(sorted(range(total), key=lambda number: number not in wrong)[:SENTENCES])


def _marked_sentences(
    analysis: FineGrainedAnalysis, model: ModelAnalysis, numbers: Iterable[int]
) -> Iterator[dict[str, Any]]:
    """Sentences as pieces of text, with and without an entity, of both sides."""
    entities: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for entity in model.entities.itertuples():
        entities[entity.side, entity.sentence].append(entity)
    for number in numbers:
        words = analysis.sentences[number].words
        sides = {}
        for side in ("gold", "predicted"):
            pieces, place = [], 0
            for entity in entities.get((side, number), ()):
                pieces.append({"text": " ".join(words[place : entity.start])})
                pieces.append({"text": " ".join(entity.words), "type": entity.type, "kind": entity.kind})
                place = entity.end
            pieces.append({"text": " ".join(words[place:])})
            sides[side] = [piece for piece in pieces if piece["text"]]
        yield {"number": number + 1, "words": " ".join(words), "sides": sides}
