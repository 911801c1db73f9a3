"""What ``inspect`` shows in a terminal: for each word what weighs most. All weights are in the figures and in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Table
from crossner_cli.run.directory import Manifest

MOST, LEAST = 3, 0.005


def inspection_tables(manifest: Manifest) -> list[Block]:
    """A table for each sentence and kind of weights."""
    result = manifest["result"]
    blocks: list[Block] = [Line(f"Inside {figures.with_seed(result['model'], result['seed'])}", is_headline=True)]
    for number, sentence in enumerate(result["sentences"], start=1):
        for name, weights in sentence["weights"].items():
            blocks.append(_weights_table(f"Sentence {number}: {name}", sentence, weights))
    if result["states"]:
        count = figures.count(len(result["states"]["words"]))
        blocks.append(Line(f"{count} words of {', '.join(dict.fromkeys(result['states']['domains']))} on a plane"))
    return blocks + [Line(f"{result['output']}/{name}") for name in result["files"]]


def _weights_table(title: str, sentence: Mapping[str, Any], weights: Mapping[str, Any]) -> Table:
    most = min(MOST, len(weights["columns"]))
    rows = []
    for word, tag, values in zip(sentence["words"], sentence["tags"], weights["values"], strict=True):
        order = sorted(range(len(values)), key=lambda place: -values[place])[:most]
        shown = [f"{values[place]:.2f} {weights['columns'][place]}" for place in order if values[place] >= LEAST]
        rows.append((word, tag, *shown, *[""] * (most - len(shown))))
    columns = ("word", "tag", "most", *("next",) * (most - 1))
    return Table(title, columns, rows, texts=tuple(range(2 + most)))
