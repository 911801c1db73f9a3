"""spaCy's ``DocBin``, the file ``.spacy``: words, sentences, entities, and the scores of entities.

spaCy is the pip extra ``spacy``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from crossner_cli.data.documents import TaggedDocument, Totals
from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.format import Format
from crossner_cli.data.formats.spans import Entity, SpannedText, check_type
from crossner_cli.data.formats.writer import Piece, Writer
from crossner_cli.data.text import Word
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import import_optional

UNLABELLED = "document without entity annotation left out"
ATTRIBUTES = ("ENT_IOB", "ENT_TYPE", "SENT_START")
SPANS, SCORES = "sc", "scores"  # the names that spaCy's own span categorizer gives them
READ, WRITTEN = "DocBin files are read with spaCy", "DocBin files are written with spaCy"


def _import(name: str, why: str) -> Any:
    return import_optional(name, why, extra="spacy")


def read_doc_bin(path: Path, repairs: Repairs) -> Iterator[SpannedText]:
    """Read the texts and entities (``doc.ents``, else ``doc.spans``) of a ``DocBin``; its words are found again.

    Raises:
        CrossNERError: It cannot be read, or spaCy is not installed.
    """
    tokens, vocabulary = _import("spacy.tokens", READ), _import("spacy.vocab", READ).Vocab()
    try:
        bin = tokens.DocBin().from_disk(path)
        # User data are not read, and span groups rarely: spaCy takes a millisecond per document to unpack them.
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


class DocBinWriter(Writer):
    """Writes one ``DocBin``."""

    has_parts = True

    def check(self) -> None:
        """Refuse to write without spaCy."""
        _import("spacy.tokens", WRITTEN)

    def write(self, numbered: Sequence[tuple[int, TaggedDocument]], totals: Totals) -> list[Piece]:
        """Write a part of the documents."""
        return [(f"{numbered[0][0]:09}.spacy", to_doc_bin([tagged for _, tagged in numbered], totals))]

    def join(self, parts: Sequence[Path], target: Path) -> None:
        """Join files into one, which must fit into memory, as in every reader."""
        tokens = _import("spacy.tokens", WRITTEN)
        whole = tokens.DocBin(attrs=ATTRIBUTES)
        for part in parts:
            whole.merge(tokens.DocBin().from_disk(part))
        whole.to_disk(target)


def to_doc_bin(tagged: Iterable[TaggedDocument], totals: Totals) -> bytes:
    """Write documents as one ``DocBin``. The text of each ``Doc`` is exactly that of its document.

    A token is a word; white space beyond the one space after a word is a token too, as in spaCy. Empty words are left
    out and counted in ``totals``. The entities are in ``doc.ents``, and with their scores in ``doc.spans["sc"]``, whose
    ``attrs["scores"]`` has one per span.
    """
    tokens, vocabulary = _import("spacy.tokens", WRITTEN), _import("spacy.vocab", WRITTEN).Vocab()
    found = tokens.DocBin(attrs=ATTRIBUTES)
    for each in tagged:
        sentences = [[word for word in sentence if word.text] for sentence in each.document.sentences]
        words = list(chain(*sentences))
        totals.rewritten_words += sum(not word.text for sentence in each.document.sentences for word in sentence)
        texts, spaces, places = _cut_into_tokens(each.document.text, words)
        starts = {sum(map(len, sentences[:number])) for number, sentence in enumerate(sentences) if sentence}
        firsts = {0, *(places[number] for number in starts)}
        doc = tokens.Doc(
            vocabulary, words=texts, spaces=spaces, sent_starts=[number in firsts for number in range(len(texts))]
        )
        spans, scores = [], []
        for entity in each.entities:
            span = doc.char_span(entity["start"], entity["end"], label=entity["type"], alignment_mode="contract")
            if span is not None:
                spans.append(span)
                scores.append(entity["score"])
        doc.set_ents(spans)
        doc.spans[SPANS] = tokens.SpanGroup(doc, name=SPANS, attrs={SCORES: scores}, spans=spans)
        found.add(doc)
    return bytes(found.to_bytes())


def _cut_into_tokens(text: str, words: Sequence[Word]) -> tuple[list[str], list[bool], list[int]]:
    """Return words and white space as tokens, whether a space follows each, and the token of each word."""
    tokens: list[str] = []
    spaces: list[bool] = []
    places: list[int] = []
    after = 0
    for start, end in [*((word.start, word.end) for word in words), (len(text), len(text))]:
        gap = text[after:start]
        if tokens and gap.startswith(" "):
            spaces[-1] = True
            gap = gap[1:]
        pieces = [piece for piece in (gap, text[start:end]) if piece]
        tokens += pieces
        spaces += [False] * len(pieces)
        places.append(len(tokens) - 1)
        after = end
    return tokens, spaces, places[:-1]


FORMAT = Format(
    "spacy",
    "spaCy DocBin",
    "documents",
    lambda sample: int(sample.path.suffix.lower() == ".spacy"),
    read_doc_bin,
    DocBinWriter,
    endings=(".spacy",),
)
