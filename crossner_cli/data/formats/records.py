"""Objects of JSON and JSONL, each with its place in the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from crossner_cli.data.files import Repairs, number_lines, open_bytes, parse_json
from crossner_cli.data.formats.spans import abbreviate
from crossner_cli.errors import BadLine, CrossNERError

BROKEN_HINT = "If it is cut off, export it again. To write several values one per line: jq -c . FILE > NAME.jsonl"


@dataclass(frozen=True)
class Record:
    """A value of a JSON file: the number of its line, or of itself in an array, and its place for messages."""

    value: Any
    number: int
    place: str


def read_records(path: Path, repairs: Repairs, hint: str) -> Iterator[Record]:
    """Read the values of a JSON array, or of the lines of JSONL; the content shows which.

    Args:
        path: The file.
        repairs: Counts bad lines if they are skipped.
        hint: The form of a line, for messages.

    Raises:
        CrossNERError: The file cannot be read, or is not JSON.
    """
    with open_bytes(path) as stream:
        lines = number_lines(stream, str(path), repairs)
        head = next(((number, line) for number, line in lines if line.strip()), None)
        if head is None:
            return
        first = _parse(head[1])
        if isinstance(first, dict) or not head[1].lstrip().startswith(("[", "{")):
            yield from parse_lines(chain([head], lines), str(path), repairs, hint=hint)
            return
        rest = list(lines)
        filled = [line for _, line in rest if line.strip()]
        if filled and isinstance(first, list) or _is_jsonl(filled):
            yield from parse_lines(chain([head], rest), str(path), repairs, hint=hint)
            return
        values = _parse("\n".join(["\n" * (head[0] - 1) + head[1], *(line for _, line in rest)]))
    if isinstance(values, json.JSONDecodeError):
        problem = f"{path}:{values.lineno}: it is not JSON ({values.msg}, column {values.colno})."
        raise CrossNERError(problem, hint=BROKEN_HINT)
    if isinstance(values, Exception):
        raise CrossNERError(f"{path}: it is not JSON ({type(values).__name__}).", hint=BROKEN_HINT)
    values = values if isinstance(values, list) else [values]
    yield from (Record(value, number, f"{path}, record {number}") for number, value in enumerate(values, start=1))


def _is_jsonl(lines: Sequence[str]) -> bool:
    """Return whether lines after a broken one are values themselves."""
    return bool(lines) and isinstance(_parse(lines[0]), dict) and isinstance(_parse(lines[-1]), dict | list)


def _parse(line: str) -> Any:
    """Parse the value of a line; return the error of a broken one."""
    try:
        return parse_json(line)
    except (ValueError, RecursionError) as error:
        return error


def parse_lines(lines: Iterable[tuple[int, str]], name: str, repairs: Repairs, *, hint: str) -> Iterator[Record]:
    """Read JSONL: one object or list per line; empty lines are skipped. ``hint`` is the form of a line.

    Raises:
        CrossNERError: A line is neither.
    """
    for number, line in lines:
        if not line.strip():
            continue
        value = _parse(line)
        if isinstance(value, dict | list):
            yield Record(value, number, f"{name}:{number}")
        else:
            told = value.msg if isinstance(value, json.JSONDecodeError) else type(value).__name__
            reason = f" ({told})" if isinstance(value, Exception) else ""
            problem = BadLine(f"found {abbreviate(line)}, which is not a JSON object{reason}.", hint=hint)
            repairs.refuse(problem, f"{name}:{number}")
