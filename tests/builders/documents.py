"""Tagged documents, written by the writer of a format."""

from typing import Any

from crossner_cli.data.documents import TaggedDocument, Totals
from crossner_cli.prediction.output import make_writer


def write_document(name: str, tagged: TaggedDocument, totals: Totals | None = None, **settings: Any) -> str:
    """Write one document in a format of text."""
    return make_writer(name, **settings).write_document(tagged, totals or Totals())
