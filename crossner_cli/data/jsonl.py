"""JSONL: a line is a sentence of words with tags, or a text whose entities are ranges of characters.

Texts are read as tools for labelling export them: ``text`` and a list of entities under ``entities``, ``spans``
(Prodigy), ``label`` or ``labels`` (doccano), each ``[start, end, type]`` or an object of those three. Their words and
sentences are found as ``predict`` finds them, so that a tagger is trained on the words that it meets later.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from crossner_cli.data.columns import (
    DOCSTART,
    DOCSTART_DROPPED,
    EMPTY_SENTENCE,
    TAG_HINT,
    Located,
    abbreviate,
    replace_empty,
)
from crossner_cli.data.files import Repairs, number_lines
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, TYPE_HINT, Span, is_tag, to_tags
from crossner_cli.data.text import segment
from crossner_cli.errors import BadLine, CrossNERError

TEXT, SENTENCES = "text", "sentences"
# Lists of strings are words with tags; Prodigy's tokens are objects.
WORDS, TAGS = ("words", "tokens"), ("tags", "ner_tags")
ENTITIES = ("entities", "spans", "label", "labels")
STARTS, ENDS, TYPES = ("start", "start_offset"), ("end", "end_offset"), ("type", "label", "labels")

WIDENED_ENTITY = "entity that begins or ends inside a word given the whole word"
OVERLAPPING_ENTITY = "entity that shares a word with a longer one dropped"
BLANK_ENTITY = "entity of white space dropped"
JOINED_SENTENCE = "sentence end inside an entity taken out"
REFUSED_EXAMPLE = "example whose answer is not accept dropped"

JSONL_HINT = (
    'A line is one sentence, {"words": ["In", "Paris"], "tags": ["O", "B-location"]}, or a text with its entities,'
    ' {"text": "In Paris", "entities": [{"start": 3, "end": 8, "type": "location"}]}.'
)
ENTITIES_HINT = (
    'An entity is [start, end, type] or {"start": 3, "end": 8, "type": "location"}: characters of the text, counted'
    " from 0, end exclusive; a character beyond U+FFFF counts as one."
)


def parse_records(
    stream: Iterable[bytes], name: str, repairs: Repairs, *, hint: str = JSONL_HINT
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read JSONL: one object a line, numbered from 1; empty lines are skipped.

    Args:
        stream: Lines as bytes.
        name: The file's name, for messages.
        repairs: Counts repairs.
        hint: The form of a line.

    Raises:
        CrossNERError: A line is no JSON object.
    """
    for number, line in number_lines(stream, name, repairs):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        try:
            yield number, parse_record(line, place, hint)
        except BadLine as problem:
            repairs.refuse(problem, place)


def parse_record(line: str, place: str, hint: str) -> dict[str, Any]:
    """Read one JSON object.

    Raises:
        BadLine: The line is none.
    """
    try:
        record = json.loads(line, parse_constant=_refuse_number, parse_float=_finite_number)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise BadLine(f"{place}: found {abbreviate(line)}, which is no JSON ({reason}).", hint=hint) from None
    if not isinstance(record, dict):
        raise BadLine(f"{place}: found {abbreviate(line)}, expected a JSON object.", hint=hint)
    return record


def _refuse_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _finite_number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_number(text)


