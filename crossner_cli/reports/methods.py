"""Facts and tables on each method, read from the text of its file: importing the methods would take seconds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli import figures
from crossner_cli.errors import CrossNERError, suggest
from crossner_cli.reports.blocks import Block, Line, Table

PACKAGE = Path(__file__).parent.parent
DEFAULT = "linear"  # of --method
KINDS = {"int": "whole number", "float": "number", "str": "text", "bool": "true | false"}
OF_WORDS = "words: static vectors, characters and, if set, language models of characters and a transformer"
Assignment = ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class MethodFacts:
    """One method.

    Args:
        name: The value of ``--method``.
        title: First sentence of its file.
        differs: What is not as published.
        reads: ``subwords`` of a transformer, ``words`` (static vectors, characters, and a transformer if set), or
            subwords of an ``encoder-decoder``.
        settings: Default of each ``--set``.
        values: The values of each setting, as ``shared | domain``.
        meaning: The help of each setting.
    """

    name: str
    title: str
    paper: str
    differs: str
    reads: str
    settings: dict[str, Any]
    values: dict[str, str]
    meaning: dict[str, str]


def describe_methods(names: Sequence[str] = ()) -> list[MethodFacts]:
    """Describe the methods named, or every method, the default first.

    Raises:
        CrossNERError: There is no such method.
    """
    files = [PACKAGE / "encoders" / "word_reader.py", *sorted((PACKAGE / "methods").glob("*.py"))]
    modules = {path.stem.replace("_", "-"): ast.parse(path.read_text(encoding="utf-8")) for path in files}
    classes = {name: node for module in modules.values() for name, node in _find_classes(module)}
    assigned = {name: _assigned(module) for name, module in modules.items()}
    taggers = {name: each["METHOD"] for name, each in assigned.items() if "METHOD" in each}
    for name in names:
        if name not in taggers:
            hint = f"{suggest(name, taggers)}Methods: {', '.join(taggers)}."
            raise CrossNERError(f"There is no method {name!r}.", hint=hint)
    found = []
    for name in names or sorted(taggers, key=lambda name: (name != DEFAULT, name)):
        text, tagger = ast.get_docstring(modules[name]) or "", ast.unparse(taggers[name].value or ast.Constant(""))
        reads = _inherited(tagger, classes).get("reads")
        settings = _inherited(f"{tagger}.Hyperparameters", classes)
        calls = {field: each.value for field, each in settings.items() if isinstance(each.value, ast.Call)}
        found.append(
            MethodFacts(
                name,
                " ".join(text.partition("\n\n")[0].split()),
                _find_paragraph(text, "Paper"),
                _find_paragraph(text, "Differs"),
                "subwords" if reads is None or reads.value is None else ast.literal_eval(reads.value),
                settings={field: ast.literal_eval(call.args[0]) for field, call in calls.items()},
                values={field: _describe_values(settings[field]) for field in calls},
                meaning={field: ast.literal_eval(call.args[1]) for field, call in calls.items()},
            )
        )
    return found


def _find_classes(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the classes of a module with their names, nested ones as ``Tagger.Hyperparameters``."""
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, child
            yield from _find_classes(child, f"{prefix}{child.name}.")


def _assigned(node: ast.Module | ast.ClassDef) -> dict[str, Assignment]:
    """What a module or class assigns, by name."""
    assignments = [child for child in node.body if isinstance(child, Assignment) and child.value is not None]
    return {ast.unparse(each.targets[0] if isinstance(each, ast.Assign) else each.target): each for each in assignments}


def _inherited(name: str, classes: dict[str, ast.ClassDef]) -> dict[str, Assignment]:
    """What a class and the known ones that it extends assign, by name, in the order of a dataclass's fields."""
    found: dict[str, Assignment] = {}
    for base in reversed([base for base in map(ast.unparse, classes[name].bases) if base in classes]):
        found |= _inherited(base, classes)
    return found | _assigned(classes[name])


def _describe_values(setting: Assignment) -> str:
    """Describe the values of a setting by its type: the choices, or the kind of value."""
    kind = setting.annotation if isinstance(setting, ast.AnnAssign) else None
    if isinstance(kind, ast.Subscript):  # Literal[...]
        return " | ".join(ast.literal_eval(kind.slice))
    return KINDS[ast.unparse(kind or ast.Constant(""))]


def _find_paragraph(text: str, heading: str) -> str:
    found = re.search(rf"^{heading}: (.*?)(?=^\w+: |\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def method_tables(methods: Sequence[MethodFacts]) -> list[Block]:
    """Show paper, inputs and settings of the tagging methods."""
    facts = [(one.name + " (default)" * (one.name == DEFAULT), one.reads, one.title) for one in methods]
    papers = [(one.name, one.paper) for one in methods]
    return [
        Line(f"{len(methods)} methods for --method", True),
        Table("Methods", ("method", "reads", "what it is"), facts, texts=(0, 1, 2)),
        Table("Papers", ("method", "paper"), papers, texts=(0, 1)),
        Table("Settings and their defaults, for --set", ("method", "settings"), list_settings(methods), texts=(0, 1)),
        Line("crossner methods NAME explains the settings of a method and its differences from the paper."),
    ]


def list_settings(methods: Sequence[MethodFacts]) -> list[tuple[str, str]]:
    """List methods with their defaults; those that all methods of words share stand once, in a row before them."""
    of_words = [one.settings.items() for one in methods if one.reads == "words"]
    shared = [pair for pair in of_words[0] if all(pair in each for each in of_words)] if len(of_words) > 1 else []
    rows = {"all that read words": shared} if shared else {}
    for one in methods:
        rows[one.name] = [pair for pair in one.settings.items() if one.reads != "words" or pair not in shared]
    return [
        (name, ", ".join(f"{key}={figures.setting(value)}" for key, value in pairs)) for name, pairs in rows.items()
    ]


def method_details(facts: MethodFacts) -> list[Block]:
    """Show all that is known of one method."""
    rows = [
        (name, figures.setting(value).replace(",", ",\n"), facts.values[name], facts.meaning[name])
        for name, value in facts.settings.items()
    ]
    title, columns = f"Settings of {facts.name}, for --set", ("setting", "default", "values", "meaning")
    return [
        Line(f"{facts.name}: {facts.title}", True),
        Line(f"Paper: {facts.paper}"),
        Line(f"Reads {OF_WORDS if facts.reads == 'words' else facts.reads}"),
        Line(f"Differs: {facts.differs}"),
        Table(title, columns, rows, texts=(0, 1, 2, 3)),
    ]
