"""Label Studio's exports JSON and JSON_MIN."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crossner_cli.data.documents import TaggedDocument, Totals
from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.format import Format, count_values, read_each
from crossner_cli.data.formats.records import Record, read_records
from crossner_cli.data.formats.spans import Entity, Item, SpannedText, abbreviate, check_strings, check_type
from crossner_cli.data.formats.writer import Writer, encode_json, leave_out_blanks
from crossner_cli.errors import BadLine

ANNOTATIONS = ("annotations", "completions")
SKIPPED_TASK = "task that the annotator skipped left out"
UNLABELLED_TASK = "task without an annotation left out"
OTHER_RESULT = "relation, choice or other result that is not a span ignored"
SEVERAL_LABELS = "span with several labels given the first"
HINT = "Export the project as JSON or JSON_MIN, and leave the file as it is."
LABELS = ("labels", "hypertextlabels", "paragraphlabels")  # of text, HTML and dialogues
ADDRESS = re.compile(r"(?:\w+:/)?/\S+")
OF_ANNOTATION = ("annotation_id", "annotator", "lead_time")

Spans = list[tuple[str, Mapping[str, Any]]]  # each with the name of its text


def is_task(value: Any) -> bool:
    """Return whether a value is a task of JSON."""
    return isinstance(value, dict) and isinstance(value.get("data"), dict)


def is_export(value: Any) -> bool:
    """Return whether a value is a task of JSON, or of JSON_MIN: keys of its data beside those of its annotation."""
    return (
        is_task(value)
        or isinstance(value, dict)
        and (any(key in value for key in OF_ANNOTATION) or any(_are_spans(each) for each in value.values()))
    )


def _are_spans(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_span, value))


def _is_span(value: Any) -> bool:
    return isinstance(value, dict) and not value.keys().isdisjoint(LABELS)


def read_tasks(path: Path, repairs: Repairs) -> Iterator[Item]:
    """Read tasks; skipped and unlabelled ones are left out and counted.

    The last annotation that was not cancelled counts, and the first of several labels on one span. A task may have
    several labelled texts.

    Raises:
        CrossNERError: A task is malformed.
    """
    tasks: list[tuple[Record, Spans]] = []

    def collect(record: Record, repairs: Repairs) -> list[Item]:
        spans = _read_task(record, repairs) if is_task(record.value) else _read_minimal(record, repairs)
        tasks.extend([] if spans is None else [(record, spans)])
        return []

    yield from read_each(read_records(path, repairs, HINT), collect, repairs)
    names = dict.fromkeys(name for _, spans in tasks for name, _ in spans)
    for record, spans in tasks:
        try:
            yield from _make_texts(record, spans, [*names], repairs)
        except BadLine as problem:
            repairs.refuse(problem, record.place)


def _read_task(record: Record, repairs: Repairs) -> Spans | None:
    annotations: list[Any] = next(
        (record.value[key] for key in ANNOTATIONS if isinstance(record.value.get(key), list)), []
    )
    annotations = [each for each in annotations if isinstance(each, dict)]
    done = [each for each in annotations if not each.get("was_cancelled") and not each.get("skipped")]
    if not done:
        repairs.add(SKIPPED_TASK if annotations else UNLABELLED_TASK, record.place)
        return None
    results = done[-1].get("result")
    if not isinstance(results, list):
        raise BadLine(f"found the annotation {abbreviate(done[-1])}.", hint=HINT)
    kept = [each for each in results if isinstance(each, dict) and _is_span(each.get("value"))]
    if len(kept) < len(results):
        repairs.add(OTHER_RESULT, record.place, len(results) - len(kept))
    return [(str(each.get("to_name")), each["value"]) for each in kept]


def _read_minimal(record: Record, repairs: Repairs) -> Spans | None:
    if not isinstance(record.value, dict):
        raise BadLine(f"found {abbreviate(record.value)}, which is not a task.", hint=HINT)
    found = {key: value for key, value in record.value.items() if _are_spans(value)}
    if not found and not any(key in record.value for key in OF_ANNOTATION):
        repairs.add(UNLABELLED_TASK, record.place)
        return None
    return [(key, span) for key, spans in found.items() for span in spans]


def _make_texts(record: Record, spans: Spans, names: Sequence[str], repairs: Repairs) -> list[SpannedText]:
    """Make the texts of a task, given the names of all texts that its file labels."""
    data = record.value["data"] if is_task(record.value) else record.value
    texts = {key: value for key, value in data.items() if isinstance(value, str)}
    found: dict[str, dict[tuple[int, int], Entity]] = {name: {} for name in names if name in texts}
    for name in dict.fromkeys(name for name, _ in spans):
        entities = _make_entities([span for its, span in spans if its == name], record, repairs)
        given = [entity for entity in entities.values() if entity.text]
        if name not in texts and not given and len(texts) > 1 < len(names):
            problem = f"found labels of {name!r}, and the texts of the task are {', '.join(texts)}."
            raise BadLine(problem, hint="Give the texts in the data the names that the labels have for them.")
        key = name if name in texts else _find_key(data, given)
        if ADDRESS.fullmatch(texts[key]) and not (given and all(str(each.text) in texts[key] for each in given)):
            problem = f"found labels of a text that is elsewhere, at {abbreviate(texts[key])}."
            raise BadLine(problem, hint=f"Put the text itself into the task instead of its address, under {key!r}.")
        found[key] = entities | found.get(key, {})
    found = found or {_find_key(data, []): {}}
    check_strings([texts[key] for key in found], "data", HINT)
    task = record.value.get("id")
    return [
        SpannedText(texts[key], [*its.values()], record.number, record.place, None if task is None else f"{task}/{key}")
        for key, its in found.items()
    ]


def _make_entities(spans: Sequence[Any], record: Record, repairs: Repairs) -> dict[tuple[int, int], Entity]:
    entities: dict[tuple[int, int], Entity] = {}
    for span in spans:
        if "labels" not in span:
            problem = "found labels of HTML or of a dialogue, whose places are not those of a text."
            raise BadLine(problem, hint="Label plain text, of a dialogue each turn as a task.")
        start, end, labels = span.get("start"), span.get("end"), span["labels"]
        if type(start) is not int or type(end) is not int or not isinstance(labels, list):
            raise BadLine(f"found the span {abbreviate(span)}.", hint=HINT)
        if not labels:
            repairs.add(OTHER_RESULT, record.place)
            continue
        if len(labels) > 1 or (start, end) in entities:
            repairs.add(SEVERAL_LABELS, record.place)
        its_text = span.get("text") if isinstance(span.get("text"), str) else None
        entities.setdefault((start, end), Entity(start, end, check_type(labels[0]), its_text or None))
    return entities


def _find_key(data: Mapping[str, Any], given: Sequence[Entity]) -> str:
    """Find the key of the labelled text, which holds the texts of the entities, best at their places, or ``text``."""
    texts = {key: value for key, value in data.items() if isinstance(value, str)}
    if not texts:
        raise BadLine(f"found no text in the task, only {abbreviate(', '.join(data))}.", hint=HINT)

    def rank(key: str) -> tuple[bool, bool, bool, bool, int]:
        is_placed = all(texts[key][each.start : each.end] == each.text for each in given)
        is_holding = all(str(each.text) in texts[key] for each in given)
        return is_placed, is_holding, key == "text", key in ("content", "data"), len(texts[key])

    return max(texts, key=rank)


class LabelStudioWriter(Writer):
    """Writes an array of tasks with one prediction each. Keys that were read stand beside the text in ``data``."""

    between, tail = b",\n", b"\n]\n"

    def head(self) -> bytes:
        """Return the start of the array."""
        return b"[\n"

    def write_document(self, tagged: TaggedDocument, totals: Totals) -> str:
        """Write a task; entities of white space are left out."""
        shown = leave_out_blanks(tagged, totals)
        data = {**tagged.document.given, "text": tagged.document.text}
        return encode_json({"data": data, "predictions": [to_prediction(shown, self.model)]})


def to_prediction(
    tagged: TaggedDocument, model: str, *, from_name: str = "label", to_name: str = "text"
) -> dict[str, Any]:
    """Make a prediction of Label Studio; its offsets count UTF-16 code units, as JavaScript does.

    Args:
        tagged: Its entities are in the order of the text, and none overlap.
        model: The name of the tagger.
        from_name: The name of ``Labels`` in the labelling setup.
        to_name: The name of ``Text`` there.
    """
    text, result = tagged.document.text, []
    after = units = 0
    for number, entity in enumerate(tagged.entities, start=1):
        start = units + _utf16_units(text[after : entity["start"]])
        after, units = entity["end"], start + _utf16_units(entity["text"])
        value = {"start": start, "end": units, "text": entity["text"], "labels": [entity["type"]]}
        names = {"id": str(number), "from_name": from_name, "to_name": to_name, "type": "labels"}
        result.append({**names, "score": entity["score"], "value": value})
    return {"model_version": model, "score": tagged.score, "result": result}


def _utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


FORMAT = Format(
    "label-studio",
    "Label Studio JSON",
    "tasks",
    count_values(is_export),
    read_tasks,
    LabelStudioWriter,
    counts_utf16=True,  # its offsets are those of JavaScript
    left_out={SKIPPED_TASK: "skipped", UNLABELLED_TASK: "unlabelled"},
)
