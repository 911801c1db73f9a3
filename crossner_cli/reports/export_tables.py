"""What ``export`` shows at its end."""

from __future__ import annotations

from typing import Any

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Table
from crossner_cli.run.directory import Manifest


def export_tables(manifest: Manifest) -> list[Block]:
    """F1, speed and size of the tagger and of its graphs side by side."""
    result = manifest["result"]
    headline = Line(
        f"{figures.with_seed(result['model'], result['seed'])} as ONNX in {result['output']}", is_headline=True
    )
    if not result["sentences"]:
        sizes = [(each["name"], _megabytes(each)) for each in result["models"]]
        return [headline, Table("Nothing was measured (--split none)", ("model", "weights"), sizes)]
    first = result["models"][0]["words_per_second"]
    rows = [
        (each["name"], figures.score(each["f1"]), figures.count(each["other_tags"]),
         figures.count(each["words_per_second"]), f"{each['words_per_second'] / max(first, 1):.2f}", _megabytes(each))
        for each in result["models"]
    ]  # fmt: skip
    title = (
        f"{result['domain']} {result['split']}: {figures.count(result['sentences'])} sentences,"
        f" {figures.count(result['words'])} words, {result['threads']} CPU threads, median of {result['rounds']} rounds"
    )
    columns = ("model", "F1", "words tagged\notherwise", "words/s", "times as\nfast", "weights")
    return [headline, Table(title, columns, rows), Line(f"Read as {result['mode']}, {result['tool']}")]


def _megabytes(model: dict[str, Any]) -> str:
    return figures.amount(model["bytes"], None, "bytes")
