"""Facts on each method, read from the text of its file: importing the methods would take seconds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli.errors import CrossNERError, suggest

PACKAGE = Path(__file__).parent.parent
DEFAULT = "linear"  # of --method
KINDS = {"int": "whole number", "float": "number", "str": "text", "bool": "true | false"}


@dataclass(frozen=True)
class MethodFacts:
    """One method.

    Args:
        name: The value of ``--method``.
        title: First sentence of its file.
        paper: Where it is published.
        differs: What is not as published.
        reads: ``subwords`` of a transformer, ``words`` (static vectors, characters, and a transformer if set), or
            subwords of an ``encoder-decoder``.
        settings: Name and default of each ``--set``.
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
    methods = {name: value for name, module in modules.items() if (value := _find_value(module, "METHOD")) is not None}
    for name in names:
        if name not in methods:
            hint = f"{suggest(name, methods)}Methods: {', '.join(methods)}."
            raise CrossNERError(f"There is no method {name!r}.", hint=hint)
    found = []
    for name in names or sorted(methods, key=lambda name: (name != DEFAULT, name)):
        text, tagger = ast.get_docstring(modules[name]) or "", ast.unparse(methods[name])
        fields = _read_fields(f"{tagger}.Hyperparameters", classes)
        found.append(
            MethodFacts(
                name,
                " ".join(text.partition("\n\n")[0].split()),
                _find_paragraph(text, "Paper"),
                _find_paragraph(text, "Differs"),
                _find_reads(tagger, classes),
                settings={field: ast.literal_eval(call.args[0]) for field, (call, _) in fields.items()},
                values={field: _describe_values(kind) for field, (_, kind) in fields.items()},
                meaning={field: ast.literal_eval(call.args[1]) for field, (call, _) in fields.items()},
            )
        )
    return found


def _find_classes(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the classes of a module with their names, nested ones as ``Tagger.Hyperparameters``."""
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, child
            yield from _find_classes(child, f"{prefix}{child.name}.")


def _find_value(node: ast.Module | ast.ClassDef, name: str) -> ast.expr | None:
    """Return what a module or class assigns to a name; None if it does not."""
    for child in node.body:
        if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == name:
            return child.value
    return None


def _bases(name: str, classes: dict[str, ast.ClassDef]) -> list[str]:
    """Return the known classes that a class extends."""
    return [base for base in map(ast.unparse, classes[name].bases) if base in classes]


def _find_reads(tagger: str, classes: dict[str, ast.ClassDef]) -> str:
    """Return the kind of encoder that a tagger reads: its own, else that of a class it extends."""
    own = _find_value(classes[tagger], "reads")
    if own is not None:
        return str(ast.literal_eval(own))
    return next((_find_reads(base, classes) for base in _bases(tagger, classes)), "subwords")


def _read_fields(name: str, classes: dict[str, ast.ClassDef]) -> dict[str, tuple[ast.Call, ast.expr]]:
    """Return the declaration and the type of each setting, in the order of the dataclass's fields."""
    fields: dict[str, tuple[ast.Call, ast.expr]] = {}
    for base in reversed(_bases(name, classes)):
        fields |= _read_fields(base, classes)
    for child in classes[name].body:
        if isinstance(child, ast.AnnAssign) and isinstance(child.value, ast.Call):
            fields[ast.unparse(child.target)] = child.value, child.annotation
    return fields


def _describe_values(kind: ast.expr) -> str:
    """Describe the values of a type: its choices, or the kind of value."""
    if isinstance(kind, ast.Subscript):  # Literal[...]
        return " | ".join(ast.literal_eval(kind.slice))
    return KINDS[ast.unparse(kind)]


def _find_paragraph(text: str, heading: str) -> str:
    found = re.search(rf"^{heading}: (.*?)(?=^\w+: |\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""
