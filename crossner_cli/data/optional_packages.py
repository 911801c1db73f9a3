"""Packages that only some inputs and outputs need: imported when one of these is met."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from crossner_cli.errors import CrossNERError


def import_optional(module: str, purpose: str, *, extra: str) -> Any:
    """Import a module of a pip extra.

    Args:
        module: Its name.
        purpose: What it is needed for, as the beginning of a sentence: ``Parquet is read with pyarrow``.
        extra: The pip extra that installs it.

    Raises:
        CrossNERError: It cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as problem:
        raise CrossNERError(f"{purpose}, which cannot be imported: {problem}.",
                            hint=f'pip install "crossner[{extra}]"') from None  # fmt: skip
