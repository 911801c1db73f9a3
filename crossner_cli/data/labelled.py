"""Labelled sentences: columns of words and tags (CoNLL and its kin), and JSONL of words with tags or of texts.

Words stay as they are, U+00A0 and U+0085 included; what had to be repaired is counted. Tags keep the scheme of their
file; ``read_domain`` writes them in one. Texts are read as tools for labelling export them (Prodigy, doccano, Label
Studio). Their words and sentences are found as ``predict`` finds them: a tagger is trained on the words it meets later.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from crossner_cli.data.files import Repairs, is_writable, number_lines, open_bytes, parse_json
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, TYPE_HINT, Span, is_tag, to_tags
from crossner_cli.data.text import segment
from crossner_cli.errors import BadLine

DOCSTART = "-DOCSTART-"
# Stands for a word that is empty or white space: the row keeps its place and its tag.
NO_WORD = "\ufffd"
# str.strip() would take U+00A0 and U+0085 too, which are words in published data.
BLANK = " \t"
TEXT, SENTENCES = "text", "sentences"
# Lists of strings are words with tags; Prodigy's tokens are objects.
WORDS, TAGS = ("words", "tokens"), ("tags", "ner_tags")
ENTITIES = ("entities", "spans", "label", "labels")
STARTS, ENDS, TYPES = ("start", "start_offset"), ("end", "end_offset"), ("type", "label", "labels")

WHITE_SPACE_BREAK = "white-space line read as the end of a sentence"
EMPTY_WORD = "empty word replaced by U+FFFD"
EMPTY_SENTENCE = "sentence without words dropped"
DOCSTART_DROPPED = "-DOCSTART- dropped"
OTHER_COLUMNS = "row of another number of columns than the first, read as its first and its last column"
WIDENED_ENTITY = "entity that begins or ends inside a word given the whole word"
OVERLAPPING_ENTITY = "entity that shares a word with a longer one dropped"
BLANK_ENTITY = "entity of white space dropped"
JOINED_SENTENCE = "sentence end inside an entity taken out"
REFUSED_EXAMPLE = "example whose answer is not accept dropped"

COLUMNS_HINT = "A line is word<TAB>tag, or word and tag separated by a space; an empty line ends a sentence."
WORDS_HINT = f"{COLUMNS_HINT} For running text, give --input-format text."
TAG_HINT = "A tag is O or prefix-type, as B-person; prefixes of IOB, BIOES, BILOU and BMES are read."
JSONL_HINT = (
    'A line is one sentence, {"words": ["In", "Paris"], "tags": ["O", "B-location"]}, or a text with its entities,'
    ' {"text": "In Paris", "entities": [{"start": 3, "end": 8, "type": "location"}]}.'
)
ENTITIES_HINT = (
    'An entity is [start, end, type] or {"start": 3, "end": 8, "type": "location"}: characters of the text, counted'
    " from 0, end exclusive; a character beyond U+FFFF counts as one."
)


@dataclass(frozen=True)
class Located:
    """A sentence as the file has it, and the line of each word."""

    sentence: Sentence
    lines: Sequence[int]


def is_jsonl(path: Path) -> bool:
    """Return whether a labelled file is read as JSONL, by its ending; all others are columns."""
    return path.suffix.lower() == ".jsonl"


def read_labelled(path: Path, repairs: Repairs) -> Iterator[Located]:
    """Read a file of sentences with tags, columns or JSONL.

    Raises:
        CrossNERError: The file cannot be read, is not UTF-8, or a line is malformed.
    """
    parse = parse_jsonl if is_jsonl(path) else parse_columns
    with open_bytes(path) as stream:
        yield from parse(stream, str(path), repairs)


def parse_columns(
    stream: Iterable[bytes], name: str, repairs: Repairs, *, tags_required: bool = True
) -> Iterator[Located]:
    """Read sentences in columns: the first is the word, the last its tag.

    Columns are separated by tabs if the line has one, else by spaces. A line of spaces ends a sentence as an empty
    one does; ``<TAB>O`` is a word that is empty. Rows of more or fewer columns than the first one are counted: a word
    with a space in it loses what stands behind the space.

    Args:
        stream: Lines as bytes.
        name: The file's name, for messages.
        repairs: Counts repairs.
        tags_required: Whether every word must have a tag; if not, a sentence without them has ``tags`` None.

    Raises:
        CrossNERError: A line is malformed.
    """
    words: list[str] = []
    tags: list[str | None] = []
    known = {OUTSIDE}
    number = usual = 0
    for number, line in number_lines(stream, name, repairs):
        text = line.rstrip(BLANK)
        if not text:
            if line:
                repairs.add(WHITE_SPACE_BREAK, f"{name}:{number}")
            if words:
                yield _locate(words, tags, number)
                words, tags = [], []
            continue
        try:
            word, tag, columns = _split_row(text, known, tags_required)
        except BadLine as problem:
            repairs.refuse(problem, f"{name}:{number}")
            continue
        if word == DOCSTART:
            repairs.add(DOCSTART_DROPPED, f"{name}:{number}")
            if words:
                yield _locate(words, tags, number)
                words, tags = [], []
            continue
        if columns != usual and tag is not None and word:
            if usual:
                repairs.add(OTHER_COLUMNS, f"{name}:{number}")
            usual = usual or columns
        if not word.strip(BLANK):
            repairs.add(EMPTY_WORD, f"{name}:{number}")
            word = NO_WORD
        words.append(word)
        tags.append(tag)
    if words:
        yield _locate(words, tags, number + 1)


def _locate(words: Sequence[str], tags: Sequence[str | None], end: int) -> Located:
    """The sentence whose last row is on the line before ``end``."""
    known = tuple(tag for tag in tags if tag is not None)
    sentence = Sentence(tuple(words), known if len(known) == len(words) else None)
    return Located(sentence, range(end - len(words), end))


def _split_row(text: str, known: set[str], tags_required: bool) -> tuple[str, str | None, int]:
    """Word, tag if there is one, and number of columns of a row. ``known`` holds the tags already checked."""
    if "\r" in text:
        raise BadLine(
            f"found a carriage return inside a line, {abbreviate(text)}.",
            hint="Convert the line ends to LF, as: tr '\\r' '\\n' < FILE > CONVERTED",
        )
    if "\t" in text:
        fields = text.split("\t")
        columns = len(fields)
    else:
        fields = text.split(" ")
        if not fields[0] and len(text.split()) > 1:  # indented: the word is not empty
            fields = text.strip(" ").split(" ")
        columns = len(fields) - fields.count("")
    if len(fields) == 1:
        if tags_required and text != DOCSTART:
            raise BadLine(f"found one column, {abbreviate(text)}, expected a word and a tag.", hint=COLUMNS_HINT)
        return text, None, 1
    word, tag = fields[0], fields[-1].strip(" ")
    if tag in known:
        return word, tag, columns
    if is_tag(tag):
        known.add(tag)
        return word, tag, columns
    if word == DOCSTART:
        return word, None, columns
    if tags_required:
        raise BadLine(f"found the tag {abbreviate(tag)} in {abbreviate(text)}.", hint=TAG_HINT)
    raise BadLine(f"found {abbreviate(text)}, expected a word alone or a word and a tag.", hint=WORDS_HINT)


def abbreviate(value: Any) -> str:
    """A value for a message, cut if it is long."""
    text = repr(value[:100] if isinstance(value, str) else value)
    return text if len(text) <= 80 else f"{text[:80]} …"


def parse_records(
    stream: Iterable[bytes], name: str, repairs: Repairs, *, hint: str = JSONL_HINT
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read JSONL: one object a line, numbered from 1; empty lines are skipped. ``hint`` is the form of a line.

    Raises:
        CrossNERError: A line is no JSON object.
    """
    for number, line in number_lines(stream, name, repairs):
        if not line.strip():
            continue
        try:
            record, reason = parse_json(line), ""
        except (ValueError, RecursionError) as error:
            record = None
            reason = f" ({error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__})"
        if isinstance(record, dict):
            yield number, record
        else:
            problem = BadLine(f"found {abbreviate(line)}, which is no JSON object{reason}.", hint=hint)
            repairs.refuse(problem, f"{name}:{number}")


