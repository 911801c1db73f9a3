"""Texts whose entities are ranges of characters, as tools for labelling export them.

One object: ``text`` and a list of entities under ``entities``, ``spans`` (Prodigy), ``label`` or ``labels`` (doccano),
each ``[start, end, type]`` or an object of those three. Its words and sentences are found as ``predict`` finds them,
so that a tagger meets later what it was trained on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_tags
from crossner_cli.data.text import segment
from crossner_cli.errors import CrossNERError

TEXT = "text"
# Lists of strings there are words with tags; Prodigy's tokens are objects.
WORDS = ("words", "tokens")
ENTITIES = ("entities", "spans", "label", "labels")
STARTS, ENDS, TYPES = ("start", "start_offset"), ("end", "end_offset"), ("type", "label", "labels")
# What Prodigy's examples tell of themselves.
ANSWER, ACCEPTED = "answer", "accept"

ENTITIES_HINT = (
    'An entity is [start, end, type] or {"start": 3, "end": 8, "type": "location"}: characters of the text, counted'
    " from 0, end exclusive; a character beyond U+FFFF counts as one."
)


@dataclass(frozen=True)
class LabelledText:
    """What became of a text.

    Args:
        sentences: Its words with BIO tags.
        widened: Entities that began or ended inside a word, and now hold the whole word.
        overlapping: Entities dropped since they share a word with a longer one, or one as long before them.
        blank: Entities dropped since they hold white space alone.
        joined: Sentence ends taken out, since an entity goes on behind them.
    """

    sentences: Sequence[Sentence]
    widened: int = 0
    overlapping: int = 0
    blank: int = 0
    joined: int = 0


def is_labelled_text(record: dict[str, Any]) -> bool:
    """Whether an object is a text with entities, and no list of words that would have tags."""
    lists = [record.get(key) for key in WORDS]
    has_words = any(isinstance(words, list) and isinstance(next(iter(words), None), str) for words in lists)
    return isinstance(record.get(TEXT), str) and not has_words and _entities(record) is not None


def is_refused_example(record: dict[str, Any]) -> bool:
    """Whether whoever labelled an example refused or passed over it."""
    return record.get(ANSWER) not in (None, ACCEPTED)


def read_labelled_text(record: dict[str, Any], place: str) -> LabelledText:
    """Find the words of an object's text and tag those of its entities.

    Args:
        record: One for which ``is_labelled_text`` holds.
        place: Where it stands, for messages.

    Raises:
        CrossNERError: An entity is none, or is not in the text.
    """
    text = record[TEXT]
    return tag_text(text, [_read_entity(entity, text, place) for entity in _entities(record) or ()])


def tag_text(text: str, entities: Sequence[tuple[int, int, str]]) -> LabelledText:
    """Cut a text into sentences of words and tag those that its entities touch.

    Args:
        text: Any text.
        entities: First character, the one after the last, and type of each.
    """
    sentences = segment(text)
    words = [word for sentence in sentences for word in sentence]
    starts, ends = [word.start for word in words], [word.end for word in words]
    spans, widened = [], set()
    for start, end, entity_type in entities:
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        if first >= last:
            continue
        span = Span(first, last, entity_type)
        spans.append(span)
        if starts[first] < start or ends[last - 1] > end:
            widened.add(span)
    kept = _without_overlaps(spans, len(words))
    borders = [0]
    for sentence in sentences:
        borders.append(borders[-1] + len(sentence))
    inside = {border for span in kept for border in range(span.start + 1, span.end)}
    whole = [border for border in borders if border not in inside]
    tags = to_tags(kept, len(words))
    return LabelledText(
        [Sentence(tuple(word.text for word in words[a:b]), tuple(tags[a:b])) for a, b in pairwise(whole)],
        widened=len(widened.intersection(kept)),
        overlapping=len(spans) - len(kept),
        blank=len(entities) - len(spans),
        joined=len(borders) - len(whole),
    )


def _without_overlaps(spans: Sequence[Span], words: int) -> list[Span]:
    """The longest ones, no two of which share a word, in order."""
    taken, kept = bytearray(words), []
    for span in sorted(spans, key=lambda each: each.start - each.end):  # of equal length: in their order
        if not any(taken[span.start : span.end]):
            taken[span.start : span.end] = b"\x01" * (span.end - span.start)
            kept.append(span)
    return sorted(kept)


def _entities(record: dict[str, Any]) -> list[Any] | None:
    return next((record[key] for key in ENTITIES if isinstance(record.get(key), list)), None)


def _read_entity(entity: Any, text: str, place: str) -> tuple[int, int, str]:
    """First character, the one after the last, and type."""
    if isinstance(entity, dict):
        start, end, entity_type = (_first(entity, keys) for keys in (STARTS, ENDS, TYPES))
        if isinstance(entity_type, list) and len(entity_type) == 1:
            entity_type = entity_type[0]
    else:
        start, end, entity_type = entity if isinstance(entity, list) and len(entity) == 3 else (None, None, None)
    if type(start) is not int or type(end) is not int or not isinstance(entity_type, str):
        raise CrossNERError(f"{place}: found the entity {_shown(entity)}.", hint=ENTITIES_HINT)
    if not 0 <= start < end <= len(text):
        raise CrossNERError(
            f"{place}: found the entity {_shown(entity)} in a text of {len(text)} characters.", hint=ENTITIES_HINT
        )
    its_text = entity.get(TEXT) if isinstance(entity, dict) else None
    if isinstance(its_text, str) and its_text.strip() != text[start:end].strip():
        raise CrossNERError(
            f"{place}: the entity {_shown(entity)} is {_shown(text[start:end])} in the text.", hint=ENTITIES_HINT
        )
    return start, end, entity_type


def _first(entity: dict[str, Any], keys: Sequence[str]) -> Any:
    return next((entity[key] for key in keys if key in entity), None)


def _shown(value: Any) -> str:
    """A value for a message, cut where it is long."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]} …"
