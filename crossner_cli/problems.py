"""What goes wrong: the one place that turns known problems into advice and an exit status."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

import typer
import typer.core

from crossner_cli.errors import CrossNERError
from crossner_cli.option_fields import Command
from crossner_cli.options import CPU_SUBWORDS, Predict
from crossner_cli.prediction.place import can_be_continued, output_place

KNOWN_PROBLEM, WRONG_USAGE, INTERRUPTED = 1, 2, 130
SECONDS_TO_TELL = 2.0
# What an operating system refuses, and the way out of it.
REFUSALS = {
    errno.ENOSPC: "Free some space, or write to another disk (--run or --output).",
    errno.EDQUOT: "Free some of your quota, or write to another disk (--run or --output).",
    errno.EACCES: "Choose a place that is yours, or change its permissions.",
    errno.EPERM: "Choose a place that is yours, or change its permissions.",
    errno.EROFS: "Choose a place that can be written, as with --run DIR.",
    errno.EMFILE: "Raise the limit of open files, as with: ulimit -n 4096",
}
CHECK_THE_PATH = "Check the path and the disk; --verbose shows where this happened."


class GroupOfCommands(typer.core.TyperGroup):
    """The commands; with ``--json``, what is wrong with the usage of one is an object too, as any other problem is."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; a wrong usage is told as JSON, then, with exit status 2, as Typer tells it."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            # Typer's own copy of Click is private, so a wrong usage is known by what Click promises of it.
            if getattr(error, "exit_code", None) == WRONG_USAGE and "--json" in sys.argv:
                name = getattr(getattr(error, "ctx", None), "command_path", "crossner")
                result = {"error": error.format_message(), "hint": f"{name} --help"}  # type: ignore[attr-defined]
                has_data_there = "predict" in sys.argv and not any(word.startswith("--output") for word in sys.argv)
                typer.echo(json.dumps(result), err=has_data_there)
            raise


@contextlib.contextmanager
def known_problems(options: Command) -> Iterator[None]:
    """Turn what a user, a disk or a memory can cause into a message and an exit status.

    Anything else is a defect and keeps its traceback.
    """
    try:
        yield
    except CrossNERError as error:
        tell(error.problem, error.hint, options, is_shared=True)
    except KeyboardInterrupt:
        tell("Interrupted.", _after_interruption(options), options, is_shared=True, is_error=False)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise  # Typer's own quiet exit: whoever read the output has seen enough
    except OSError as error:
        if error.errno is None:
            raise
        names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
        tell(f"{names or 'Writing the output'}: {error.strerror}.", REFUSALS.get(error.errno, CHECK_THE_PATH), options)
        silence_broken_stdout()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0] or "Python got no more"
        tell(f"The memory is full: {reason}", more_memory(options), options)
    except Exception as error:
        if type(error).__name__ != "SafetensorError":  # its package is heavy, and here only what cannot be written
            raise
        is_full = "No space left" in str(error)
        tell(f"Weights cannot be written: {error}.", REFUSALS[errno.ENOSPC] if is_full else CHECK_THE_PATH, options)
    else:
        return
    raise typer.Exit(KNOWN_PROBLEM)


def _after_interruption(options: Command) -> str:
    if isinstance(options, Predict) and not can_be_continued(options):
        return "Give it again; name files and --output so that it can be continued."
    return f"The same command continues: {shlex.join(['crossner', *sys.argv[1:]])}"


def silence_broken_stdout() -> None:
    """Where stdout itself can no longer be written, drop what is left for it, which would fail again at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocator gave up; told by words, since PyTorch has one class a device and none for the CPU."""
    return isinstance(error, MemoryError) or any(
        words in str(error).lower()
        for words in ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory")
    )


def more_memory(options: Command) -> str:
    """The flags that need less memory."""
    accumulate, batch_size = getattr(options, "accumulate", None), getattr(options, "batch_size", None)
    if accumulate is not None and batch_size is not None:
        keys = (setting.partition("=")[0] for setting in getattr(options, "settings", ()))
        sizes = dict.fromkeys(f"--set {key}" for key in keys if key.replace("-", "_").endswith(("_size", "_layers")))
        return (
            f"--accumulate {2 * accumulate} reads a batch in smaller parts, with the same gradient;"
            f" --batch-size {max(1, batch_size // 2)} makes batches smaller. Both begin the stage again, with --force."
        ) + (f" Layers that are too large need smaller values of {', '.join(sizes)}." if sizes else "")
    if not hasattr(options, "batch_subwords"):
        return ""
    return f"--batch-subwords {max(64, (options.batch_subwords or CPU_SUBWORDS) // 4)} reads less at once."


def tell(problem: str, hint: str, options: Command, *, is_shared: bool = False, is_error: bool = True) -> None:
    """Write a problem and its way out to stderr, and with ``--json`` as an object to where results go.

    A problem that all processes share is told once a machine.
    """
    if is_shared and os.environ.get("LOCAL_RANK", "0") != "0":
        time.sleep(SECONDS_TO_TELL)  # a launcher ends the others as soon as one has ended
        return
    if options.verbose and is_error:
        traceback.print_exc()
    typer.echo(typer.style("Problem: ", bold=True) + problem if is_error else problem, err=True)
    if hint:
        typer.echo(typer.style("Way out: ", bold=True) + hint if is_error else hint, err=True)
    if options.json and os.environ.get("RANK", "0") == "0":
        with contextlib.suppress(OSError):  # stdout itself may be the problem
            typer.echo(json.dumps({"error": problem, "hint": hint}), err=has_data_on_stdout(options))


def has_data_on_stdout(options: Command) -> bool:
    """Whether stdout is for tagged text, so that results go to stderr."""
    return isinstance(options, Predict) and output_place(options) is None
