"""Our own JSONL, also Hugging Face's: words with tags, or texts with entities at places in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from crossner_cli.data.documents import (
    Document,
    TaggedDocument,
    Totals,
    document_of_words,
    find_words_given,
)
from crossner_cli.data.files import Repairs, number_lines
from crossner_cli.data.formats.format import Format, Source, count_values, read_each
from crossner_cli.data.formats.hugging_face import names_of_tags
from crossner_cli.data.formats.records import Record, parse_lines, read_records
from crossner_cli.data.formats.spans import (
    ENTITIES_HINT,
    Entity,
    Item,
    SpannedText,
    abbreviate,
    check_strings,
    check_type,
    first_of,
)
from crossner_cli.data.formats.words import JSONL_HINT, TAGS, TEXT, WORDS, Names, no_names, read_words
from crossner_cli.data.formats.writer import Writer, encode_json
from crossner_cli.errors import BadLine, CrossNERError

ENTITIES = ("entities", "spans", "label", "labels")
STARTS, ENDS, TYPES = ("start", "start_offset"), ("end", "end_offset"), ("type", "label", "labels")
DATA = "data"  # doccano's other name for the text
REFUSED_EXAMPLE = "example whose answer is not accept dropped"
REFUSED_SPAN = "span whose answer is not accept left out"
NULL_LABELS = "labels that are null read as none"
PRODIGY_KEYS = ("answer", "_input_hash", "_task_hash")
DOCUMENT_HINT = 'A line is {"text": "Anna met Peter."} or {"words": ["Anna", "met", "Peter", "."]}.'


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and any(key in value for key in (*WORDS, *ENTITIES, *TAGS))


def _read_jsonl(path: Path, repairs: Repairs) -> Iterator[Item]:
    read = partial(read_object, find_names=cache(lambda: names_of_tags(path)))
    return read_each(read_records(path, repairs, JSONL_HINT), read, repairs)


def read_object(
    record: Record, repairs: Repairs, *, find_names: Names = no_names, task_key: str | None = None
) -> list[Item]:
    """Read an object of words with tags, or of a text with entities at places in it.

    Args:
        record: The object.
        repairs: Counts what is left out.
        find_names: Returns the names of tags that are numbers.
        task_key: The key under which a tool keeps the number of a task.

    Raises:
        BadLine: The object is neither.
    """
    value = record.value
    if not isinstance(value, dict):
        raise BadLine(f"found {abbreviate(value)}, which is not a JSON object.", hint=JSONL_HINT)
    lists = [value.get(key) for key in WORDS]
    has_words = any(isinstance(words, list) and isinstance(next(iter(words), None), str) for words in lists)
    if not has_words and (nulls := [key for key in ENTITIES if value.get(key, key) is None]):
        repairs.add(NULL_LABELS, record.place)
        value = {**value, **dict.fromkeys(nulls, [])}
    key = TEXT if isinstance(value.get(TEXT), str) else DATA
    entities = None if has_words or not isinstance(value.get(key), str) else _find_entities(value)
    if entities is None:
        return [*read_words(value, record, repairs, find_names)]
    if value.get("answer") not in (None, "accept"):
        repairs.add(REFUSED_EXAMPLE, record.place)
        return []
    check_strings([value[key]], key, JSONL_HINT)
    kept = [each for each in entities if not isinstance(each, dict) or each.get("answer") in (None, "accept")]
    if len(kept) < len(entities):
        repairs.add(REFUSED_SPAN, record.place, len(entities) - len(kept))
    task = value.get(task_key) if task_key else None
    task = task if isinstance(task, int | str) else None
    return [SpannedText(value[key], [*map(read_entity, kept)], record.number, record.place, task)]


def _find_entities(record: dict[str, Any]) -> list[Any] | None:
    """Find the list of entities of an object under one of its names; None without one."""
    lists: dict[str, list[Any]] = {key: record[key] for key in ENTITIES if isinstance(record.get(key), list)}
    filled = [key for key, entities in lists.items() if entities]
    if len(filled) > 1:
        raise BadLine(f"found entities in {filled[0]!r} and in {filled[1]!r}.", hint=f"Leave one out. {ENTITIES_HINT}")
    if filled:
        return lists[filled[0]]
    is_prodigy = any(key in record for key in PRODIGY_KEYS)  # a task without entities has no spans
    return next(iter(lists.values()), [] if is_prodigy else None)


def read_entity(entity: Any) -> Entity:
    """Return the first character, the one after the last, and the type."""
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


def parse_documents(records: Iterable[Record], source: Source) -> Iterator[Document]:
    """Make documents of records; a ``BadLine``, or one without text or words, is refused or counted."""
    for record in records:
        try:
            document = _document_of_value(record.value, source)
        except BadLine as problem:
            source.repairs.refuse(problem, record.place)
        else:
            yield document


def _document_of_value(record: Any, source: Source) -> Document:
    """Return the given words, with their places in the text, if any; else the text cut into words.

    A list of objects beside a text, such as Prodigy's tokens, holds no words. From a task of Label Studio the data are
    read.
    """
    if isinstance(record, BadLine):
        raise record
    column = source.column
    if not isinstance(record, dict):
        raise BadLine(f"found {abbreviate(json.dumps(record))}, which is not a JSON object.", hint=DOCUMENT_HINT)
    if isinstance(record.get("data"), dict) and column not in record:
        record = record["data"]
    text = record.get(column)
    if text is not None:
        check_strings([text], column, DOCUMENT_HINT)
    lists = {key: record[key] for key in WORDS if record.get(key) is not None}
    key = next((key for key, words in lists.items() if text is None or _are_words(words)), None)
    if key is None:
        if text is None:
            keys = ", ".join(map(repr, record)) or "an empty object"
            raise BadLine(f"found neither {column} nor words, only {keys}.", hint=DOCUMENT_HINT)
        return Document(text, source.cut(text), record)
    words = record[key]
    if not isinstance(words, list):
        raise BadLine(f"{key} is not a list.", hint=DOCUMENT_HINT)
    check_strings(words, key, DOCUMENT_HINT)
    return document_of_words(words, record) if text is None else find_words_given(text, words, record)


def _are_words(words: Any) -> bool:
    return isinstance(words, list) and not (words and isinstance(words[0], dict))


def to_record(tagged: TaggedDocument, is_calibrated: bool) -> dict[str, Any]:
    """Make one JSON object of a document. Keys that were read are kept unless this function sets them.

    ``sentences`` holds the first word of each sentence and the word after its last one; ``calibrated`` says whether
    scores are probabilities of being right.
    """
    document = tagged.document
    ends = list(accumulate(map(len, document.sentences), initial=0))
    return {
        **document.given,
        "text": document.text,
        "words": [word.text for words in document.sentences for word in words],
        "tags": [tag for tags in tagged.tags for tag in tags],
        "entities": tagged.entities,
        "sentences": [[start, end] for start, end in pairwise(ends)],
        "calibrated": is_calibrated,
    }


class JsonlWriter(Writer):
    """Writes one object per line."""

    def write_document(self, tagged: TaggedDocument, totals: Totals) -> str:
        """Write ``to_record`` on one line."""
        return encode_json(to_record(tagged, self.is_calibrated)) + "\n"


def _read_lines(source: Source) -> Iterator[Document]:
    lines = number_lines(source.lines, source.name, source.repairs)
    return parse_documents(parse_lines(lines, source.name, source.repairs, hint=DOCUMENT_HINT), source)


def _read_array(source: Source) -> Iterator[Document]:
    if source.path is None:
        raise CrossNERError(f"{source.name}: json cannot be read from a stream.", hint="Name the file.")
    return parse_documents(read_records(source.path, source.repairs, DOCUMENT_HINT), source)


FORMAT = Format(
    "jsonl",
    "JSONL",
    "lines",
    count_values(_is_record),
    _read_jsonl,
    JsonlWriter,
    _read_lines,
    (".jsonl", ".ndjson"),
)
ARRAY = Format("json", "JSON", "records", reads_documents=_read_array, endings=(".json",))
