"""GLiNER's training data: words, and spans of them whose ends are inclusive."""

from __future__ import annotations

from typing import Any

from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.format import Format, count_values, json_reader
from crossner_cli.data.formats.records import Record
from crossner_cli.data.formats.spans import (
    EMPTY_SENTENCE,
    OVERLAPPING_ENTITY,
    Located,
    abbreviate,
    check_strings,
    check_type,
    drop_overlaps,
)
from crossner_cli.data.formats.words import locate, replace_empty_words
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_tags
from crossner_cli.errors import BadLine

HINT = 'A record is {"tokenized_text": ["In", "Paris"], "ner": [[1, 1, "location"]]}, its ends inclusive.'


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and {"tokenized_text", "ner"} <= value.keys()


def _read_record(record: Record, repairs: Repairs) -> list[Located]:
    value = record.value if isinstance(record.value, dict) else {}
    words, spans = value.get("tokenized_text"), value.get("ner")
    if not isinstance(words, list) or not isinstance(spans, list):
        raise BadLine(f"found {abbreviate(record.value)}.", hint=HINT)
    check_strings(words, "tokenized_text", HINT)
    found = []
    for each in spans:
        if not isinstance(each, list) or len(each) < 3 or type(each[0]) is not int or type(each[1]) is not int:
            raise BadLine(f"found the entity {abbreviate(each)}.", hint=HINT)
        if not 0 <= each[0] <= each[1] < len(words):
            raise BadLine(f"found the entity {abbreviate(each)} in {len(words)} words.", hint=HINT)
        found.append(Span(each[0], each[1] + 1, check_type(each[2])))
    kept = drop_overlaps(found, len(words))
    if len(kept) < len(found):
        repairs.add(OVERLAPPING_ENTITY, record.place, len(found) - len(kept))
    if not words:
        repairs.add(EMPTY_SENTENCE, record.place)
        return []
    whole = replace_empty_words(words, record.place, repairs)
    return [locate(Sentence(whole, tuple(to_tags(kept, len(words)))), record)]


FORMAT = Format("gliner", "GLiNER JSON", "records", count_values(_is_record), json_reader(_read_record, HINT))
