"""Write docs/reference.md, the reference of all commands, from the options that the program declares.

python docs/make_reference.py
"""

from __future__ import annotations

import dataclasses
import html
import inspect
import itertools
import typing
from pathlib import Path
from typing import Any

from crossner_cli.cli import app, find_metavar
from crossner_cli.option_fields import Command, default_of, fields_in_order, flag_of, group_of

REFERENCE = Path(__file__).with_name("reference.md")
INTRODUCTION = """\
# Commands

<!-- Written by docs/make_reference.py; change the options in crossner_cli/options.py instead. -->

Every command prints this with `crossner COMMAND --help`. `--paper` takes the value after "Paper:" for each option that
is not given.
"""


def reference() -> str:
    """The text of the page."""
    return INTRODUCTION + "".join(describe_command(str(each.name), each.callback) for each in app.registered_commands)


def describe_command(name: str, callback: Any) -> str:
    """The section of one command: what it does, and a table for each group of its options."""
    options_type: type[Command] | None = getattr(callback, "options_type", None)
    lines = ["", f"## crossner {name}", "", inspect.cleandoc(callback.__doc__), ""]
    if options_type is None:  # crossner methods declares its two parameters itself
        return "\n".join([*lines, "Takes names of methods, and `--json`.", ""])
    hints = typing.get_type_hints(options_type)
    for group, fields in itertools.groupby(fields_in_order(options_type), key=group_of):
        lines += [f"**{group}**", "", "| option | default | |", "|---|---|---|"]
        lines += [describe_option(field, hints[field.name]) for field in fields]
        lines.append("")
    return "\n".join(lines)


def describe_option(field: dataclasses.Field[Any], hint: Any) -> str:
    """One row: the option with its value, its default, and its help."""
    choices = [choice for kind in (hint, *typing.get_args(hint)) for choice in typing.get_args(kind)]
    value = find_metavar(hint) or "\\|".join(choice for choice in choices if isinstance(choice, str))
    name = field.name.upper() if field.metadata["argument"] else flag_of(field)
    written = name if hint is bool or field.metadata["argument"] else f"{name} {value}"
    default = default_of(field)
    shown = "" if default is None or default is False or default == [] else f"`{default}`"
    return f"| `{written}` | {shown} | {html.escape(field.metadata['typer']['help'], quote=False)} |"


if __name__ == "__main__":
    REFERENCE.write_text(reference(), encoding="utf-8")
