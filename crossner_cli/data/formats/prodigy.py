"""Prodigy's examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from crossner_cli.data.documents import TaggedDocument, Totals
from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.format import Format, count_values, read_each
from crossner_cli.data.formats.jsonl import PRODIGY_KEYS, REFUSED_EXAMPLE, read_object
from crossner_cli.data.formats.records import read_records
from crossner_cli.data.formats.spans import Item, SpannedText
from crossner_cli.data.formats.words import JSONL_HINT, TEXT
from crossner_cli.data.formats.writer import Writer, encode_json, leave_out_blanks

MERGED_EXAMPLE = "example of the same _input_hash merged with the first"


def _is_example(value: Any) -> bool:
    return isinstance(value, dict) and TEXT in value and any(key in value for key in PRODIGY_KEYS)


def read_prodigy(path: Path, repairs: Repairs) -> Iterator[Item]:
    """Read examples; those of one ``_input_hash`` and text are merged into the first.

    Raises:
        CrossNERError: An example is malformed.
    """
    found: dict[Any, Item] = {}
    items = read_each(read_records(path, repairs, JSONL_HINT), partial(read_object, task_key="_input_hash"), repairs)
    for number, item in enumerate(items):
        key = (item.task, item.text) if isinstance(item, SpannedText) and item.task else number
        first = found.setdefault(key, item)
        if isinstance(first, SpannedText) and isinstance(item, SpannedText) and first is not item:
            found[key] = replace(first, entities=[*dict.fromkeys([*first.entities, *item.entities])])
            repairs.add(MERGED_EXAMPLE, item.place)
    yield from found.values()


class ProdigyWriter(Writer):
    """Writes one task per line; offsets count characters. Prodigy finds the tokens itself."""

    def write_document(self, tagged: TaggedDocument, totals: Totals) -> str:
        """Write a task; entities of white space are left out."""
        spans = [
            {"start": entity["start"], "end": entity["end"], "label": entity["type"], "score": entity["score"]}
            for entity in leave_out_blanks(tagged, totals).entities
        ]
        return encode_json({"text": tagged.document.text, "spans": spans, "meta": {"score": tagged.score}}) + "\n"


FORMAT = Format(
    "prodigy",
    "Prodigy JSONL",
    "examples",
    count_values(_is_example),
    read_prodigy,
    ProdigyWriter,
    left_out={REFUSED_EXAMPLE: "refused", MERGED_EXAMPLE: "merged"},
)
