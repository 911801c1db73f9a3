"""The tables of ``label``."""

from __future__ import annotations

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, warning_line
from crossner_cli.run.directory import Manifest
from crossner_cli.run.results import LabelResult


def label_tables(result: LabelResult, _: Manifest) -> list[Block]:
    """Show the labels, their teacher, and what was left out and why."""
    seeds: dict[str, list[str]] = {}
    for teacher in result.teachers:
        seeds.setdefault(teacher["name"], []).extend([str(teacher["seed"])] if teacher.get("seed") is not None else [])
    names = ", ".join(f"{name} (seeds {', '.join(of)})" if len(of) > 1 else name for name, of in seeds.items())
    entities, sentences, words = map(figures.count, (sum(result.entities.values()), result.sentences, result.words))
    lines = [f"Labelled by {names}"]
    lines.append(", ".join(f"{kind} {figures.count(number)}" for kind, number in result.entities.items()))
    read = ", ".join(f"{figures.count(number)} {kind}" for kind, number in result.read.items())
    dropped = "; ".join(f"{figures.count(number)} {reason}" for reason, number in result.dropped.items())
    lines.append(f"Read: {read}" + (f"; sentences left out: {dropped}" if dropped else ""))
    lines += [f"{kind}: {figures.count(number)}" for kind, number in result.repairs.items()]
    if result.requests:
        prompt, completion, made, used = (
            figures.count(result.requests[name])
            for name in ("prompt_tokens", "completion_tokens", "requests", "answers")
        )
        lines.append(
            f"Tokens: {prompt} read and {completion} written, in {used} answers; {made} requests were made now"
        )
    headline = f"label: {entities} entities in {sentences} sentences, {words} words"
    found = [Line(headline, is_headline=True), *(Line(line) for line in lines if line)]
    return [*found, *map(warning_line, result.warnings), Line(f"Written to {result.output}")]
