"""spaCy's training data of version 2: lists of a text and its entities."""

from __future__ import annotations

from typing import Any

from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.format import Format, count_values, json_reader
from crossner_cli.data.formats.jsonl import read_entity
from crossner_cli.data.formats.records import Record
from crossner_cli.data.formats.spans import SpannedText, abbreviate, check_strings
from crossner_cli.errors import BadLine

HINT = 'An example is ["In Paris", {"entities": [[3, 8, "location"]]}].'


def _is_example(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)


def _read_example(record: Record, repairs: Repairs) -> list[SpannedText]:
    entities = record.value[1].get("entities", []) if _is_example(record.value) else None
    if not isinstance(entities, list):
        raise BadLine(f"found {abbreviate(record.value)}.", hint=HINT)
    text = record.value[0]
    check_strings([text], "text", HINT)
    return [SpannedText(text, [*map(read_entity, entities)], record.number, record.place)]


FORMAT = Format(
    "spacy-lists", "spaCy's training lists", "examples", count_values(_is_example), json_reader(_read_example, HINT)
)
