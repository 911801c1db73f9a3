"""The one exception for everything a user can cause, and the boundary that reports it."""

from __future__ import annotations

import contextlib
import difflib
import errno
import json
import os
import shlex
import shutil
import sys
import textwrap
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, TextIO

from crossner_cli.figures import COMMAND, message

KNOWN_PROBLEM, WRONG_USAGE, INTERRUPTED = 1, 2, 130
IS_STEP = "CROSSNER_IS_STEP"  # set for a command that another one runs: only the outer one suggests what comes next
SECONDS_FOR_OTHERS = 2.0
# Ways out of errors of the operating system.
REFUSALS = {
    errno.ENOSPC: "Free some space, or write to another disk (--run or --output).",
    errno.EDQUOT: "Free some of your quota, or write to another disk (--run or --output).",
    errno.EACCES: "Choose a place that is yours, or change its permissions.",
    errno.EPERM: "Choose a place that is yours, or change its permissions.",
    errno.EROFS: "Choose a place that can be written, as with --run DIR.",
    errno.EMFILE: "Raise the limit of open files, as with: ulimit -n 4096",
}
LESS_MEMORY = (
    "A larger --accumulate reads a batch in smaller parts, with the same gradient; a smaller --batch-subwords reads"
    " less at once in evaluate and predict."
)
CHECK_THE_PATH = "Check the path and the disk; --verbose shows where this happened."
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory")


class CrossNERError(Exception):
    """A known problem: the value found, its place, and the way out, as a corrected command if there is one."""

    def __init__(self, problem: str, *, hint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem}\n{self.hint}" if self.hint else self.problem


class Reporting(Protocol):
    """The options that decide how a command reports why it stops."""

    @property
    def json(self) -> bool: ...  # noqa: D102
    @property
    def verbose(self) -> bool: ...  # noqa: D102
    @property
    def has_data_on_stdout(self) -> bool: ...  # noqa: D102
    @property
    def is_resumable(self) -> bool: ...  # noqa: D102


class BadLine(CrossNERError):
    """A line of a file that cannot be read, although others can."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``Did you mean 'x'? `` if a known name resembles a misspelt one; else an empty text."""
    alike = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {alike[0]!r}? " if alike else ""


def suggest_path(path: Path) -> str:
    """Return ``Did you mean 'x'? `` if a file or folder beside a missing one has a similar name."""
    try:
        return suggest(path.name, [each.name for each in path.parent.iterdir() if each.name != path.name])
    except OSError:
        return ""


@contextlib.contextmanager
def known_problems(options: Reporting) -> Iterator[None]:
    """Turn what a user, a disk or a full memory can cause into a message and an exit status.

    Anything else is a defect and keeps its traceback.
    """
    try:
        yield
    except CrossNERError as error:
        report(error.problem, error.hint, options, is_shared=True)
    except KeyboardInterrupt:
        if IS_STEP in os.environ:
            sys.exit(INTERRUPTED)
        hint = f"The same command continues: {shlex.join(['crossner', *sys.argv[1:]])}"
        hint = hint if options.is_resumable else "Nothing is left of it to continue."
        report("Interrupted.", hint, options, is_shared=True, is_error=False)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        raise  # Typer ends quietly: the reader of the output has seen enough
    except OSError as error:
        if error.errno is None:
            raise
        names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
        hint = REFUSALS.get(error.errno, CHECK_THE_PATH)
        report(f"{names or 'Writing the output'}: {error.strerror}.", hint, options)
        _drop_unwritten_stdout()
    except (RuntimeError, MemoryError) as error:
        # PyTorch has one exception for each kind of GPU and none for the CPU, so the words decide.
        if not isinstance(error, MemoryError) and not any(words in str(error).lower() for words in OUT_OF_MEMORY):
            raise
        reason = str(error).partition("\n")[0] or "Python got no more"
        report(f"The memory is full: {reason}", LESS_MEMORY, options)
    except Exception as error:
        if type(error).__name__ != "SafetensorError":  # its package is too heavy to import here
            raise
        is_full = "No space left" in str(error)
        hint = REFUSALS[errno.ENOSPC] if is_full else CHECK_THE_PATH
        report(f"Weights cannot be written: {error}.", hint, options)
    else:
        return
    sys.exit(KNOWN_PROBLEM)


def report(problem: str, hint: str, options: Reporting, *, is_shared: bool = False, is_error: bool = True) -> None:
    """Write a problem and its way out to stderr, and with ``--json`` as one object where results go.

    A problem that all processes of the command share is reported by one a machine. An interruption is not an error.
    """
    import typer

    if is_shared and os.environ.get("LOCAL_RANK", "0") != "0":
        time.sleep(SECONDS_FOR_OTHERS)  # a launcher ends the others as soon as one process has ended
        return
    if options.verbose and is_error:
        typer.echo(message(traceback.format_exc()), err=True)
    stream = sys.stderr if options.has_data_on_stdout else sys.stdout
    as_json = options.json and os.environ.get("RANK", "0") == "0"
    write_problem(problem, hint, is_error=is_error, json_to=stream if as_json else None)


def write_problem(problem: str, hint: str, *, is_error: bool = True, json_to: TextIO | None = None) -> None:
    """Write a problem and its way out to stderr, and to another stream as one JSON object."""
    import typer

    problem, hint = message(problem), message(hint)
    for heading, text in (("Problem: ", problem), ("Way out: ", hint)):
        if text:
            typer.echo(_wrap((typer.style(heading, bold=True) if is_error else "") + text), err=True)
    if json_to is not None:
        with contextlib.suppress(OSError):  # stdout itself may be the problem
            print(json.dumps({"error": problem, "hint": hint}), file=json_to, flush=True)


def _wrap(text: str) -> str:
    """Wrap a message at words on a terminal; a line that holds a command stays whole, so that it can be copied."""
    if not sys.stderr.isatty():
        return text
    fill = textwrap.TextWrapper(shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False).fill
    return "\n".join(line if COMMAND.search(line) else fill(line) for line in text.split("\n"))


def _drop_unwritten_stdout() -> None:
    """If stdout can no longer be written, drop its buffer: else Python would fail again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