def parse_jsonl(
    stream: Iterable[bytes], name: str, repairs: Repairs, *, tags_required: bool = True, keep_docstart: bool = False
) -> Iterator[Located]:
    """Read labelled JSONL: lists ``words`` and ``tags``, or ``tokens`` and ``ner_tags``, or a ``text`` with entities.

    ``sentences``, as ``predict`` writes them, cut the words into sentences. For the arguments see ``parse_columns``.

    Raises:
        CrossNERError: A line is malformed, or its lists differ in length.
    """
    for number, record in parse_records(stream, name, repairs):
        place = f"{name}:{number}"
        if is_labelled_text(record):
            for sentence in _read_text(record, place, repairs):
                yield Located(sentence, [number] * len(sentence.words))
            continue
        words = _read_strings(record, WORDS, place)
        if words is None:
            raise CrossNERError(
                f"{place}: found no list of words, only {abbreviate(', '.join(record))}.", hint=JSONL_HINT
            )
        tags = _read_strings(record, TAGS, place)
        _check_tags(words, tags, place, tags_required)
        if not words:
            repairs.add(EMPTY_SENTENCE, place)
        elif words == [DOCSTART] and not keep_docstart:
            repairs.add(DOCSTART_DROPPED, place)
        else:
            whole = tuple(replace_empty(word, place, repairs) for word in words)
            for first, end in sentence_borders(record, len(words)):
                its_tags = None if tags is None else tuple(tags[first:end])
                yield Located(Sentence(whole[first:end], its_tags), [number] * (end - first))


def sentence_borders(record: dict[str, Any], words: int) -> list[tuple[int, int]]:
    """First word and the word after the last of each sentence of an object.

    Args:
        record: ``sentences`` holds pairs of those numbers, as ``predict`` writes them; a list of any other form is
            another tool's and ignored.
        words: Its number of words.

    Returns:
        One pair a sentence; without ``sentences``, all words are one. Empty without words.
    """
    pairs = record.get(SENTENCES)
    whole = [(0, words)] if words else []
    if not isinstance(pairs, list):
        return whole
    end = 0
    for pair in pairs:
        if not isinstance(pair, list) or [type(number) for number in pair] != [int, int]:
            return whole
        if not end == pair[0] < pair[1]:
            return whole
        end = pair[1]
    return [(first, last) for first, last in pairs] if end == words else whole


def _read_strings(record: dict[str, Any], keys: tuple[str, ...], place: str) -> list[str] | None:
    """The list of strings under the first of the keys that the object has."""
    key = next((key for key in keys if record.get(key) is not None), None)
    if key is None:
        return None
    values = record[key]
    if not isinstance(values, list):
        raise CrossNERError(
            f"{place}: {key} is of type {type(values).__name__}, expected a list of strings.", hint=JSONL_HINT
        )
    check_strings(values, f"{place}: {key}")
    return values


def check_strings(values: list[Any], place: str, hint: str = JSONL_HINT) -> None:
    """Refuse values that are no strings, or that no file can hold.

    Raises:
        BadLine: There is one.
    """
    wrong = [value for value in values if not isinstance(value, str)]
    if wrong:
        raise BadLine(f"{place} holds a value of type {type(wrong[0]).__name__}, expected strings.", hint=hint)
    if not is_writable("".join(values)):
        way_out = "Write whole characters, as \\ud83d\\ude00 or the character itself."
        raise BadLine(f"{place} holds half a surrogate pair, which is no character.", hint=way_out)


