"""How crossner starts itself again: with the modules that it has, not those of the folder at hand."""

from __future__ import annotations

import os
import sys

# Without -P, -c and -m look for modules in the current folder first, where a user's random.py may lie.
PYTHON = (sys.executable, "-P")


def python_path() -> dict[str, str]:
    """The environment variable that lets another Python find what this one finds."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
