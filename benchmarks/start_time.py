"""Seconds that commands take which train nothing: help, an error before any stage, and a line tagged.

python benchmarks/start_time.py [--runs 5] [--model run/finetune]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

COMMANDS = {
    "--help": ["--help"],
    "finetune --help": ["finetune", "--help"],
    "an error before any stage": ["finetune", "--run", "no-such-run"],
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a line a command."""
    parser = argparse.ArgumentParser(description="Seconds that commands take which train nothing.")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command; the fastest counts")
    parser.add_argument("--model", type=Path, help="folder of a stage or an export, to tag a line with")
    given = parser.parse_args(arguments)
    commands = dict(COMMANDS)
    if given.model:
        commands["predict one line"] = ["predict", "--text", "Anna sees Vega.", "--model", str(given.model)]
    for name, command in commands.items():
        print(f"crossner {name}: {min(seconds_of(command) for _ in range(given.runs)):.2f} s (best of {given.runs})")


def seconds_of(command: Sequence[str]) -> float:
    """Run a command in a new process, as a shell would; whether it ends in an error is its own affair."""
    began = time.perf_counter()
    subprocess.run([*crossner(), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began


def crossner() -> list[str]:
    """The command of this Python's environment."""
    script = Path(sys.executable).with_name("crossner")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "crossner_cli"]


if __name__ == "__main__":
    main()