def is_writable(text: str) -> bool:
    """Return whether a text can be written as UTF-8: whether it has no half of a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_tags(words: list[str], tags: list[str] | None, place: str, tags_required: bool) -> None:
    if tags is None:
        if tags_required:
            raise CrossNERError(f"{place}: found no list of tags.", hint=JSONL_HINT)
        return
    if len(tags) != len(words):
        raise CrossNERError(f"{place}: found {len(words)} words and {len(tags)} tags.", hint=JSONL_HINT)
    for tag in set(tags) - {OUTSIDE}:
        if not is_tag(tag):
            raise CrossNERError(f"{place}: found the tag {abbreviate(tag)}.", hint=TAG_HINT)


def is_labelled_text(record: dict[str, Any]) -> bool:
    """Return whether an object is a text with entities, and no list of words that would have tags."""
    lists = [record.get(key) for key in WORDS]
    has_words = any(isinstance(words, list) and isinstance(next(iter(words), None), str) for words in lists)
    return isinstance(record.get(TEXT), str) and not has_words and _find_entities(record) is not None


def _read_text(record: dict[str, Any], place: str, repairs: Repairs) -> Sequence[Sentence]:
    """The sentences of a text with entities."""
    if record.get("answer") not in (None, "accept"):  # of Prodigy: the annotator refused it
        repairs.add(REFUSED_EXAMPLE, place)
        return []
    text = record[TEXT]
    check_strings([text], f"{place}: {TEXT}")
    sentences, counts = tag_text(text, [_read_entity(each, text, place) for each in _find_entities(record) or ()])
    for kind, times in counts.items():
        repairs.add(kind, place, times)
    return sentences


def tag_text(text: str, entities: Sequence[tuple[int, int, str]]) -> tuple[list[Sentence], Counter[str]]:
    """Cut a text into sentences of words and tag those that its entities touch.

    An entity that begins or ends inside a word gets the whole word; of two that share a word the longer one stays, and
    of two of one length the first; the end of a sentence inside an entity is taken out.

    Args:
        text: Any text.
        entities: First character, the one after the last, and type of each.

    Returns:
        Sentences with BIO tags, and how often what was repaired or dropped.
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
    kept = _drop_overlaps(spans, len(words))
    borders = [0]
    for sentence in sentences:
        borders.append(borders[-1] + len(sentence))
    inside = {border for span in kept for border in range(span.start + 1, span.end)}
    whole = [border for border in borders if border not in inside]
    tags = to_tags(kept, len(words))
    counts = {
        WIDENED_ENTITY: len(widened.intersection(kept)),
        OVERLAPPING_ENTITY: len(spans) - len(kept),
        BLANK_ENTITY: len(entities) - len(spans),
        JOINED_SENTENCE: len(borders) - len(whole),
        EMPTY_SENTENCE: int(not words),
    }
    tagged = [Sentence(tuple(word.text for word in words[a:b]), tuple(tags[a:b])) for a, b in pairwise(whole)]
    return tagged, +Counter(counts)


def _drop_overlaps(spans: Sequence[Span], words: int) -> list[Span]:
    """The longest spans, no two of which share a word, in order."""
    taken, kept = bytearray(words), []
    for span in sorted(spans, key=lambda each: each.start - each.end):  # of equal length: in their order
        if not any(taken[span.start : span.end]):
            taken[span.start : span.end] = b"\x01" * (span.end - span.start)
            kept.append(span)
    return sorted(kept)


def _find_entities(record: dict[str, Any]) -> list[Any] | None:
    return next((record[key] for key in ENTITIES if isinstance(record.get(key), list)), None)


def _read_entity(entity: Any, text: str, place: str) -> tuple[int, int, str]:
    """First character, the one after the last, and type."""
    if isinstance(entity, dict):
        start, end, entity_type = (
            next((entity[key] for key in keys if key in entity), None) for keys in (STARTS, ENDS, TYPES)
        )
        if isinstance(entity_type, list) and len(entity_type) == 1:
            entity_type = entity_type[0]
    else:
        start, end, entity_type = entity if isinstance(entity, list) and len(entity) == 3 else (None, None, None)
    if type(start) is not int or type(end) is not int or not isinstance(entity_type, str):
        raise CrossNERError(f"{place}: found the entity {abbreviate(entity)}.", hint=ENTITIES_HINT)
    if not 0 <= start < end <= len(text):
        raise CrossNERError(
            f"{place}: found the entity {abbreviate(entity)} in a text of {len(text)} characters.", hint=ENTITIES_HINT
        )
    its_text = entity.get(TEXT) if isinstance(entity, dict) else None
    if isinstance(its_text, str) and its_text.strip() != text[start:end].strip():
        raise CrossNERError(
            f"{place}: the entity {abbreviate(entity)} is {abbreviate(text[start:end])} in the text.",
            hint=ENTITIES_HINT,
        )
    if not is_tag(f"B-{entity_type}"):
        raise CrossNERError(f"{place}: found the type {abbreviate(entity_type)}.", hint=TYPE_HINT)
    return start, end, entity_type
