"""Texts with entities at places in JSON: our own, doccano's, Prodigy's, spaCy's training data and LangExtract's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.records import Record
from crossner_cli.data.formats.spans import (
    ENTITIES_HINT,
    Entity,
    Item,
    Located,
    SpannedText,
    abbreviate,
    check_strings,
    check_type,
    first_of,
)
from crossner_cli.data.formats.words import JSONL_HINT, TEXT, WORDS, Names, no_names, read_words
from crossner_cli.errors import BadLine

ENTITIES = ("entities", "spans", "label", "labels")
STARTS, ENDS, TYPES = ("start", "start_offset"), ("end", "end_offset"), ("type", "label", "labels")
DATA = "data"  # doccano's other name for the text
REFUSED_EXAMPLE = "example whose answer is not accept dropped"
REFUSED_SPAN = "span whose answer is not accept left out"
MERGED_EXAMPLE = "example of the same _input_hash merged with the first"
NULL_LABELS = "labels that are null read as none"
NOT_ALIGNED = "extraction that is not found in the text as it is dropped"
PRODIGY_KEYS = ("answer", "_input_hash", "_task_hash")
SPACY_HINT = 'An example is ["In Paris", {"entities": [[3, 8, "location"]]}].'
LANGEXTRACT_HINT = (
    'A line is {"text": "In Paris", "extractions": [{"extraction_class": "location", "char_interval": {"start_pos": 3,'
    ' "end_pos": 8}}]}.'
)


def read_objects(records: Iterable[Record], repairs: Repairs, find_names: Names = no_names) -> Iterator[Item]:
    """Read objects of words with tags, or of a text with entities at places in it.

    Args:
        records: The objects.
        repairs: Counts what is left out.
        find_names: Gives the names of tags that are numbers.

    Raises:
        CrossNERError: An object is neither.
    """
    for record in records:
        try:
            value = record.value
            if not isinstance(value, dict):
                raise BadLine(f"found {abbreviate(value)}, which is no JSON object.", hint=JSONL_HINT)
            lists = [value.get(key) for key in WORDS]
            has_words = any(isinstance(words, list) and isinstance(next(iter(words), None), str) for words in lists)
            if not has_words and (nulls := [key for key in ENTITIES if value.get(key, key) is None]):
                repairs.add(NULL_LABELS, record.place)
                value = {**value, **dict.fromkeys(nulls, [])}
            key = TEXT if isinstance(value.get(TEXT), str) else DATA
            if isinstance(value.get(key), str) and not has_words and find_entities(value) is not None:
                found = [read_text(value, key, record, repairs)]
                yield from (each for each in found if each is not None)
                continue
            sentences = read_words(value, record.place, repairs, find_names)
        except BadLine as problem:
            repairs.refuse(problem, record.place)
        else:
            yield from (Located(sentence, [record.number] * len(sentence.words)) for sentence in sentences)


def find_entities(record: dict[str, Any]) -> list[Any] | None:
    """The list of entities of an object, under one of its names; None without any."""
    lists: dict[str, list[Any]] = {key: record[key] for key in ENTITIES if isinstance(record.get(key), list)}
    filled = [key for key, entities in lists.items() if entities]
    if len(filled) > 1:
        raise BadLine(f"found entities in {filled[0]!r} and in {filled[1]!r}.", hint=f"Leave one out. {ENTITIES_HINT}")
    if filled:
        return lists[filled[0]]
    is_prodigy = any(key in record for key in PRODIGY_KEYS)  # which leaves spans out where there are none
    return next(iter(lists.values()), [] if is_prodigy else None)


def read_text(record: dict[str, Any], key: str, where: Record, repairs: Repairs) -> SpannedText | None:
    """A text with its entities; None if the annotator refused it."""
    if record.get("answer") not in (None, "accept"):
        repairs.add(REFUSED_EXAMPLE, where.place)
        return None
    text = record[key]
    check_strings([text], key, JSONL_HINT)
    entities = find_entities(record) or []
    kept = [each for each in entities if not isinstance(each, dict) or each.get("answer") in (None, "accept")]
    if len(kept) < len(entities):
        repairs.add(REFUSED_SPAN, where.place, len(entities) - len(kept))
    return SpannedText(text, [_read_entity(each) for each in kept], where.number, where.place)


def _read_entity(entity: Any) -> Entity:
    """First character, the one after the last, and type."""
    if isinstance(entity, dict):
        start, end, entity_type = (first_of(entity, keys) for keys in (STARTS, ENDS, TYPES))
        if isinstance(entity_type, list) and len(entity_type) == 1:
            entity_type = entity_type[0]
    else:
        start, end, entity_type = entity if isinstance(entity, list) and len(entity) == 3 else (None, None, None)
    if type(start) is not int or type(end) is not int or isinstance(entity_type, list | dict | bool | None):
        raise BadLine(f"found the entity {abbreviate(entity)}.", hint=ENTITIES_HINT)
    text = entity.get(TEXT) if isinstance(entity, dict) else None
    return Entity(start, end, check_type(entity_type), text if isinstance(text, str) else None)


def read_prodigy(records: Iterable[Record], repairs: Repairs) -> Iterator[Item]:
    """Read Prodigy's examples; those of one ``_input_hash`` are merged into the first.

    An example without ``spans`` has no entity.

    Raises:
        CrossNERError: An example is malformed.
    """
    merged: dict[Any, list[SpannedText]] = {}
    items: list[tuple[Any, Item]] = []
    for record in records:
        for item in read_objects([record], repairs):
            task = record.value.get("_input_hash")
            if not isinstance(task, int | str) or not isinstance(item, SpannedText):
                items.append((None, item))
            elif task in merged and merged[task][0].text == item.text:
                merged[task].append(item)
                repairs.add(MERGED_EXAMPLE, record.place)
            else:
                merged[task] = [item]
                items.append((task, item))
    for task, item in items:
        if task is not None and isinstance(item, SpannedText) and merged[task][0] is item:
            entities = dict.fromkeys(entity for each in merged[task] for entity in each.entities)
            item = SpannedText(item.text, list(entities), item.number, item.place)
        yield item


def read_spacy_lists(records: Iterable[Record], repairs: Repairs) -> Iterator[Item]:
    """Read spaCy's examples, ``[text, {"entities": [[start, end, type]]}]``.

    Raises:
        CrossNERError: An example is malformed.
    """
    for record in records:
        value = record.value
        try:
            is_pair = isinstance(value, list) and len(value) == 2 and isinstance(value[1], dict)
            entities = value[1].get("entities", []) if is_pair else None
            if not is_pair or not isinstance(value[0], str) or not isinstance(entities, list):
                raise BadLine(f"found {abbreviate(value)}.", hint=SPACY_HINT)
            check_strings([value[0]], TEXT, SPACY_HINT)
            found = [_read_entity(each) for each in entities]
        except BadLine as problem:
            repairs.refuse(problem, record.place)
        else:
            yield SpannedText(value[0], found, record.number, record.place)


def read_langextract(records: Iterable[Record], repairs: Repairs) -> Iterator[Item]:
    """Read LangExtract's documents; extractions without a place, or placed by likeness, are left out and counted.

    Raises:
        CrossNERError: A document is malformed.
    """
    for record in records:
        try:
            yield _read_langextract(record, repairs)
        except BadLine as problem:
            repairs.refuse(problem, record.place)


def _read_langextract(record: Record, repairs: Repairs) -> SpannedText:
    value = record.value if isinstance(record.value, dict) else {}
    text, extractions = value.get("text"), value.get("extractions") or []
    if not isinstance(text, str) or not isinstance(extractions, list):
        raise BadLine(f"found {abbreviate(record.value)}.", hint=LANGEXTRACT_HINT)
    check_strings([text], TEXT, LANGEXTRACT_HINT)
    entities = []
    for each in extractions:
        place = each.get("char_interval") if isinstance(each, dict) else 0
        if place is None or (isinstance(each, dict) and each.get("alignment_status") not in (None, "match_exact")):
            repairs.add(NOT_ALIGNED, record.place)
            continue
        start, end = (place.get(key) for key in ("start_pos", "end_pos")) if isinstance(place, dict) else (0, 0)
        if type(start) is not int or type(end) is not int or not end:
            raise BadLine(f"found the extraction {abbreviate(each)}.", hint=LANGEXTRACT_HINT)
        entities.append(Entity(start, end, check_type(each.get("extraction_class"))))
    return SpannedText(text, entities, record.number, record.place)