def parse_jsonl(stream: Iterable[bytes], name: str, repairs: Repairs) -> Iterator[Located]:
    """Read labelled JSONL: lists ``words`` and ``tags``, or ``tokens`` and ``ner_tags``, or a ``text`` with entities.

    ``sentences``, as ``predict`` writes them, cut the words into sentences.

    Raises:
        CrossNERError: A line is malformed, or its lists differ in length.
    """
    for number, record in parse_records(stream, name, repairs):
        place = f"{name}:{number}"
        lists = [record.get(key) for key in WORDS]
        has_words = any(isinstance(words, list) and isinstance(next(iter(words), None), str) for words in lists)
        try:
            if isinstance(record.get(TEXT), str) and not has_words and _find_entities(record) is not None:
                sentences = _read_text(record, place, repairs)
            else:
                sentences = _read_words(record, place, repairs)
        except BadLine as problem:
            repairs.refuse(problem, place)
        else:
            yield from (Located(sentence, [number] * len(sentence.words)) for sentence in sentences)


def _read_words(record: dict[str, Any], place: str, repairs: Repairs) -> Sequence[Sentence]:
    """The sentences of words with tags."""
    words, tags = _read_strings(record, WORDS), _read_strings(record, TAGS)
    if words is None:
        raise BadLine(f"found no list of words, only {abbreviate(', '.join(record))}.", hint=JSONL_HINT)
    if tags is None:
        raise BadLine("found no list of tags.", hint=JSONL_HINT)
    if len(tags) != len(words):
        raise BadLine(f"found {len(words)} words and {len(tags)} tags.", hint=JSONL_HINT)
    for tag in set(tags) - {OUTSIDE}:
        if not is_tag(tag):
            raise BadLine(f"found the tag {abbreviate(tag)}.", hint=TAG_HINT)
    if not words or words == [DOCSTART]:
        repairs.add(DOCSTART_DROPPED if words else EMPTY_SENTENCE, place)
        return []
    whole = tuple(word if word.strip(BLANK) else NO_WORD for word in words)
    if empty := sum(not word.strip(BLANK) for word in words):
        repairs.add(EMPTY_WORD, place, empty)
    borders = sentence_borders(record, len(words))
    return [Sentence(whole[first:end], tuple(tags[first:end])) for first, end in borders]


