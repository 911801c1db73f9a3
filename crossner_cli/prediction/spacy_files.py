"""Tagged documents as spaCy's ``DocBin``. Needs spaCy, the pip extra ``spacy``."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crossner_cli.data.text import Word
from crossner_cli.prediction.chunks import TaggedDocument, Totals
from crossner_cli.run.environment import import_optional

ATTRIBUTES = ("ENT_IOB", "ENT_TYPE")


def spacy_module(name: str) -> Any:
    """Import a part of spaCy.

    Raises:
        CrossNERError: It is not installed.
    """
    return import_optional(name, "DocBin files are written with spaCy", extra="spacy")


class _Piece(NamedTuple):
    """A token: where it is in the text, and whether a space follows that is none of its own."""

    start: int
    end: int
    space: bool


def to_doc_bin(tagged: Iterable[TaggedDocument], totals: Totals) -> bytes:
    """The documents as one ``DocBin``: the text of each is that of the document, character by character.

    A token is a word; white space beyond the one space behind a word is a token too, as spaCy has it. Words without a
    character are left out and counted.
    """
    tokens, vocabulary = spacy_module("spacy.tokens"), spacy_module("spacy.vocab").Vocab()
    found = tokens.DocBin(attrs=ATTRIBUTES)
    for each in tagged:
        found.add(_to_doc(each, tokens, vocabulary, totals))
    return bytes(found.to_bytes())


def _to_doc(tagged: TaggedDocument, tokens: Any, vocabulary: Any, totals: Totals) -> Any:
    text = tagged.document.text
    words = [word for sentence in tagged.document.sentences for word in sentence]
    pieces = _pieces(text, [word for word in words if word.text])
    totals.rewritten_words += sum(not word.text for word in words)
    doc = tokens.Doc(
        vocabulary,
        words=[text[piece.start : piece.end] for piece in pieces],
        spaces=[piece.space for piece in pieces],
    )
    starts, ends = [piece.start for piece in pieces], [piece.end for piece in pieces]
    spans = []
    for entity in tagged.entities:
        first, last = bisect_left(starts, entity["start"]), bisect_right(ends, entity["end"])
        if first < last:
            spans.append(tokens.Span(doc, first, last, label=entity["type"]))
    doc.set_ents(spans)
    return doc


def _pieces(text: str, words: Iterable[Word]) -> list[_Piece]:
    """Tokens that give the text when they are joined: words, and what is between them."""
    pieces: list[_Piece] = []

    def fill(start: int, end: int) -> None:
        if pieces and text[start:end].startswith(" "):
            pieces[-1] = pieces[-1]._replace(space=True)
            start += 1
        if start < end:
            pieces.append(_Piece(start, end, False))

    behind = 0
    for word in words:
        fill(behind, word.start)
        pieces.append(_Piece(word.start, word.end, False))
        behind = word.end
    fill(behind, len(text))
    return pieces


def join_files(parts: Sequence[Path], target: Path) -> None:
    """Put the documents of some ``DocBin`` files into one, which is whole in memory, as any reader has it."""
    tokens = spacy_module("spacy.tokens")
    whole = tokens.DocBin(attrs=ATTRIBUTES)
    for part in parts:
        whole.merge(tokens.DocBin().from_disk(part))
    whole.to_disk(target)
