"""LangExtract's documents: a text with extractions at places in it."""

from __future__ import annotations

from typing import Any

from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.format import Format, count_values, json_reader
from crossner_cli.data.formats.records import Record
from crossner_cli.data.formats.spans import Entity, SpannedText, abbreviate, check_strings, check_type
from crossner_cli.errors import BadLine

NOT_ALIGNED = "extraction that is not found in the text as it is dropped"
HINT = (
    'A line is {"text": "In Paris", "extractions": [{"extraction_class": "location", "char_interval": {"start_pos": 3,'
    ' "end_pos": 8}}]}.'
)


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and "extractions" in value and "text" in value


def _read_record(record: Record, repairs: Repairs) -> list[SpannedText]:
    """Read a document; extractions without a place, or with an approximate one, are left out and counted."""
    value = record.value if isinstance(record.value, dict) else {}
    text, extractions = value.get("text"), value.get("extractions") or []
    if not isinstance(text, str) or not isinstance(extractions, list):
        raise BadLine(f"found {abbreviate(record.value)}.", hint=HINT)
    check_strings([text], "text", HINT)
    entities = []
    for each in extractions:
        place = each.get("char_interval") if isinstance(each, dict) else 0
        if place is None or (isinstance(each, dict) and each.get("alignment_status") not in (None, "match_exact")):
            repairs.add(NOT_ALIGNED, record.place)
            continue
        start, end = (place.get(key) for key in ("start_pos", "end_pos")) if isinstance(place, dict) else (0, 0)
        if type(start) is not int or type(end) is not int or not end:
            raise BadLine(f"found the extraction {abbreviate(each)}.", hint=HINT)
        entities.append(Entity(start, end, check_type(each.get("extraction_class"))))
    return [SpannedText(text, entities, record.number, record.place)]


FORMAT = Format(
    "langextract", "LangExtract JSONL", "documents", count_values(_is_record), json_reader(_read_record, HINT)
)
