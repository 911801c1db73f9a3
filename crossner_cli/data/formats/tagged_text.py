"""Texts with entities as tags in them, one text per line, as people and language models write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from crossner_cli.data.files import Repairs, number_lines, open_bytes
from crossner_cli.data.formats.format import Format, Sample
from crossner_cli.data.formats.spans import Entity, SpannedText, check_type
from crossner_cli.errors import BadLine

NESTED_TAG = "tag inside another left out"
HTML_TAG = "tag of HTML left out"
HINT = 'A line is a text with tags, as: In <location>Paris</location>, or <entity type="location">Paris</entity>.'
_TAG = re.compile(r"<(/?)([^\W\d][\w.-]*)((?:\s+[\w-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'))*)\s*>")
# Tags of HTML that are frequent in texts; they need not be closed. Those of the group also occur inside words.
_HTML = re.compile(
    r"(?i)</?(?:(a|b|em|font|i|strong|su[bp]|u)|br|div|h[1-6]|hr|img|li|[ou]l|p|pre|t[dr])(?:\s[^<>]*)?/?>"
)
_ATTRIBUTE = re.compile(r"(?:type|label|class)\s*=\s*[\"']([^\"'<>]*)[\"']")


def _recognise(sample: Sample) -> int:
    text = sample.head.decode("utf-8", errors="replace")
    return 0 if sample.values or "\t" in text else sum(map(_has_tags, text.split("\n")))


def _has_tags(text: str) -> bool:
    """Return whether a text has a tag that is opened and closed."""
    names = [match[2] for match in _TAG.finditer(text) if match[1]]
    return any(re.search(rf"<{re.escape(name)}[\s>]", text) for name in names)


def parse_tags(text: str) -> tuple[str, list[Entity], int]:
    """Read a text with tags, ``<person>Anna</person>`` or ``<entity type="person">Anna</entity>``.

    Returns:
        The text without tags, its entities, and the number of tags left out because they are inside another.

    Raises:
        BadLine: A tag is not closed, or closes nothing.
    """
    parts: list[str] = []
    entities: list[Entity] = []
    open_tags: list[tuple[str, str, int]] = []
    after = length = nested = 0
    for match in _TAG.finditer(text):
        parts.append(text[after : match.start()])
        length += match.start() - after
        after = match.end()
        if not match[1]:
            kind = _ATTRIBUTE.search(match[3] or "")
            open_tags.append((match[2], kind[1] if kind else match[2], length))
            continue
        if not open_tags or open_tags[-1][0] != match[2]:
            expected = f", expected </{open_tags[-1][0]}>" if open_tags else ""
            raise BadLine(f"found {match.group()} at character {match.start() + 1}{expected}.", hint=HINT)
        _, kind_name, start = open_tags.pop()
        if open_tags:
            nested += 1
        elif length > start:
            entities.append(Entity(start, length, check_type(kind_name)))
    if open_tags:
        raise BadLine(f"the tag <{open_tags[-1][0]}> is not closed.", hint=HINT)
    return "".join([*parts, text[after:]]), entities, nested


def _read_tagged_lines(path: Path, repairs: Repairs) -> Iterator[SpannedText]:
    """Read one text with tags per line; blank lines are skipped.

    Raises:
        CrossNERError: A tag is not closed, or closes nothing.
    """
    with open_bytes(path) as stream:
        for number, line in number_lines(stream, str(path), repairs):
            place = f"{path}:{number}"
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


FORMAT = Format("tags", "text with tags", "lines", _recognise, _read_tagged_lines)
