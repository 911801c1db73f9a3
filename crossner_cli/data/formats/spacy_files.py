"""spaCy's ``DocBin``, the file ``.spacy``. spaCy is the pip extra ``spacy``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.spans import Entity, SpannedText, check_type
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import import_optional

UNLABELLED = "document without entity annotation left out"


def read_doc_bin(path: Path, repairs: Repairs) -> Iterator[SpannedText]:
    """Read the texts and entities (``doc.ents``, else ``doc.spans``) of a ``DocBin``; its words are found again.

    Raises:
        CrossNERError: It cannot be read, or spaCy is not installed.
    """
    tokens = import_optional("spacy.tokens", "DocBin files are read with spaCy", extra="spacy")
    vocabulary = import_optional("spacy.vocab", "DocBin files are read with spaCy", extra="spacy").Vocab()
    try:
        bin = tokens.DocBin().from_disk(path)
        # Data of users are not read, and groups of spans seldom: spaCy takes a millisecond a document to unpack them.
        groups, bin.span_groups, bin.user_data = bin.span_groups, [b""] * len(bin), []
        docs = list(bin.get_docs(vocabulary))
        if not any(doc.ents for doc in docs):
            bin.span_groups = groups
            docs = list(bin.get_docs(vocabulary))
    except Exception as error:  # spaCy, msgpack and zlib each raise their own
        raise CrossNERError(
            f"{path} cannot be read as a DocBin: {type(error).__name__}.", hint="Give a whole file .spacy."
        ) from None
    if names := ", ".join(sorted({name for doc in docs for name in doc.spans})):
        repairs.notes.append(f"{path}: no doc.ents; the entities are those of doc.spans, {names}")
    for number, doc in enumerate(docs, start=1):
        place = f"{path}, document {number}"
        if not doc.has_annotation("ENT_IOB") and not doc.spans:
            repairs.add(UNLABELLED, place)
            continue
        entities = [
            Entity(each.start_char, each.end_char, check_type(each.label_))
            for each in chain(doc.ents, *doc.spans.values())
        ]
        yield SpannedText(doc.text, entities, number, place)
