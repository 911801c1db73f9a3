"""Versions that a result depends on, for the manifest."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from crossner_cli import __version__

PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "safetensors", "seqeval", "numpy")


def versions() -> dict[str, str]:
    """Version of this package, of Python and of each package that moves numbers."""
    found = {"crossner": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
