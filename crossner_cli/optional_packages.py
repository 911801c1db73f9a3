"""Packages that only some inputs need: imported when such an input is met."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from crossner_cli.errors import CrossNERError


def import_optional(module: str, purpose: str) -> Any:
    """Import a module of the pip extra ``corpora``.

    Args:
        module: Its name.
        purpose: What it is needed for, as the beginning of a sentence: ``Parquet files are read``.

    Raises:
        CrossNERError: It cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as problem:
        raise CrossNERError(f"{purpose} with {module}, which cannot be imported: {problem}.",
                            hint='pip install "crossner[corpora]"') from None  # fmt: skip
