"""The help of Typer's commands, and the report of a wrong usage."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import typer
import typer.core

from crossner_cli.errors import WRONG_USAGE, write_problem
from crossner_cli.option_fields import EVERY_COMMAND


@contextlib.contextmanager
def wrong_usage() -> Iterator[None]:
    """Report a wrong usage, and end with its exit status."""
    try:
        yield
    except Exception as error:
        # Typer's copy of Click is private, so its exceptions are recognised by exit status and name.
        if getattr(error, "exit_code", None) != WRONG_USAGE or type(error).__name__ == "NoArgsIsHelpError":
            raise
        command = getattr(getattr(error, "ctx", None), "command_path", "crossner")
        problem = error.format_message()  # type: ignore[attr-defined]
        write_problem(problem, f"{command} --help", json_to=sys.stdout if "--json" in sys.argv else None)
        raise typer.Exit(WRONG_USAGE) from None


class CommandGroup(typer.core.TyperGroup):
    """All commands. A wrong usage of one is reported as any other problem is, with exit status 2."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Read the command line up to the command's name."""
        with wrong_usage():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with wrong_usage():
            return super().invoke(ctx)


class CommandHelp(typer.core.TyperCommand):
    """A command whose help shows its options group by group, and that takes one value for one option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; refuse an option that is repeated and keeps one value."""
        given: list[Any] = []
        with contextlib.suppress(Exception):  # other problems are reported below
            _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        counts = Counter(each.name for each in given)
        for parameter in given:
            is_switch = getattr(parameter, "is_flag", False) or getattr(parameter, "count", False)
            if counts[parameter.name] > 1 and not parameter.multiple and not is_switch and parameter.nargs == 1:
                ctx.fail(f"{parameter.opts[0]} is given {counts[parameter.name]} times, and takes one value.")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options into the help."""
        groups: dict[str, list[Any]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                title = "Arguments" if isinstance(parameter, typer.core.TyperArgument) else None
                title = title or getattr(parameter, "rich_help_panel", None) or "Options"
                groups.setdefault(EVERY_COMMAND if record[0] == "-h, --help" else title, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)