def sentence_borders(record: dict[str, Any], words: int) -> list[tuple[int, int]]:
    """First word and the word after the last of each sentence of an object.

    Args:
        record: ``sentences`` holds pairs of those numbers, as ``predict`` writes them; a list of any other form is
            another tool's and ignored.
        words: Its number of words.

    Returns:
        One pair a sentence; without ``sentences``, all words are one. Empty without words.
    """
    whole = [(0, words)] if words else []
    pairs = record.get(SENTENCES)
    if not isinstance(pairs, list) or any(not isinstance(each, list) or len(each) != 2 for each in pairs):
        return whole
    if any(type(number) is not int for pair in pairs for number in pair):
        return whole
    ends = [0, *(end for _, end in pairs)]
    in_order = all(before == first < last for before, (first, last) in zip(ends, pairs, strict=False))
    return [(first, last) for first, last in pairs] if in_order and ends[-1] == words else whole


def _read_strings(record: dict[str, Any], keys: tuple[str, ...]) -> list[str] | None:
    """The list of strings under the first of the keys that the object has."""
    key = next((key for key in keys if record.get(key) is not None), None)
    if key is None:
        return None
    values: list[str] = record[key]
    if not isinstance(values, list):
        raise BadLine(f"{key} is of type {type(values).__name__}, expected a list of strings.", hint=JSONL_HINT)
    check_strings(values, key)
    return values


