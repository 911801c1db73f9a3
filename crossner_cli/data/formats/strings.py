"""Texts with entities as strings without places, as language models answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.format import Format, count_values, read_each
from crossner_cli.data.formats.records import Record, read_records
from crossner_cli.data.formats.spans import Entity, Item, SpannedText, abbreviate, check_strings, check_type, first_of
from crossner_cli.errors import BadLine

UNFOUND = "entity string that is not in its text left out"
AMBIGUOUS = "entity string of several types with unknown places left out"
HINT = 'A line is {"text": "In Paris", "entities": [{"text": "Paris", "type": "location"}]}.'
STRINGS, TYPES = ("text", "name", "word", "value", "mention"), ("type", "label", "entity", "entity_group", "class")
MOST_LOST = 0.05  # share of strings left out from which a warning is given


def _is_record(value: Any) -> bool:
    """Return whether a value is a text with entities, perhaps none, that have a text and no place."""
    entities = value.get("entities") if isinstance(value, dict) and isinstance(value.get("text"), str) else None
    return isinstance(entities, list) and all(
        isinstance(each, dict) and first_of(each, STRINGS) is not None and not {"start", "start_offset"} & each.keys()
        for each in entities
    )


def _find_pairs(value: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    entities = value.get("entities") if isinstance(value, dict) else None
    if not isinstance(entities, list) or not all(isinstance(each, dict) for each in entities):
        raise BadLine(f"found the entities {abbreviate(entities)}.", hint=HINT)
    return value.get("text"), [(first_of(each, STRINGS), first_of(each, TYPES)) for each in entities]


def strings_reader(
    find_pairs: Callable[[Any], tuple[Any, list[tuple[Any, Any]]]], hint: str
) -> Callable[[Path, Repairs], Iterator[Item]]:
    """Make a reader of texts with strings; those that are not found are counted, with a warning if they are many.

    Args:
        find_pairs: Returns the text of a record, and its pairs of string and type.
        hint: The form of a record.
    """

    def reads(path: Path, repairs: Repairs) -> Iterator[Item]:
        given = lost = 0

        def read_record(record: Record, repairs: Repairs) -> list[SpannedText]:
            nonlocal given, lost
            text, pairs = find_pairs(record.value)
            check_strings([text, *(string for string, _ in pairs)], "text", hint)
            entities, left = locate_strings(text, [(string, check_type(kind)) for string, kind in pairs])
            given, lost = given + len(pairs), lost + left.total()
            for reason, times in left.items():
                repairs.add(reason, record.place, times)
            return [SpannedText(text, entities, record.number, record.place)]

        yield from read_each(read_records(path, repairs, hint), read_record, repairs)
        if lost > MOST_LOST * given:
            share = 100 * lost / given
            repairs.warnings.append(f"{path}: {lost} of {given} entity strings ({share:.1f} %) left out.")

    return reads


def locate_strings(text: str, pairs: Sequence[tuple[str, str]]) -> tuple[list[Entity], Counter[str]]:
    """Find strings in a text: longest first, at the borders of words, never inside another.

    A string of one type is found wherever it stands. One of several types is given them in order if it occurs as often
    as it is listed; else its places are unknown.

    Args:
        text: The text.
        pairs: Each string and its type.

    Returns:
        The entities by place, and the number of strings left out, by reason.
    """
    kinds: dict[str, list[str]] = {}
    for string, kind in pairs:
        kinds.setdefault(string, []).append(kind)
    taken = bytearray(len(text))
    found: list[Entity] = []
    lost: Counter[str] = Counter()
    for string in sorted(kinds, key=len, reverse=True):
        places = []
        for match in re.finditer(_pattern(string), text) if string.strip() else ():
            start, end = match.span()
            if end > start and not any(taken[start:end]):
                places.append((start, end))
        types = kinds[string]
        if not places:
            lost[UNFOUND] += len(types)
            continue
        if len(set(types)) > 1 and len(types) != len(places):
            lost[AMBIGUOUS] += len(types)
            types = []
        elif len(set(types)) == 1:
            types = [types[0]] * len(places)
        for start, end in places:  # shorter ones inside an ambiguous one are not found, either
            taken[start:end] = b"\x01" * (end - start)
        found += [Entity(start, end, kind) for (start, end), kind in zip(places, types, strict=False)]
    return sorted(found, key=lambda each: each.start), lost


def _pattern(string: str) -> str:
    parts = r"\s+".join(map(re.escape, string.split()))
    first, last = string.strip()[0], string.strip()[-1]
    return (r"(?<!\w)" if first.isalnum() else "") + parts + (r"(?!\w)" if last.isalnum() else "")


FORMAT = Format(
    "strings", "entities as strings", recognises=count_values(_is_record), reads=strings_reader(_find_pairs, HINT)
)
