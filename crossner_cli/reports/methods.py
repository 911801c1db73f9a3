"""Facts and tables on each method, read from the text of its file: importing the methods would take seconds."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from crossner_cli import figures
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.lookup import Place, find_place, find_places
from crossner_cli.reports.blocks import Block, Line, Table

PACKAGE = "crossner_cli"
DEFAULT = "linear"  # of --method
KINDS = {"int": "whole number", "float": "number", "str": "text", "bool": "true | false"}
WORD_INPUTS = "words: static vectors, characters and, if set, language models of characters and a transformer"
Assignment = ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class MethodFacts:
    """One method."""

    name: str  # the value of ``--method``
    title: str  # first sentence of its file
    paper: str
    differs: str  # what is not as published
    reads: str  # ``subwords``, ``words`` (vectors, characters, and a transformer if set), or of an ``encoder-decoder``
    settings: dict[str, Any]  # default of each ``--set``
    values: dict[str, str]  # of each setting, as ``shared | domain``
    meaning: dict[str, str]  # the help of each setting


def describe_methods(names: Sequence[str] = ()) -> list[MethodFacts]:
    """Describe the methods named, or every method, the default first.

    Raises:
        CrossNERError: There is no such method.
    """
    places = {name: find_place(name) for name in names} or find_places()
    ordered = names or sorted(places, key=lambda name: (name != DEFAULT, name))
    return [_describe(name, places[name]) for name in ordered]


def _describe(name: str, place: Place) -> MethodFacts:
    module = _read_module(place.module)
    named = _assigned(module).get(place.attribute)  # as METHOD = LinearTagger
    tagger = place.attribute if named is None or named.value is None else ast.unparse(named.value)
    settings = _inherited(place.module, f"{tagger}.Hyperparameters")
    calls = {field: each.value for field, each in settings.items() if isinstance(each.value, ast.Call)}
    text = ast.get_docstring(module) or ""
    return MethodFacts(
        name,
        " ".join(text.partition("\n\n")[0].split()),
        _find_paragraph(text, "Paper"),
        _find_paragraph(text, "Differs"),
        _find_reads(place.module, tagger),
        settings={field: ast.literal_eval(call.args[0]) for field, call in calls.items()},
        values={field: _describe_values(settings[field]) for field in calls},
        meaning={field: ast.literal_eval(call.args[1]) for field, call in calls.items()},
    )


def _find_reads(module: str, tagger: str) -> str:
    """Find the kind of input of a tagger's class."""
    found = _find_class(module, tagger)
    if found is None:
        raise CrossNERError(f"The class {tagger} of a method was not found in {module}.", hint="Correct its name.")
    own = _assigned(found[1]).get("encoder_class")
    if own is None or own.value is None:
        return _find_reads(found[0], ast.unparse(found[1].bases[0]))
    reads = _inherited(found[0], ast.unparse(own.value))["reads"].value
    return str(ast.literal_eval(reads or ast.Constant("")))


@functools.cache
def _read_module(name: str) -> ast.Module:
    """Parse a module without importing it."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise CrossNERError(f"The module {name} of a method was not found.", hint="Install its package again.")
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def _find_class(module: str, name: str) -> tuple[str, ast.ClassDef] | None:
    """Find a class, with its module, by its name in a module; None for a class of a library.

    A nested class, as ``Tagger.Hyperparameters``, may be inherited.
    """
    name, _, nested = name.partition(".")
    body = _read_module(module).body
    for node in body:
        if isinstance(node, ast.ImportFrom) and name in (each.name for each in node.names):
            source = str(node.module)
            of_methods = source.partition(".")[0] in (module.partition(".")[0], PACKAGE)
            return _find_class(source, f"{name}.{nested}".rstrip(".")) if of_methods else None
    found = _find_in(body, name)
    own = _find_in(found.body, nested) if found and nested else found
    if own or not found:
        return (module, own) if own else None
    bases = (_find_class(module, f"{ast.unparse(base)}.{nested}") for base in found.bases)
    return next(filter(None, bases), None)


def _find_in(body: list[ast.stmt], name: str) -> ast.ClassDef | None:
    return next((node for node in body if isinstance(node, ast.ClassDef) and node.name == name), None)


def _assigned(node: ast.Module | ast.ClassDef) -> dict[str, Assignment]:
    """Return the assignments of a module or class, by name."""
    assignments = [child for child in node.body if isinstance(child, Assignment) and child.value is not None]
    return {ast.unparse(each.targets[0] if isinstance(each, ast.Assign) else each.target): each for each in assignments}


def _inherited(module: str, name: str) -> dict[str, Assignment]:
    """Return the assignments of a class and its bases, by name, in the order of a dataclass's fields."""
    place = _find_class(module, name)
    if place is None:
        return {}
    found: dict[str, Assignment] = {}
    for base in reversed(place[1].bases):
        found |= _inherited(place[0], ast.unparse(base))
    return found | _assigned(place[1])


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
    """List methods with their defaults; those that all methods of words share come once, in a row before them."""
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
        Line(f"Reads {WORD_INPUTS if facts.reads == 'words' else facts.reads}"),
        Line(f"Differs: {facts.differs}"),
        Table(title, columns, rows, texts=(0, 1, 2, 3)),
    ]