def check_strings(values: list[Any], key: str, hint: str = JSONL_HINT) -> None:
    """Refuse values of a key that are no strings, or that no file can hold.

    Raises:
        BadLine: There is one.
    """
    wrong = [value for value in values if not isinstance(value, str)]
    if wrong:
        raise BadLine(f"{key} holds a value of type {type(wrong[0]).__name__}, expected strings.", hint=hint)
    if not is_writable("".join(values)):
        way_out = "Write whole characters, as \\ud83d\\ude00 or the character itself."
        raise BadLine(f"{key} holds half a surrogate pair, which is no character.", hint=way_out)


def _find_entities(record: dict[str, Any]) -> list[Any] | None:
    lists = {key: record[key] for key in ENTITIES if isinstance(record.get(key), list)}
    filled = [key for key, entities in lists.items() if entities]
    if len(filled) > 1:
        raise BadLine(f"found entities in {filled[0]!r} and in {filled[1]!r}.", hint=f"Leave one out. {ENTITIES_HINT}")
    return lists[filled[0]] if filled else next(iter(lists.values()), None)


def _read_text(record: dict[str, Any], place: str, repairs: Repairs) -> Sequence[Sentence]:
    """The sentences of a text with entities."""
    if record.get("answer") not in (None, "accept"):  # of Prodigy: the annotator refused it
        repairs.add(REFUSED_EXAMPLE, place)
        return []
    text = record[TEXT]
    check_strings([text], TEXT)
    sentences, counts = tag_text(text, [_read_entity(each, text) for each in _find_entities(record) or ()])
    for kind, times in counts.items():
        repairs.add(kind, place, times)
    return sentences


def _read_entity(entity: Any, text: str) -> tuple[int, int, str]:
    """First character, the one after the last, and type."""
    if isinstance(entity, dict):
        start, end, entity_type = (
            next((entity[key] for key in keys if key in entity), None) for keys in (STARTS, ENDS, TYPES)
        )
        if isinstance(entity_type, list) and len(entity_type) == 1:
            entity_type = entity_type[0]
    else:
        start, end, entity_type = entity if isinstance(entity, list) and len(entity) == 3 else (None, None, None)
    found = f"found the entity {abbreviate(entity)}"
    if type(start) is not int or type(end) is not int or not isinstance(entity_type, str):
        raise BadLine(f"{found}.", hint=ENTITIES_HINT)
    if not 0 <= start < end <= len(text):
        raise BadLine(f"{found} in a text of {len(text)} characters.", hint=ENTITIES_HINT)
    its_text = entity.get(TEXT) if isinstance(entity, dict) else None
    if isinstance(its_text, str) and its_text.strip() != text[start:end].strip():
        raise BadLine(f"{found}, which is {abbreviate(text[start:end])} in the text.", hint=ENTITIES_HINT)
    if not is_tag(f"B-{entity_type}"):
        raise BadLine(f"found the type {abbreviate(entity_type)}.", hint=TYPE_HINT)
    return start, end, entity_type


def tag_text(text: str, entities: Sequence[tuple[int, int, str]]) -> tuple[list[Sentence], Counter[str]]:
    """Cut a text into sentences of words and tag those in BIO that its entities touch; count what is repaired.

    An entity, given as its first character, the one after the last, and its type, gets the whole word that it begins or
    ends in; of two that share a word the longer one stays, and of two of one length the first; the end of a sentence
    inside an entity is taken out.
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
        if not (taken[span.start] or taken[span.end - 1]):  # what shares a word with a longer one begins or ends in it
            taken[span.start : span.end] = b"\x01" * (span.end - span.start)
            kept.append(span)
    return sorted(kept)
