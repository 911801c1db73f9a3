"""``crossner rerun``: make stages that are out of date again, with their own options."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from crossner_cli.errors import INTERRUPTED, IS_STEP, CrossNERError
from crossner_cli.option_fields import OnDevice
from crossner_cli.options import Rerun
from crossner_cli.run.directory import PREPARED, PREVIOUS, RunDirectory, given_in
from crossner_cli.run.freshness import find_outdated
from crossner_cli.stages.table import STAGES, find_kind

SHARED_OPTIONS = ("device", "gpus", "threads", "quiet", "verbose")
Execute = Callable[[list[str]], Any]  # runs the arguments of a command line in this process, and returns its status


def run(run: RunDirectory, options: Rerun, execute: Execute) -> dict[str, Any]:
    """Prepare the data again, if its files have changed, then make each stage that is out of date again.

    Return the command lines that ran and the taggers that were kept.

    Raises:
        CrossNERError: The run has no prepared data, or a stage is still out of date after it was made again.
        KeyboardInterrupt: A command was interrupted.
        SystemExit: A command failed, and has reported why.
    """
    run.manifest(PREPARED, wanted_by="rerun")
    kept, name = set(run.stages()), PREPARED
    commands: list[list[str]] = []
    outdated: dict[str, list[str]] = {}
    while name:
        directory = given_in(run.read(name))
        place = run if directory.samefile(".") else RunDirectory(run.path.resolve())
        command = command_again(place, name)
        if command in commands:
            raise CrossNERError(
                f"{name} was made again and is out of date again: {', '.join(outdated[name])}.",
                hint="Let nothing else change the run meanwhile, then give the command again.",
            )
        commands.append(command)
        with contextlib.chdir(directory):
            run_command(command, options, execute)
        outdated = find_outdated(run)
        name = next(iter(outdated), "")
    before = [name for name in run.stages() if name.endswith(PREVIOUS) and name not in kept]
    return {"commands": commands, "kept": before}


def run_command(command: list[str], options: OnDevice, execute: Execute) -> None:
    """Run a command line of crossner in this process, with the device and the verbosity of another command.

    Afterwards, environment and memory of the process are as before.

    Raises:
        KeyboardInterrupt: It was interrupted.
        SystemExit: It failed, and has reported why.
    """
    known = {field.name for field in dataclasses.fields(STAGES[command[1]].options)}
    shared = [part for name in SHARED_OPTIONS if name in known for part in options.given(name)]
    if command[1] == "label" and options.gpus:  # which works in one process
        shared[shared.index("--gpus") + 1] = options.gpus.split(",")[0]
    arguments, environment = sys.argv, dict(os.environ)
    sys.argv = [*command, *shared]  # with which several processes, one per GPU, are started
    os.environ[IS_STEP] = "1"
    try:
        with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
            status = execute(sys.argv[1:])
    except SystemExit as end:
        status = end.code
    finally:
        sys.argv = arguments
        os.environ.clear()
        os.environ.update(environment)
        gc.collect()
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status:
        sys.exit(status)


def command_again(run: RunDirectory, name: str) -> list[str]:
    """Return the command line that makes a stage of a run again with the options in its manifest."""
    manifest = run.read(name)
    return command_line(run, manifest["stage"], name, manifest["options"], ["--force"])


def command_line(
    run: RunDirectory, command: str, name: str, options: Mapping[str, Any], more: list[str] | None = None
) -> list[str]:
    """Return the command line of a stage with these options."""
    kind = find_kind(command, run.folder(name)).options
    named = [] if name == command else ["--name", name]
    arguments = [*kind.arguments_of(options), *named, "--run", str(run.path)]
    return ["crossner", command, *arguments, *([] if kind.replaces else more or [])]
