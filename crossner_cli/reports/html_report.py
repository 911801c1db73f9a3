"""One page of ``evaluate --fine-grained``: charts, tables and the sentences with gold and predicted entities.

The page is one file that loads nothing and needs no server. What comes from data is escaped; beyond that, the page
forbids its reader to run any script or style but its own two, told by their digests.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crossner_cli import figures
from crossner_cli.data.tags import OUTSIDE
from crossner_cli.evaluation.error_analysis import CORRECT, KINDS, ErrorAnalysis, confusion_name
from crossner_cli.evaluation.fine_grained import FineGrained
from crossner_cli.evaluation.spans import Layout
from crossner_cli.reports.blocks import Line, Table
from crossner_cli.reports.charts import Bar, bar_chart, heat_map
from crossner_cli.reports.fine_grained_tables import (
    ERROR_KINDS,
    KIND_MEANINGS,
    KIND_NAMES,
    fine_grained_blocks,
    number,
    share,
)
from crossner_cli.reports.markup import escape
from crossner_cli.reports.page_style import SCRIPT, STYLE

HEAT_MAP_TITLE = "Gold types (rows) and what they were called (columns), right ends or not; O is no entity"
SENTENCES = 5000  # shown of each model; those with errors go first where there are more


def write_page(path: Path, result: Mapping[str, Any], found: FineGrained) -> None:
    """Write the page.

    Args:
        path: The HTML file.
        result: Of the stage ``evaluate``, with ``fine_grained``.
        found: The same models, with their entities.
    """
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        stream.writelines(page(result, found))


def page(result: Mapping[str, Any], found: FineGrained) -> Iterator[str]:
    """The page, part by part."""
    models = result["models"]
    best = max(models, key=lambda label: models[label]["f1"]["mean"])
    place = " ".join(part for part in (result["domain"], result["split"]) if part)
    title = f"F1 {share(models[best]['f1'])} on {place}"
    yield from _head(f"{title} - crossner")
    of = f", best of {len(models)} models: {escape(best)}" if len(models) > 1 else f": {escape(best)}"
    yield (
        f"<h1>{escape(title)}</h1><p>{figures.count(result['sentences'])} sentences,"
        f" {figures.count(result['words'])} words{of}."
        f" Read as {escape(result['mode'])}: {escape(result['repair'])}.</p>"
    )
    for position, (label, model) in enumerate(models.items()):
        yield f'<section data-model="{position}">'
        if len(models) > 1:
            yield f"<h2>{escape(label)}: F1 {escape(share(model['f1']))}</h2>"
        yield _charts(model["fine_grained"]["mean"], found.types)
        yield "</section>"
    yield _filters(list(models), list(models).index(best), found.types)
    for position, label in enumerate(models):
        yield f'<section data-model="{position}">'
        yield from _sentences(found, label)
        yield "</section>"
    yield "<details><summary>All tables</summary>"
    yield from map(_block, fine_grained_blocks(result, is_short=False))
    yield f"</details><script>{SCRIPT}</script></body></html>\n"


def _head(title: str) -> Iterator[str]:
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(STYLE)}'; script-src 'sha256-{_digest(SCRIPT)}';"
        " base-uri 'none'; form-action 'none'"
    )
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _charts(mean: Mapping[str, Any], types: tuple[str, ...]) -> str:
    counts, per_type = mean["errors"]["all"], mean["scores"]["per_type"]
    order = sorted(per_type, key=lambda name: (-per_type[name]["support"]["mean"], name))
    total = sum(counts[kind]["mean"] for kind in ERROR_KINDS)
    errors = [
        Bar(KIND_NAMES[kind], counts[kind]["mean"],
            f"{number(counts[kind])} ({figures.percent(counts[kind]['mean'], total)})", counts[kind]["deviation"])
        for kind in sorted(ERROR_KINDS, key=lambda kind: -counts[kind]["mean"])
    ]  # fmt: skip
    found = [_f1_bar(name, per_type[name], "support") for name in order]
    confused = [*map(confusion_name, order), OUTSIDE]
    table = [[mean["confusion"][gold][predicted]["mean"] for predicted in confused] for gold in confused]
    parts = [
        bar_chart("Errors by kind", errors),
        bar_chart("F1 by entity type (n: gold entities)", found, 100),
        heat_map(HEAT_MAP_TITLE, confused, confused, table),
        *(bar_chart(f"F1 by {name} (n: gold entities)", bars, 100) for name, bars in _bucket_bars(mean["buckets"])),
    ]
    return f'<div class="charts">{"".join(parts)}</div>'


def _f1_bar(name: str, scores: Mapping[str, Any], count: str) -> Bar:
    text = f"{share(scores['f1'])} (n {number(scores[count])})"
    return Bar(name, scores["f1"]["mean"], text, scores["f1"]["deviation"])


def _bucket_bars(bucketings: Mapping[str, Any]) -> Iterator[tuple[str, list[Bar]]]:
    for name, parts in bucketings.items():
        yield name, [_f1_bar(part, scores, "n") for part, scores in parts.items() if scores["n"]["mean"]]


def _filters(labels: list[str], chosen: int, types: tuple[str, ...]) -> str:
    models = "".join(
        f'<option value="{position}"{" selected" if position == chosen else ""}>{escape(label)}</option>'
        for position, label in enumerate(labels)
    )
    kinds = "".join(
        f'<option value="{kind}">{KIND_NAMES[kind]}: {KIND_MEANINGS[kind]}</option>' for kind in ERROR_KINDS
    )
    named = "".join(f'<option value="{position}">{escape(name)}</option>' for position, name in enumerate(types))
    return (
        '<h2>Sentences</h2><div class="filters" id="filters" hidden>'
        f'<label{"" if len(labels) > 1 else " hidden"}>Model <select id="model">{models}</select></label>'
        '<label>Error <select id="kind"><option value="errors">any error</option><option value="any">with or without'
        f' errors</option><option value="correct">correct</option>{kinds}</select></label>'
        f'<label>Type <select id="entity-type"><option value="any">any type</option>{named}</select></label>'
        '<label>Words <input id="words" type="search" autocomplete="off"></label>'
        '<output id="count"></output></div>'
    )  # fmt: skip


def _sentences(found: FineGrained, label: str) -> Iterator[str]:
    model = found.models[label]
    numbers, is_cut = _choose_sentences(model.analysis, found.layout)
    seed = model.record["shown_seed"]
    notes = [] if seed == "-" else [f"Tags of seed {seed}; the numbers above are of all seeds."]
    if is_cut:
        counts = figures.count(len(numbers)), figures.count(len(found.sentences))
        notes.append(f"{counts[0]} of {counts[1]} sentences, those with errors first.")
    if notes:
        yield f'<p class="faint">{escape(" ".join(notes))}</p>'
    for sentence in numbers:
        yield _sentence(found, model.analysis, sentence)


def _choose_sentences(analysis: ErrorAnalysis, layout: Layout) -> tuple[list[int], bool]:
    """The sentences that are shown, in order, and whether others are left out."""
    total = len(layout.lengths)
    if total <= SENTENCES:
        return list(range(total)), False
    sides = ((analysis.gold, analysis.gold_kind), (analysis.predicted, analysis.predicted_kind))
    has_error = np.zeros(total, np.bool_)
    for spans, kinds in sides:
        has_error[layout.sentence_of(spans.start[kinds != CORRECT])] = True
    first = np.argsort(~has_error, kind="stable")[:SENTENCES]
    return np.sort(first).tolist(), True


def _sentence(found: FineGrained, analysis: ErrorAnalysis, sentence: int) -> str:
    words = found.sentences[sentence].words
    lines, tokens = [], []
    for name, spans, kinds in (
        ("gold", analysis.gold, analysis.gold_kind),
        ("predicted", analysis.predicted, analysis.predicted_kind),
    ):
        first, end = found.layout.first[sentence : sentence + 2]
        numbers = range(*np.searchsorted(spans.start, [first, end]).tolist())
        marked = [(int(spans.start[at] - first), int(spans.end[at] - first), int(spans.type[at]), KINDS[int(kinds[at])])
                  for at in numbers]  # fmt: skip
        lines.append(f"<p><b>{name}</b> {_highlight(words, marked, found.types)}</p>")
        tokens += [f"{kind}.{entity_type}" for _, _, entity_type, kind in marked]
    spans_text = " ".join(dict.fromkeys(tokens))
    data = f'data-spans="{spans_text}" data-words="{escape(" ".join(words))}"'
    return f'<article {data}><span class="faint">{sentence + 1}</span>{"".join(lines)}</article>\n'


def _highlight(words: tuple[str, ...], marked: list[tuple[int, int, int, str]], types: tuple[str, ...]) -> str:
    """The words with their entities marked."""
    parts, place = [], 0
    for start, end, entity_type, kind in marked:
        parts.append(escape(" ".join(words[place:start])))
        group = "boundary" if kind in ("boundary_left", "boundary_right", "boundary_both") else kind
        note = escape(types[entity_type]) + ("" if kind == "correct" else f" · {KIND_NAMES[kind]}")
        parts.append(f'<mark class="{group}">{escape(" ".join(words[start:end]))}<small>{note}</small></mark>')
        place = end
    parts.append(escape(" ".join(words[place:])))
    return " ".join(part for part in parts if part)


def _block(block: Line | Table) -> str:
    if isinstance(block, Line):
        return f"<p>{escape(block.text)}</p>"
    head, *rows = (
        "".join(
            f'<{tag}{" class=words" if place in block.texts else ""}>{escape(cell.replace(chr(10), " "))}</{tag}>'
            for place, cell in enumerate(row)
        )
        for tag, row in (("th", block.columns), *(("td", row) for row in (*block.rows, *block.summary)))
    )  # fmt: skip
    body, foot = rows[: len(block.rows)], rows[len(block.rows) :]
    parts = [f"<thead><tr>{head}</tr></thead>", *(
        f"<{name}>{''.join(f'<tr>{row}</tr>' for row in part)}</{name}>"
        for name, part in (("tbody", body), ("tfoot", foot)) if part
    )]  # fmt: skip
    return f"<h2>{escape(block.title)}</h2><table>{''.join(parts)}</table>"
