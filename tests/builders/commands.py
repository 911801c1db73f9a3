"""Commands of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from crossner_cli.cli import app

QUICK = ("--device", "cpu", "--threads", "1", "--precision", "fp32")


def crossner(*arguments: str | Path) -> dict[str, Any]:
    """Run a command with ``--json`` and return its result."""
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.stderr
    record: dict[str, Any] = json.loads(done.stdout)
    return record
