"""Seconds that ``crossner --help`` and ``crossner finetune --help`` take, the best of a few runs.

python benchmarks/help_time.py [--runs 5]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

COMMANDS = (["--help"], ["finetune", "--help"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a line a command."""
    parser = argparse.ArgumentParser(description="Seconds that the help of crossner takes.")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command; the fastest counts")
    runs = parser.parse_args(arguments).runs
    for command in COMMANDS:
        print(f"crossner {' '.join(command)}: {min(seconds_of(command) for _ in range(runs)):.2f} s (best of {runs})")


def seconds_of(command: Sequence[str]) -> float:
    """Run a command in a new process, as a shell would."""
    began = time.perf_counter()
    subprocess.run([*crossner(), *command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def crossner() -> list[str]:
    """The command of this Python's environment."""
    script = Path(sys.executable).with_name("crossner")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "crossner_cli"]


if __name__ == "__main__":
    main()
