"""Words with tags in JSON: our own lines, those of Hugging Face data sets, and GLiNER's words with spans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.columns import BLANK, DOCSTART, DOCSTART_DROPPED, EMPTY_WORD, NO_WORD, TAG_HINT
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
from crossner_cli.data.sentences import PROBABILITIES, Sentence
from crossner_cli.data.tags import OTHER_TAG, Span, first_tag, is_tag, read_tag, to_tags
from crossner_cli.errors import BadLine

Names = Callable[[], Sequence[str]]
TEXT, SENTENCES = "text", "sentences"
# Lists of strings are words with tags; Prodigy's tokens are objects.
WORDS, TAGS = ("words", "tokens"), ("tags", "ner_tags")
JSONL_HINT = (
    'A line is one sentence, {"words": ["In", "Paris"], "tags": ["O", "B-location"]}, or a text with its entities,'
    ' {"text": "In Paris", "entities": [{"start": 3, "end": 8, "type": "location"}]}.'
)
NAMES_HINT = (
    "Put the data set's dataset_infos.json or README.md beside the file, or write the tags as text: the order of their"
    " names is never guessed."
)
GLINER_HINT = 'A record is {"tokenized_text": ["In", "Paris"], "ner": [[1, 1, "location"]]}, its ends inclusive.'


def no_names() -> Sequence[str]:
    """No names of tags."""
    return ()


def read_words(
    record: dict[str, Any], place: str, repairs: Repairs, find_names: Names = no_names
) -> Sequence[Sentence]:
    """The sentences of words with tags; ``find_names`` gives the names of tags that are numbers.

    Raises:
        BadLine: Words or tags are missing, or their numbers differ.
    """
    words, tags = read_strings(record, WORDS), _read_tags(record, find_names)
    if words is None:
        raise BadLine(f"found no list of words, only {abbreviate(', '.join(record))}.", hint=JSONL_HINT)
    if tags is None:
        raise BadLine("found no list of tags.", hint=JSONL_HINT)
    if len(tags) != len(words):
        raise BadLine(f"found {len(words)} words and {len(tags)} tags.", hint=JSONL_HINT)
    read = {tag: read_tag(first_tag(tag)) for tag in set(tags)}
    for tag, its in read.items():
        if not its:
            raise BadLine(f"found the tag {abbreviate(tag)}.", hint=TAG_HINT)
        if its != tag:
            repairs.add(OTHER_TAG, place, tags.count(tag))
    tags = [read[tag] for tag in tags]
    if not words or words == [DOCSTART]:
        repairs.add(DOCSTART_DROPPED if words else EMPTY_SENTENCE, place)
        return []
    whole = tuple(word if word.strip(BLANK) else NO_WORD for word in words)
    if empty := sum(not word.strip(BLANK) for word in words):
        repairs.add(EMPTY_WORD, place, empty)
    soft = _read_soft(record, len(words))
    borders = sentence_borders(record, len(words))
    return [
        Sentence(whole[first:end], tuple(tags[first:end]), soft=tuple(soft[first:end]) if soft else None)
        for first, end in borders
    ]


def _read_soft(record: dict[str, Any], words: int) -> list[dict[str, float]] | None:
    """The probabilities of the tags of each word; None without any."""
    soft = record.get(PROBABILITIES)
    if not isinstance(soft, list) or not all(isinstance(each, dict) for each in soft):  # another tool's
        return None
    if len(soft) != words:
        raise BadLine(f"found {words} words and the {PROBABILITIES} of {len(soft)}.", hint=JSONL_HINT)
    for each in soft:
        numbers = [value for value in each.values() if isinstance(value, int | float) and 0 <= value <= 1]
        if len(numbers) < len(each) or not sum(numbers) or not all(map(is_tag, each)):
            raise BadLine(f"found the {PROBABILITIES} {abbreviate(each)}.", hint="Label the sentences again.")
    return soft


def _read_tags(record: dict[str, Any], find_names: Names) -> list[str] | None:
    tags = next((record[key] for key in TAGS if record.get(key) is not None), None)
    if isinstance(tags, list) and tags and all(type(tag) is int for tag in tags):
        names = find_names()
        if not names:
            raise BadLine(f"found the tags {abbreviate(tags)}, numbers whose names are not known.", hint=NAMES_HINT)
        wrong = next((tag for tag in tags if not 0 <= tag < len(names)), None)
        if wrong is not None:
            raise BadLine(f"found the tag {wrong}, and the file names {len(names)} tags.", hint=NAMES_HINT)
        return [names[tag] for tag in tags]
    return read_strings(record, TAGS)


def read_strings(record: dict[str, Any], keys: tuple[str, ...]) -> list[str] | None:
    """The list of strings under the first of the keys that the object has."""
    key = next((key for key in keys if record.get(key) is not None), None)
    if key is None:
        return None
    values: list[str] = record[key]
    if not isinstance(values, list):
        raise BadLine(f"{key} is of type {type(values).__name__}, expected a list of strings.", hint=JSONL_HINT)
    check_strings(values, key, JSONL_HINT)
    return values


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


def read_gliner(records: Iterable[Record], repairs: Repairs) -> Iterator[Located]:
    """Read GLiNER's training data: words, and spans of them whose ends are inclusive.

    Raises:
        CrossNERError: A record is malformed.
    """
    for record in records:
        try:
            sentence = _read_gliner(record, repairs)
        except BadLine as problem:
            repairs.refuse(problem, record.place)
        else:
            if sentence.words:
                yield Located(sentence, [record.number] * len(sentence.words))
            else:
                repairs.add(EMPTY_SENTENCE, record.place)


def _read_gliner(record: Record, repairs: Repairs) -> Sentence:
    value = record.value if isinstance(record.value, dict) else {}
    words, spans = value.get("tokenized_text"), value.get("ner")
    if not isinstance(words, list) or not isinstance(spans, list):
        raise BadLine(f"found {abbreviate(record.value)}.", hint=GLINER_HINT)
    check_strings(words, "tokenized_text", GLINER_HINT)
    found = []
    for each in spans:
        if not isinstance(each, list) or len(each) < 3 or type(each[0]) is not int or type(each[1]) is not int:
            raise BadLine(f"found the entity {abbreviate(each)}.", hint=GLINER_HINT)
        if not 0 <= each[0] <= each[1] < len(words):
            raise BadLine(f"found the entity {abbreviate(each)} in {len(words)} words.", hint=GLINER_HINT)
        found.append(Span(each[0], each[1] + 1, check_type(each[2])))
    kept = drop_overlaps(found, len(words))
    if len(kept) < len(found):
        repairs.add(OVERLAPPING_ENTITY, record.place, len(found) - len(kept))
    if empty := sum(not word.strip(BLANK) for word in words):
        repairs.add(EMPTY_WORD, record.place, empty)
    return Sentence(tuple(word if word.strip(BLANK) else NO_WORD for word in words), tuple(to_tags(kept, len(words))))
