"""GLiNER2's training data: texts with strings by type."""

from __future__ import annotations

from typing import Any

from crossner_cli.data.formats.format import Format, count_values
from crossner_cli.data.formats.spans import abbreviate
from crossner_cli.data.formats.strings import strings_reader
from crossner_cli.errors import BadLine

HINT = 'A line is {"input": "In Paris", "output": {"entities": {"location": ["Paris"]}}}.'


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("output"), dict) and "input" in value


def _find_pairs(value: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    found = value["output"].get("entities", {}) if _is_record(value) else None
    if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
        raise BadLine(f"found the entities {abbreviate(found)}.", hint=HINT)
    return value["input"], [(each, kind) for kind, strings in found.items() for each in strings]


FORMAT = Format("gliner2", "GLiNER2 JSONL", "records", count_values(_is_record), strings_reader(_find_pairs, HINT))
