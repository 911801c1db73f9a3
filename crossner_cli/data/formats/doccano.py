"""doccano's exports and imports."""

from __future__ import annotations

from functools import partial
from typing import Any

from crossner_cli.data.documents import TaggedDocument, Totals
from crossner_cli.data.formats.format import Format, count_values, json_reader
from crossner_cli.data.formats.jsonl import DATA, read_object
from crossner_cli.data.formats.words import JSONL_HINT, TEXT
from crossner_cli.data.formats.writer import Writer, encode_json, leave_out_blanks


def _is_example(value: Any) -> bool:
    is_text = isinstance(value, dict) and any(isinstance(value.get(key), str) for key in (TEXT, DATA))
    return is_text and any(isinstance(value.get(key), list) for key in ("label", "labels")) and "id" in value


class DoccanoWriter(Writer):
    """Writes one example per line; offsets count characters."""

    def write_document(self, tagged: TaggedDocument, totals: Totals) -> str:
        """Write an example; entities of white space are left out."""
        entities = leave_out_blanks(tagged, totals).entities
        label = [[entity["start"], entity["end"], entity["type"]] for entity in entities]
        return encode_json({"text": tagged.document.text, "label": label}) + "\n"


FORMAT = Format(
    "doccano",
    "doccano JSONL",
    recognises=count_values(_is_example),
    reads=json_reader(partial(read_object, task_key="id"), JSONL_HINT),
    writes=DoccanoWriter,
)
