"""Words with tags in JSON: our own lines, and those of Hugging Face data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from crossner_cli.data.documents import sentence_borders
from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.conll import DOCSTART_DROPPED, EMPTY_WORD, NO_WORD, TAG_HINT
from crossner_cli.data.formats.layout import BLANK, DOCSTART
from crossner_cli.data.formats.records import Record
from crossner_cli.data.formats.spans import EMPTY_SENTENCE, Located, abbreviate, check_strings
from crossner_cli.data.sentences import PROBABILITIES, Sentence
from crossner_cli.data.tags import OTHER_TAG, first_tag, is_tag, read_tag
from crossner_cli.errors import BadLine

Names = Callable[[], Sequence[str]]
TEXT = "text"
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


def no_names() -> Sequence[str]:
    """Return no names of tags."""
    return ()


def read_words(
    value: dict[str, Any], record: Record, repairs: Repairs, find_names: Names = no_names
) -> Iterator[Located]:
    """Read the sentences of words with tags; ``find_names`` gives the names of tags that are numbers.

    Raises:
        BadLine: Words or tags are missing, or their numbers differ.
    """
    words, tags = read_strings(value, WORDS), _read_tags(value, find_names)
    if words is None:
        raise BadLine(f"found no list of words, only {abbreviate(', '.join(value))}.", hint=JSONL_HINT)
    if tags is None:
        raise BadLine("found no list of tags.", hint=JSONL_HINT)
    if len(tags) != len(words):
        raise BadLine(f"found {len(words)} words and {len(tags)} tags.", hint=JSONL_HINT)
    read = {tag: read_tag(first_tag(tag)) for tag in set(tags)}
    for tag, its in read.items():
        if not its:
            raise BadLine(f"found the tag {abbreviate(tag)}.", hint=TAG_HINT)
        if its != tag:
            repairs.add(OTHER_TAG, record.place, tags.count(tag))
    if not words or words == [DOCSTART]:
        repairs.add(DOCSTART_DROPPED if words else EMPTY_SENTENCE, record.place)
        return
    whole = replace_empty_words(words, record.place, repairs)
    soft = _read_soft(value, len(words))
    for first, end in sentence_borders(value, len(words)):
        its_soft = tuple(soft[first:end]) if soft else None
        sentence = Sentence(whole[first:end], tuple(read[tag] for tag in tags[first:end]), soft=its_soft)
        yield locate(sentence, record)


def locate(sentence: Sentence, record: Record) -> Located:
    """Give a sentence the place of the record that it was read from."""
    return Located(replace(sentence, place=record.place), [record.number] * len(sentence.words))


def replace_empty_words(words: Sequence[str], place: str, repairs: Repairs) -> tuple[str, ...]:
    """Replace words that are empty or white space, and count them."""
    if empty := sum(not word.strip(BLANK) for word in words):
        repairs.add(EMPTY_WORD, place, empty)
    return tuple(word if word.strip(BLANK) else NO_WORD for word in words)


def _read_soft(record: dict[str, Any], words: int) -> list[dict[str, float]] | None:
    """Read the probabilities of the tags of each word; None without any."""
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
    """Read the list of strings under the first of the keys that the object has."""
    key = next((key for key in keys if record.get(key) is not None), None)
    if key is None:
        return None
    values: list[str] = record[key]
    if not isinstance(values, list):
        raise BadLine(f"{key} is of type {type(values).__name__}, expected a list of strings.", hint=JSONL_HINT)
    check_strings(values, key, JSONL_HINT)
    return values
