"""Results read back from manifests as their dataclasses."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from crossner_cli.errors import CrossNERError

Result = TypeVar("Result")


def read_result(manifest: Mapping[str, Any], kind: type[Result]) -> Result:
    """Read the result of a manifest as its dataclass.

    Raises:
        CrossNERError: A value is missing or of another type.
    """
    try:
        return from_record(manifest.get("result"), kind)
    except ValueError as error:
        raise CrossNERError(
            f"The manifest of the stage {manifest.get('name')!r} is broken: {error}.",
            hint="Copy the run again, or make the stage again with --force.",
        ) from None


def from_record(record: Any, kind: type[Result]) -> Result:
    """Turn a JSON record into a dataclass.

    Raises:
        ValueError: A value is missing or of another type.
    """
    found: Result = _read(record, kind, "result")
    return found


def _read(value: Any, hint: Any, place: str) -> Any:
    """Turn a JSON value into the type of a hint; raise ValueError with its place if it has another one."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if types.NoneType in arguments:
        return None if value is None else _read(value, arguments[0], place)
    if dataclasses.is_dataclass(hint):
        return _read_dataclass(value, hint, place)
    wider: dict[Any, Any] = {float: (int, float), list: (list, tuple)}
    wanted = origin or hint
    if not isinstance(value, wider.get(wanted, wanted)):
        raise ValueError(f"{place} is {value!r}")
    if origin is dict:
        return {key: _read(item, arguments[1], f"{place}.{key}") for key, item in value.items()}
    if origin is list:
        return [_read(item, arguments[0], f"{place}.{number}") for number, item in enumerate(value)]
    return value


def _read_dataclass(value: Any, kind: Any, place: str) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{place} is missing" if value is None else f"{place} is {value!r}")
    hints = typing.get_type_hints(kind)
    known = {name: _read(value[name], hint, f"{place}.{name}") for name, hint in hints.items() if name in value}
    try:
        return kind(**known)
    except TypeError:
        missing = next(field.name for field in dataclasses.fields(kind) if field.name not in known)
        raise ValueError(f"{place}.{missing} is missing") from None
