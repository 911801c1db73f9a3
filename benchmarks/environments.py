"""Virtual environments of other tools, made once: each has its own pinned packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

RECORD = "requirements.json"  # in the folder of a finished environment


def python_of(name: str, requirements: Sequence[str], folder: Path) -> Path:
    """The Python of an environment with these packages; it is made if there is none, or one with others.

    Raises:
        subprocess.CalledProcessError: A package cannot be installed.
    """
    place = folder / name
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    record = place / RECORD
    if not record.is_file() or json.loads(record.read_text(encoding="utf-8")) != list(requirements):
        print(f"making the environment {place}: {' '.join(requirements)}", file=sys.stderr, flush=True)
        shutil.rmtree(place, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(place)])
        run([str(python), "-m", "pip", "install", "--quiet", *requirements], PYTHONPATH="")
        record.write_text(json.dumps(list(requirements)), encoding="utf-8")
    return python


def run(command: Sequence[str], **changes: str) -> None:
    """Run a command with changes to the environment variables; what it prints is shown only if it fails.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    done = subprocess.run(
        command, env={**os.environ, **changes}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr, flush=True)
        raise subprocess.CalledProcessError(done.returncode, command)
