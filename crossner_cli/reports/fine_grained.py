"""Tables and files of ``evaluate --fine-grained``: numbers as CSV, tables as Markdown, errors as a page.

The tables are the same for the terminal, for Markdown and for the page. The page is one file that loads nothing and
needs no server. Everything from data is escaped; beyond that, the page forbids its reader to run any script or style
but its own two, named by their digests.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_cli import figures
from crossner_cli.reports.blocks import WARNING, Block, Line, Row, Table, short_names, to_markdown
from crossner_cli.run.results import EvaluateResult
from crossner_cli.run.storage import write_atomically, write_csv

if TYPE_CHECKING:
    import pandas as pd

    from crossner_cli.data.sentences import Sentence
    from crossner_cli.evaluation.fine_grained import ModelAnalysis

TEMPLATES = Path(__file__).parent / "templates"
CSV_COLUMNS = ("model", "section", "group", "name", "measure", "mean", "deviation")
SENTENCES = 5000  # shown of each model; those with errors go first if there are more
# The kinds of error in words, and what they are.
KINDS = {
    "missed": ("missed", "no predicted entity shares a word with it, or is left for it"),
    "spurious": ("spurious", "no gold entity shares a word with it, or is left for it"),
    "boundary_left": ("boundary, left", "right type, wrong first word"),
    "boundary_right": ("boundary, right", "right type, wrong last word"),
    "boundary_both": ("boundary, both", "right type, both ends wrong"),
    "type": ("type", "right words, wrong type"),
    "boundary_and_type": ("boundary and type", "a word in common, wrong ends and wrong type"),
}
MEASURES = ("precision", "recall", "f1")
Average = Mapping[str, float | None]


def format_average(average: Average) -> str:
    """A score in percent; over several seeds with its deviation."""
    return figures.spread(average["mean"], average["deviation"])


def format_count(average: Average) -> str:
    """A count; over several seeds that differ, their mean with one decimal and its deviation."""
    mean, deviation = average["mean"], average["deviation"]
    return f"{mean:,.1f} ± {deviation:,.1f}" if mean is not None and deviation else figures.count(mean)


def format_mean_count(average: Average) -> str:
    """A count as ``format_count`` shows it, without its deviation."""
    return format_count(average).partition(" ")[0]


def fine_grained_blocks(result: EvaluateResult, *, is_short: bool = True) -> list[Block]:
    """Errors by model: for a screen their kinds alone, for files all tables."""
    models = {label: model.fine_grained or {} for label, model in result.models.items()}
    if is_short:
        files = Line("All tables: fine_grained.md; every sentence with its errors: errors.html")
        return [_kinds_of_error(models), files]
    blocks: list[Block] = [_averages(models), _kinds_of_error(models)]
    for label, record in models.items():
        blocks += _details(record, f" of {label}" if len(models) > 1 else "")
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
        name = [label] if len(models) > 1 else []
        rows += [(*name, part, *_measures(scores)) for part, scores in parts.items()]
        rows.append((*name, "type of right words (accuracy)", format_average(mean["typing"]["accuracy"]), "", ""))
    names = ("model", "score") if len(models) > 1 else ("score",)
    columns = (*names, "precision", "recall", "F1")
    return Table("Entities, words and types", columns, rows, texts=tuple(range(len(names))))


def _measures(scores: Mapping[str, Average]) -> list[str]:
    return [format_average(scores[name]) for name in MEASURES]


def _kinds_of_error(models: Mapping[str, Any]) -> Table:
    counts = {label: record["mean"]["errors"]["all"] for label, record in models.items()}
    rows: list[Row] = []
    for kind in sorted(KINDS, key=lambda kind: -sum(found[kind]["mean"] for found in counts.values())):
        row, meaning = [KINDS[kind][0]], KINDS[kind][1]
        for found in counts.values():
            total = sum(found[each]["mean"] for each in KINDS)
            row += [format_count(found[kind]), figures.percent(found[kind]["mean"], total)]
        rows.append((*row, meaning) if len(models) == 1 else tuple(row))
    if len(models) == 1:
        return Table("Errors by kind", ("kind", "times", "of errors", "what it is"), rows, texts=(0, 3))
    heads = [text for label in models for text in (label, "of errors")]
    return Table("Errors by kind", ("kind", *heads), rows)


def _details(record: Mapping[str, Any], of: str) -> list[Block]:
    """All tables of one model."""
    mean = record["mean"]
    blocks: list[Block] = [
        _type_table(mean, of),
        _type_error_table(mean, of),
        _confusion_table(mean["confusion"], of),
        _bucket_table(mean["buckets"], of),
    ]
    hierarchy, illegal = mean["hierarchy"], mean["illegal_tags"]
    if hierarchy["type_errors"]["mean"]:
        names = ("too_general", "too_specific", "sibling")
        general, specific, sibling = (format_count(hierarchy[name]) for name in names)
        line = (
            f"Type errors{of} within the hierarchy of types: {format_average(hierarchy['percent'])} % of"
            f" {format_count(hierarchy['type_errors'])} (a parent for its child {general}, a child for its parent"
            f" {specific}, two of one parent {sibling})"
        )
        blocks.append(Line(line))
    if illegal["count"]["mean"]:
        found = sorted(illegal["sequences"].items(), key=lambda item: -item[1]["mean"])
        sequences = ", ".join(f"{name} {format_count(count)}" for name, count in found)
        count = format_count(illegal["count"])
        blocks.append(Line(f"Illegal tag sequences{of}, repaired: {count} ({sequences})"))
    return [*blocks, _frequent_error_table(record, of)]


def _by_support(mean: Mapping[str, Any]) -> list[tuple[str, Any]]:
    per_type = mean["scores"]["per_type"]
    return sorted(per_type.items(), key=lambda item: (-item[1]["support"]["mean"], item[0]))


def _type_table(mean: Mapping[str, Any], of: str) -> Table:
    """Precision, recall and F1 of each type, most frequent first, and their averages."""
    scores, typing = mean["scores"], mean["typing"]

    def row(name: str, row: Mapping[str, Any], counts: Mapping[str, Any], accuracy: Average) -> Row:
        support, predicted = format_count(counts["support"]), format_count(counts["predicted"])
        return name, support, *_measures(row), predicted, format_average(accuracy)

    rows = [row(name, each, each, typing["per_type"][name]["accuracy"]) for name, each in _by_support(mean)]
    summary = [row(name, scores[name], scores, typing["accuracy"]) for name in ("micro", "macro", "weighted")]
    columns = ("type", "entities", "precision", "recall", "F1", "predicted", "type right\nof right words")
    return Table(f"By entity type{of}", columns, rows, summary)


def _type_error_table(mean: Mapping[str, Any], of: str) -> Table:
    """Gold entities of each type by kind of error, and predicted ones that are spurious."""
    errors = mean["errors"]
    kinds = ["correct", *(kind for kind in KINDS if kind != "spurious")]
    rows: list[Row] = []
    for name, scores in _by_support(mean):
        gold, spurious = errors["gold_by_type"][name], errors["predicted_by_type"][name]["spurious"]
        counts = [scores["support"], *(gold[kind] for kind in kinds), spurious]
        rows.append((name, *map(format_mean_count, counts)))
    heads = [KINDS[kind][0].replace(", ", "\n").replace(" and ", "\nand ") for kind in kinds[1:]]
    columns = ("type", "entities", "correct", *heads, "spurious")
    return Table(f"What became of the gold entities{of}", columns, rows)


def _confusion_table(confusion: Mapping[str, Any], of: str) -> Table:
    """Gold types and the types predicted for them, the most frequent confusion first; ``O`` is no entity."""
    found = [
        (-average["mean"], gold, predicted)
        for gold, row in confusion.items()
        for predicted, average in row.items()
        if gold != predicted and average["mean"]
    ]
    rows: list[Row] = []
    for _, gold, predicted in sorted(found):
        row, average = confusion[gold], confusion[gold][predicted]
        share = "" if gold == "O" else figures.percent(average["mean"], sum(each["mean"] for each in row.values()))
        rows.append((gold, predicted, format_count(average), share))
    return Table(f"Confused types{of}", ("gold", "predicted", "times", "of the gold type"), rows, texts=(0, 1))


def _bucket_table(buckets: Mapping[str, Any], of: str) -> Table:
    """Scores of every bucket that holds an entity; no F1 or recall if it holds no gold one."""
    rows: list[Row] = []
    for name, parts in buckets.items():
        for part, scores in parts.items():
            if not (scores["support"]["mean"] or scores["predicted"]["mean"]):
                continue
            precision, recall, f1 = _measures(scores)
            if not scores["support"]["mean"]:
                recall = f1 = figures.NOTHING
            heading = "" if rows and name in {row[0] for row in rows} else name
            rows.append((heading, part, format_count(scores["support"]), f1, precision, recall))
    columns = ("by", "part", "entities", "F1", "precision", "recall")
    return Table(f"Parts of the sentences{of}", columns, rows, texts=(0, 1))


def _frequent_error_table(record: Mapping[str, Any], of: str) -> Table:
    """The most frequent errors by words and types."""
    rows: list[Row] = []
    for error in record["frequent_errors"]:
        mentions = [
            figures.NOTHING if entity is None else f"{entity['text']} [{entity['type']}]"
            for entity in (error["gold"], error["predicted"])
        ]
        rows.append((str(error["count"]), KINDS[error["kind"]][0], *mentions, str(error["sentence"])))
    columns = ("times", "kind", "gold", "predicted", "first in sentence")
    return Table(figures.with_seed(f"Most frequent errors{of}", record["shown_seed"]), columns, rows, texts=(1, 2, 3))


def add_fine_grained(result: EvaluateResult, analyses: Mapping[str, ModelAnalysis]) -> EvaluateResult:
    """Add the analysis of each model to the result of ``evaluate``."""
    models = {label: replace(model, fine_grained=analyses[label].record) for label, model in result.models.items()}
    return replace(result, models=models)


def write_reports(
    folder: Path, result: EvaluateResult, sentences: Sequence[Sentence], analyses: Mapping[str, ModelAnalysis]
) -> None:
    """Write ``fine_grained.csv``, ``fine_grained.md`` and ``errors.html`` of a result without its fine-grained part."""
    from crossner_cli.reports.evaluation_tables import result_tables

    complete = add_fine_grained(result, analyses)
    rows = [
        [label, *place, average["mean"], average["deviation"]]
        for label, analysis in analyses.items()
        for place, average in _leaves(analysis.record["mean"])
    ]
    write_csv(folder / "fine_grained.csv", CSV_COLUMNS, rows)
    blocks = [*result_tables(result, is_short=False), *fine_grained_blocks(complete, is_short=False)]
    text = "# Errors\n\n" + to_markdown(blocks, level=2)
    write_atomically(folder / "fine_grained.md", text.encode("utf-8", "backslashreplace").decode())
    with (folder / "errors.html").open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        stream.writelines(render_page(result, sentences, analyses, blocks))


def _leaves(record: Mapping[str, Any], *above: str) -> Iterator[tuple[tuple[str, str, str, str], Average]]:
    """Yield section, group, name and measure of each average, empty where there is none."""
    for name, value in record.items():
        if (
            isinstance(value, Mapping)
            and set(value) == {"mean", "deviation"}
            and not isinstance(value["mean"], Mapping)
        ):
            section, *middle = (*above, name)[:-1]
            group, inner = (*middle, "", "")[:2]
            yield (section, group, inner, name), value
        else:
            yield from _leaves(value, *above, name)


def render_page(
    result: EvaluateResult,
    sentences: Sequence[Sentence],
    analyses: Mapping[str, ModelAnalysis],
    blocks: Sequence[Block],
) -> Iterator[str]:
    """Render the page, part by part: the verdict, charts and tables to unfold, and sentences with their entities.

    Args:
        result: The result of ``evaluate``.
        sentences: With gold tags.
        analyses: By label.
        blocks: All lines and tables; their headlines and warnings are shown first.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: figures.printable(value) if type(value) is str else value,
    )
    environment.filters.update(count=figures.count, average=format_average)
    environment.tests["table"] = lambda block: isinstance(block, Table)
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("errors.css", "errors.js"))
    names = short_names(result.models)
    models = [
        {"name": name, "f1": vars(result.models[label].f1), **_page_model(sentences, analyses[label])}
        for label, name in names.items()
    ]
    types = sorted({name for model in models for name in model["types"]})
    lines = [block for block in blocks if isinstance(block, Line)]
    return environment.get_template("errors.html").generate(
        result=result,
        title=f"{' and '.join(names.values())} on {' '.join(filter(None, (result.domain, result.split)))}",
        verdicts=[line.text for line in lines if line.is_headline],
        warnings=[line.text for line in lines if line.text.startswith(WARNING)],
        models=models,
        best=max(models, key=lambda model: model["f1"]["mean"]),
        types=types,
        type_numbers={name: number for number, name in enumerate(types)},
        kinds=KINDS,
        blocks=blocks,
        style=style,
        script=script,
        style_digest=_digest(style),
        script_digest=_digest(script),
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _page_model(sentences: Sequence[Sentence], analysis: ModelAnalysis) -> dict[str, Any]:
    """What the page shows of the errors of one model."""
    mean = analysis.record["mean"]
    wrong = set(analysis.entities["sentence"][analysis.entities["kind"] != "correct"])
    shown = sorted(sorted(range(len(sentences)), key=lambda number: number not in wrong)[:SENTENCES])
    return {
        "types": list(mean["scores"]["per_type"]),
        "charts": _bar_charts(mean),
        "confusion": {
            name: {other: cell["mean"] for other, cell in row.items()} for name, row in mean["confusion"].items()
        },
        "seed": analysis.record["shown_seed"],
        "shown": len(shown),
        "sentences": _marked_sentences(sentences, analysis.entities, shown),
    }


def _bar_charts(mean: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Charts of horizontal bars, from top to bottom; ``full`` is the value of the full width."""
    counts = mean["errors"]["all"]
    total = sum(counts[kind]["mean"] for kind in KINDS)
    errors = []
    for kind in sorted(KINDS, key=lambda kind: -counts[kind]["mean"]):
        text = f"{format_count(counts[kind])} ({figures.percent(counts[kind]['mean'], total)})"
        errors.append(_bar(KINDS[kind][0], counts[kind], text))
    charts = [{"title": "Errors by kind", "bars": errors, "full": max(bar["value"] for bar in errors) or 1}]
    for name, parts in {"entity type": dict(_by_support(mean)), **mean["buckets"]}.items():
        bars = [
            _bar(part, scores["f1"], f"{format_average(scores['f1'])} (n {format_count(scores['support'])})")
            for part, scores in parts.items()
            if scores["support"]["mean"] or name == "entity type"
        ]
        charts.append({"title": f"F1 by {name} (n: gold entities)", "bars": bars, "full": 100})
    return charts


def _bar(label: str, average: Average, text: str) -> dict[str, Any]:
    """A bar: its length, the value as text, and half the length of the whisker at its end."""
    return {"label": label, "value": average["mean"], "text": text, "deviation": average["deviation"]}


def _marked_sentences(
    sentences: Sequence[Sentence], table: pd.DataFrame, numbers: Iterable[int]
) -> Iterator[dict[str, Any]]:
    """Sentences as pieces of text, with and without an entity, of both sides."""
    entities: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for entity in table.itertuples():
        entities[entity.side, entity.sentence].append(entity)
    for number in numbers:
        words = sentences[number].words
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
