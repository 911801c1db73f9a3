"""The current Python: versions of packages, packages of pip extras, and how crossner starts itself."""

from __future__ import annotations

import os
import platform
import sys
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from crossner_cli import __version__
from crossner_cli.errors import CrossNERError

if TYPE_CHECKING:
    from crossner_cli.run.directory import Manifest

PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "safetensors", "seqeval", "numpy")
# Without -P, -c and -m look for modules in the current folder first, where a user's random.py may lie.
PYTHON = (sys.executable, "-P")


def installed_versions() -> dict[str, str]:
    """Return the versions of this package, of Python and of each package that results depend on."""
    found = {"crossner": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def make_record(
    command: str, options: dict[str, Any], inputs: dict[str, str], result: dict[str, Any], began: float
) -> Manifest:
    """Make the manifest of a command that began at ``time.perf_counter()``; a stage adds to it."""
    return {
        "stage": command,
        "name": command,
        "options": options,
        "inputs": inputs,
        "result": result,
        "versions": installed_versions(),
        "seconds": round(time.perf_counter() - began, 1),
    }


def python_path() -> dict[str, str]:
    """Return the environment variable that gives another Python the same imports."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def import_optional(module: str, purpose: str, *, extra: str) -> Any:
    """Import a module of a pip extra.

    Raises:
        CrossNERError: It cannot be imported; ``purpose`` begins the sentence, as ``Parquet is read with pyarrow``.
    """
    try:
        return import_module(module)
    except ImportError as problem:
        raise CrossNERError(
            f"{purpose}, which cannot be imported: {problem}.", hint=f'pip install "crossner[{extra}]"'
        ) from None
