"""Commands of the command line."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import typer
from typer.testing import CliRunner, Result

from crossner_cli.cli import add_flags, app
from crossner_cli.option_fields import Command, option

QUICK = ("--device", "cpu", "--threads", "1", "--precision", "fp32")


def invoke(*arguments: str | Path) -> Result:
    """Run a command. Options may stand together in one text, also behind the command: ``dapt --epochs 1``."""
    words: list[str] = []
    for each in map(str, arguments):
        words += each.split() if re.match("--|[a-z-]+ --", each) else [each]
    return CliRunner().invoke(app, words)


def crossner(*arguments: str | Path) -> dict[str, Any]:
    """Run a command with ``--json`` and return its result."""
    done = invoke(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def refused(*arguments: str | Path) -> str:
    """Run a command that ends with a known problem, and return what it says."""
    done = invoke(*arguments)
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit), (done.stdout, done.stderr)
    return " ".join(done.stderr.split())


def told(*arguments: str | Path) -> str:
    """Run a command, and return what it says on its way."""
    done = invoke(*arguments)
    assert done.exit_code == 0, done.stderr
    return " ".join(done.stderr.split())


def run_process(*arguments: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does, in a process of its own."""
    command = [sys.executable, "-m", "crossner_cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **changes)


def line_of(*arguments: str | Path, launcher: tuple[str, ...] = ()) -> list[str]:
    """The command line of a process of its own, behind a launcher's if one is given."""
    module = ("crossner_cli",) if launcher else ("-m", "crossner_cli")
    return [sys.executable, *launcher, *module, *map(str, arguments)]


@dataclass(frozen=True, kw_only=True)
class Sample(Command):
    """Every kind of field there is."""

    files: list[Path] = option([], "Files.", argument=True)
    word: str = option("one", "A word.", paper="published")
    number: int | None = option(None, "A number.", minimum=1, paper=7)
    share: float = option(0.5, "A share.", minimum=0.0, maximum=1.0)
    rate: float = option(1.0, "A rate.", minimum=0.0)
    choice: Literal["left", "right"] = option("left", "A side.")
    pairs: list[str] = option([], "Pairs.", "--set")
    plain: bool = option(False, "A plain switch.")
    both: bool = option(False, "A switch with two forms.", paper=True)
    paper: bool = option(False, "Published values.", counts=False)
    near: int = option(1, "Needs a word or the right side.", needs=("number", "choice=right"))


def parse(*arguments: str, body: Callable[[Sample], None] | None = None) -> tuple[Any, list[Sample]]:
    """Run a command that takes ``Sample``; return the result and the options that its body was given."""
    given: list[Sample] = []
    sample_app = typer.Typer(pretty_exceptions_enable=False)
    sample_app.command()(add_flags(Sample)(body or given.append))
    return CliRunner().invoke(sample_app, list(arguments)), given
