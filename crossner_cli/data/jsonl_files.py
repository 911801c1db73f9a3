"""Labelled JSONL: a line is a sentence of words with tags, or a text with its entities."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from crossner_cli.data.labelled_text import TEXT, is_labelled_text, is_refused_example, read_labelled_text
from crossner_cli.data.readers import (
    DOCSTART,
    DOCSTART_DROPPED,
    EMPTY_SENTENCE,
    TAG_HINT,
    Located,
    Repairs,
    is_tag,
    numbered_lines,
    shown,
    whole_word,
)
from crossner_cli.data.sentence_borders import sentence_borders
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE
from crossner_cli.errors import BadLine, CrossNERError

WIDENED_ENTITY = "entity that begins or ends inside a word given the whole word"
OVERLAPPING_ENTITY = "entity that shares a word with a longer one dropped"
BLANK_ENTITY = "entity of white space dropped"
JOINED_SENTENCE = "sentence end inside an entity taken out"
REFUSED_EXAMPLE = "example whose answer is not accept dropped"

JSONL_HINT = (
    'A line is one sentence, {"words": ["In", "Paris"], "tags": ["O", "B-location"]}, or a text with its entities,'
    ' {"text": "In Paris", "entities": [{"start": 3, "end": 8, "type": "location"}]}.'
)
LIST_HINT = "To put the objects of a list on lines: jq -c '.[]' FILE > LINES.jsonl"
TYPE_HINT = "The name of an entity type is not empty, begins and ends in no space and has no control characters."
SURROGATE_HINT = "Write whole characters, as \\ud83d\\ude00 or the character itself."


def parse_records(
    stream: Iterable[bytes], name: str, repairs: Repairs, *, hint: str = JSONL_HINT
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read JSONL: one object a line, numbered from 1; empty lines are passed over.

    Args:
        stream: Lines as bytes.
        name: File name for messages.
        repairs: Where repairs are counted.
        hint: What a line should be.

    Raises:
        CrossNERError: A line is no JSON object.
    """
    for number, line in numbered_lines(stream, name, repairs):
        if not line.strip():
            continue
        try:
            record = json.loads(line, parse_constant=_refuse_number, parse_float=_finite_number)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
            problem = BadLine(f"{name}:{number}: found {shown(line)}, which is no JSON ({reason}).", hint=hint)
            repairs.refuse(problem, f"{name}:{number}")
            continue
        if isinstance(record, dict):
            yield number, record
            continue
        way_out = f"{hint} {LIST_HINT}." if isinstance(record, list) else hint
        problem = BadLine(f"{name}:{number}: found {shown(line)}, expected a JSON object.", hint=way_out)
        repairs.refuse(problem, f"{name}:{number}")


def _refuse_number(text: str) -> float:
    raise ValueError(f"{text} is no number that JSON has")


def _finite_number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_number(text)


def parse_jsonl(
    stream: Iterable[bytes], name: str, repairs: Repairs, *, tags_required: bool = True, keep_docstart: bool = False
) -> Iterator[Located]:
    """Read JSONL: lists ``words`` and ``tags``, or ``tokens`` and ``ner_tags``, and perhaps ``sentences``, their ends;
    or a ``text`` and its entities, as ``labelled_text`` reads them.

    Raises:
        CrossNERError: A line is malformed, or its lists differ in length.
    """
    for number, record in parse_records(stream, name, repairs):
        place = f"{name}:{number}"
        if is_labelled_text(record):
            yield from (Located(each, [number] * len(each.words)) for each in _labelled_text(record, place, repairs))
            continue
        words = _strings(record, ("words", "tokens"), place)
        if words is None:
            raise CrossNERError(f"{place}: found no list of words, only {shown(', '.join(record))}.", hint=JSONL_HINT)
        tags = _strings(record, ("tags", "ner_tags"), place)
        _check_tags(words, tags, place, tags_required)
        if not words:
            repairs.add(EMPTY_SENTENCE, place)
        elif words == [DOCSTART] and not keep_docstart:
            repairs.add(DOCSTART_DROPPED, place)
        else:
            whole = tuple(whole_word(word, place, repairs) for word in words)
            for first, end in sentence_borders(record, len(words)):
                its_tags = None if tags is None else tuple(tags[first:end])
                yield Located(Sentence(whole[first:end], its_tags), [number] * (end - first))


def _labelled_text(record: dict[str, Any], place: str, repairs: Repairs) -> Sequence[Sentence]:
    """The sentences of a text with entities; what was widened or dropped is counted."""
    if is_refused_example(record):
        repairs.add(REFUSED_EXAMPLE, place)
        return []
    if not is_writable(record[TEXT]):
        raise CrossNERError(f"{place}: {TEXT} holds half a surrogate pair, which no file can hold.",
                            hint=SURROGATE_HINT)  # fmt: skip
    found = read_labelled_text(record, place)
    for tag in {tag for sentence in found.sentences for tag in sentence.tags or ()} - {OUTSIDE}:
        if not is_tag(tag):
            raise CrossNERError(f"{place}: found the type {shown(tag.partition('-')[2])}.", hint=TYPE_HINT)
    for kind, times in (
        (WIDENED_ENTITY, found.widened), (OVERLAPPING_ENTITY, found.overlapping), (BLANK_ENTITY, found.blank),
        (JOINED_SENTENCE, found.joined), (EMPTY_SENTENCE, int(not found.sentences)),
    ):  # fmt: skip
        if times:
            repairs.add(kind, place, times)
    return found.sentences


def _strings(record: dict[str, Any], keys: tuple[str, ...], place: str) -> list[str] | None:
    """The list of strings under the first of the keys there is."""
    for key in keys:
        values = record.get(key)
        if values is None:
            continue
        if not isinstance(values, list):
            raise CrossNERError(f"{place}: {key} is of type {type(values).__name__}, expected a list of strings.",
                                hint=JSONL_HINT)  # fmt: skip
        wrong = next((value for value in values if not isinstance(value, str)), "")
        if wrong != "":
            raise CrossNERError(f"{place}: {key} holds a value of type {type(wrong).__name__}, expected strings.",
                                hint="Write tags by their names, not by numbers.\n" + JSONL_HINT)  # fmt: skip
        if not is_writable("".join(values)):
            raise CrossNERError(f"{place}: {key} hold half a surrogate pair, which no file can hold.",
                                hint=SURROGATE_HINT)  # fmt: skip
        return values
    return None


def is_writable(text: str) -> bool:
    """Whether a text can be written as UTF-8."""
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
            raise CrossNERError(f"{place}: found the tag {shown(tag)}.", hint=TAG_HINT)
