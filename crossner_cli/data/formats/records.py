"""Objects of JSON and JSONL, each with its place in the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from crossner_cli.data.files import Repairs, number_lines, open_bytes, parse_json
from crossner_cli.data.formats.spans import abbreviate
from crossner_cli.errors import BadLine, CrossNERError

BROKEN_HINT = "If it is cut off, export it again. Several values stand one a line: jq -c . FILE > NAME.jsonl"


@dataclass(frozen=True)
class Record:
    """A value of a JSON file: the number of its line, or of itself in an array, and its place for messages."""

    value: Any
    number: int
    place: str


def read_records(path: Path, repairs: Repairs, hint: str) -> Iterator[Record]:
    """Read the values of a JSON array, or of the lines of JSONL; the content tells which it is.

    Args:
        path: The file.
        repairs: Counts bad lines if they are skipped.
        hint: The form of a line, for messages.

    Raises:
        CrossNERError: The file cannot be read, or is no JSON.
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
        is_list_a_line = isinstance(first, list) and bool(filled)
        has_bad_head = isinstance(first, ValueError) and bool(filled) and isinstance(_parse(filled[0]), dict)
        if is_list_a_line or (has_bad_head and isinstance(_parse(filled[-1]), dict | list)):
            yield from parse_lines(chain([head], rest), str(path), repairs, hint=hint)
            return
        text = "\n".join(["\n" * (head[0] - 1) + head[1], *(line for _, line in rest)])
        yield from _parse_whole(text, str(path))


def _parse_whole(text: str, name: str) -> Iterator[Record]:
    try:
        values = parse_json(text)
    except json.JSONDecodeError as error:
        problem = f"{name}:{error.lineno}: no JSON ({error.msg}, column {error.colno})."
        raise CrossNERError(problem, hint=BROKEN_HINT) from None
    except (ValueError, RecursionError) as error:
        raise CrossNERError(f"{name}: no JSON ({type(error).__name__}).", hint=BROKEN_HINT) from None
    values = values if isinstance(values, list) else [values]
    yield from (Record(value, number, f"{name}, record {number}") for number, value in enumerate(values, start=1))


def _parse(line: str) -> Any:
    """The value of a line, or the error that it has."""
    try:
        return parse_json(line)
    except (ValueError, RecursionError) as error:
        return error if isinstance(error, ValueError) else ValueError("RecursionError")


def parse_lines(lines: Iterable[tuple[int, str]], name: str, repairs: Repairs, *, hint: str) -> Iterator[Record]:
    """Read JSONL: an object or a list a line; empty lines are skipped. ``hint`` is the form of a line.

    Raises:
        CrossNERError: A line is neither.
    """
    for number, line in lines:
        if not line.strip():
            continue
        try:
            value, reason = parse_json(line), ""
        except (ValueError, RecursionError) as error:
            value = None
            reason = f" ({error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__})"
        if isinstance(value, dict | list):
            yield Record(value, number, f"{name}:{number}")
        else:
            problem = BadLine(f"found {abbreviate(line)}, which is no JSON object{reason}.", hint=hint)
            repairs.refuse(problem, f"{name}:{number}")
