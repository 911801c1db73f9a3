"""Label Studio's exports JSON and JSON_MIN."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.records import Record
from crossner_cli.data.formats.spans import Entity, SpannedText, abbreviate, check_strings, check_type
from crossner_cli.errors import BadLine

UNIT = "UTF-16 code units"  # its places are those of JavaScript
ANNOTATIONS = ("annotations", "completions")
SKIPPED_TASK = "task that the annotator skipped left out"
UNLABELLED_TASK = "task without an annotation left out"
OTHER_RESULT = "relation, choice or other result that is no span ignored"
SEVERAL_LABELS = "span with several labels given the first"
HINT = "Export the project as JSON or JSON_MIN, and leave the file as it is."
OF_ANNOTATION = ("annotation_id", "annotator", "lead_time")


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
    return (
        isinstance(value, list) and bool(value) and all(isinstance(each, dict) and "labels" in each for each in value)
    )


def read_tasks(records: Iterable[Record], repairs: Repairs) -> Iterator[SpannedText]:
    """Read tasks; those that were skipped or that nobody labelled are left out and counted.

    Of several annotations the last that was not cancelled counts. Of several labels on one span it is the first.

    Raises:
        CrossNERError: A task is malformed.
    """
    for record in records:
        try:
            task = _read_task(record, repairs) if is_task(record.value) else _read_minimal(record, repairs)
        except BadLine as problem:
            repairs.refuse(problem, record.place)
        else:
            if task is not None:
                yield task


def _read_task(record: Record, repairs: Repairs) -> SpannedText | None:
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
    spans = []
    for each in results:
        value = each.get("value") if isinstance(each, dict) else None
        if isinstance(value, dict) and "hypertextlabels" in value:
            raise BadLine("found labels of HTML, whose places are not those of a text.", hint="Label plain text.")
        if not isinstance(value, dict) or "labels" not in value:
            repairs.add(OTHER_RESULT, record.place)
        else:
            spans.append(value)
    return _make_text(record.value["data"], spans, record, repairs)


def _read_minimal(record: Record, repairs: Repairs) -> SpannedText | None:
    if not isinstance(record.value, dict):
        raise BadLine(f"found {abbreviate(record.value)}, which is no task.", hint=HINT)
    found = [value for value in record.value.values() if _are_spans(value)]
    if not found and not any(key in record.value for key in OF_ANNOTATION):
        repairs.add(UNLABELLED_TASK, record.place)
        return None
    return _make_text(record.value, [span for spans in found for span in spans], record, repairs)


def _make_text(
    data: Mapping[str, Any], spans: Sequence[Mapping[str, Any]], record: Record, repairs: Repairs
) -> SpannedText:
    entities: dict[tuple[int, int], Entity] = {}
    for span in spans:
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
    text = _find_text(data, list(entities.values()), record)
    return SpannedText(text, list(entities.values()), record.number, record.place)


def _find_text(data: Mapping[str, Any], entities: Sequence[Entity], record: Record) -> str:
    """The text of a task, under whatever key: the one that holds the texts of the entities, else ``text``."""
    texts = {key: value for key, value in data.items() if isinstance(value, str)}
    if not texts:
        raise BadLine(f"found no text in the task, only {abbreviate(', '.join(data))}.", hint=HINT)
    given = [entity.text for entity in entities if entity.text]
    holding = [key for key, value in texts.items() if all(text in value for text in given)] if given else []
    named = [key for key in ("text", "content", "data") if key in texts]
    longest = max(texts, key=lambda key: len(texts[key]))
    key = [*(key for key in named if key in holding), *holding, *named, longest][0]
    check_strings([texts[key]], key, HINT)
    return texts[key]
