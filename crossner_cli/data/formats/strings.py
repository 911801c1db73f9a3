"""Entities as strings without places, and as tags in the text: what people write by hand and language models answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from crossner_cli.data.files import Repairs, number_lines
from crossner_cli.data.formats.records import Record
from crossner_cli.data.formats.spans import Entity, SpannedText, abbreviate, check_strings, check_type, first_of
from crossner_cli.errors import BadLine

UNFOUND = "entity string that is not in its text left out"
AMBIGUOUS = "entity string of several types whose places are not told left out"
NESTED_TAG = "tag inside another left out"
HTML_TAG = "tag of HTML left out"
STRINGS_HINT = 'A line is {"text": "In Paris", "entities": [{"text": "Paris", "type": "location"}]}.'
GLINER2_HINT = 'A line is {"input": "In Paris", "output": {"entities": {"location": ["Paris"]}}}.'
TAGS_HINT = 'A line is a text with tags, as: In <location>Paris</location>, or <entity type="location">Paris</entity>.'
_TAG = re.compile(r"<(/?)([^\W\d][\w.-]*)((?:\s+[\w-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'))*)\s*>")
# Tags of HTML that often stand in texts; they need not be closed. Those of the group stand inside words, too.
_HTML = re.compile(
    r"(?i)</?(?:(a|b|em|font|i|strong|su[bp]|u)|br|div|h[1-6]|hr|img|li|[ou]l|p|pre|t[dr])(?:\s[^<>]*)?/?>"
)
_ATTRIBUTE = re.compile(r"(?:type|label|class)\s*=\s*[\"']([^\"'<>]*)[\"']")
STRINGS, TYPES = ("text", "name", "word", "value", "mention"), ("type", "label", "entity", "entity_group", "class")
MOST_LOST = 0.05  # share of strings left out, from which on it is a warning


def is_strings(value: Any) -> bool:
    """Return whether a value is a text with entities, perhaps none, that have a text and no place."""
    entities = value.get("entities") if isinstance(value, dict) and isinstance(value.get("text"), str) else None
    return isinstance(entities, list) and all(
        isinstance(each, dict) and first_of(each, STRINGS) is not None and not {"start", "start_offset"} & each.keys()
        for each in entities
    )


def read_strings(records: Iterable[Record], name: str, repairs: Repairs) -> Iterator[SpannedText]:
    """Read texts with lists of strings; those that are not found are counted, and their share is told.

    Raises:
        CrossNERError: A record is malformed.
    """
    given: Counter[str] = Counter()
    for record in records:
        try:
            text, pairs = _read_pairs(record.value)
        except BadLine as problem:
            repairs.refuse(problem, record.place)
            continue
        entities, lost = locate_strings(text, pairs)
        given.update(all=len(pairs), lost=sum(lost.values()))
        for kind, times in lost.items():
            repairs.add(kind, record.place, times)
        yield SpannedText(text, entities, record.number, record.place)
    if given["lost"] > MOST_LOST * given["all"]:
        share = 100 * given["lost"] / given["all"]
        repairs.warnings.append(f"{name}: {given['lost']} of {given['all']} entity strings ({share:.1f} %) left out.")


def _read_pairs(value: Any) -> tuple[str, list[tuple[str, str]]]:
    """The text and the pairs of string and type of an object, ours or GLiNER2's."""
    value = value if isinstance(value, dict) else {}
    hint, text, pairs = STRINGS_HINT, value.get("text"), []
    if isinstance(value.get("output"), dict):
        hint, text = GLINER2_HINT, value.get("input")
        found = value["output"].get("entities", {})
        if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
            raise BadLine(f"found the entities {abbreviate(found)}.", hint=hint)
        pairs = [(each, kind) for kind, strings in found.items() for each in strings]
    else:
        entities = value.get("entities")
        if not isinstance(entities, list) or not all(isinstance(each, dict) for each in entities):
            raise BadLine(f"found the entities {abbreviate(entities)}.", hint=hint)
        pairs = [(first_of(each, STRINGS), first_of(each, TYPES)) for each in entities]
    check_strings([text, *(string for string, _ in pairs)], "text", hint)
    return str(text), [(string, check_type(kind)) for string, kind in pairs]


def locate_strings(text: str, pairs: Sequence[tuple[str, str]]) -> tuple[list[Entity], Counter[str]]:
    """Find strings in a text: longest first, at the borders of words, never inside another.

    A string of one type is found wherever it stands. One of several types is given them in order if it stands there as
    often as it is listed; else its places are not known.

    Args:
        text: The text.
        pairs: Each string and its type.

    Returns:
        The entities by place, and how many strings were left out, by reason.
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
        for start, end in places:  # an ambiguous one keeps shorter ones out of it, too
            taken[start:end] = b"\x01" * (end - start)
        found += [Entity(start, end, kind) for (start, end), kind in zip(places, types, strict=False)]
    return sorted(found, key=lambda each: each.start), lost


def _pattern(string: str) -> str:
    parts = r"\s+".join(map(re.escape, string.split()))
    first, last = string.strip()[0], string.strip()[-1]
    return (r"(?<!\w)" if first.isalnum() else "") + parts + (r"(?!\w)" if last.isalnum() else "")


def has_tags(text: str) -> bool:
    """Return whether a text has a tag that is opened and closed."""
    names = [match[2] for match in _TAG.finditer(text) if match[1]]
    return any(re.search(rf"<{re.escape(name)}[\s>]", text) for name in names)


def parse_tags(text: str) -> tuple[str, list[Entity], int]:
    """Read a text with tags, ``<person>Anna</person>`` or ``<entity type="person">Anna</entity>``.

    Returns:
        The text without tags, its entities, and how many tags were left out because they stand inside another.

    Raises:
        BadLine: A tag is not closed, or closes none.
    """
    parts: list[str] = []
    entities: list[Entity] = []
    open_tags: list[tuple[str, str, int]] = []
    behind = length = nested = 0
    for match in _TAG.finditer(text):
        parts.append(text[behind : match.start()])
        length += match.start() - behind
        behind = match.end()
        if not match[1]:
            kind = _ATTRIBUTE.search(match[3] or "")
            open_tags.append((match[2], kind[1] if kind else match[2], length))
            continue
        if not open_tags or open_tags[-1][0] != match[2]:
            expected = f", expected </{open_tags[-1][0]}>" if open_tags else ""
            raise BadLine(f"found {match.group()} at character {match.start() + 1}{expected}.", hint=TAGS_HINT)
        _, kind_name, start = open_tags.pop()
        if open_tags:
            nested += 1
        elif length > start:
            entities.append(Entity(start, length, check_type(kind_name)))
    if open_tags:
        raise BadLine(f"the tag <{open_tags[-1][0]}> is not closed.", hint=TAGS_HINT)
    return "".join([*parts, text[behind:]]), entities, nested


def read_tagged_lines(stream: Iterable[bytes], name: str, repairs: Repairs) -> Iterator[SpannedText]:
    """Read a text with tags a line; blank lines are skipped.

    Raises:
        CrossNERError: A tag is not closed, or closes none.
    """
    for number, line in number_lines(stream, name, repairs):
        place = f"{name}:{number}"
        if not line.strip():
            continue
        line, html = _HTML.subn(lambda match: "" if match[1] else " ", line)
        try:
            text, entities, nested = parse_tags(line)
        except BadLine as problem:
            repairs.refuse(problem, place)
            continue
        if nested:
            repairs.add(NESTED_TAG, place, nested)
        if html:
            repairs.add(HTML_TAG, place, html)
        yield SpannedText(text, entities, number, place)
