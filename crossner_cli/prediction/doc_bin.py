"""Tagged documents as a ``DocBin`` of spaCy: words, sentences, entities, and the scores of entities.

spaCy is the pip extra ``spacy``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_cli.data.text import Word
from crossner_cli.run.environment import import_optional

if TYPE_CHECKING:
    from crossner_cli.prediction.formats import TaggedDocument, Totals

ATTRIBUTES = ("ENT_IOB", "ENT_TYPE", "SENT_START")
SPANS, SCORES = "sc", "scores"  # the names that spaCy's own span categorizer gives them


def spacy_module(name: str) -> Any:
    """Import a part of spaCy.

    Raises:
        CrossNERError: It is not installed.
    """
    return import_optional(name, "DocBin files are written with spaCy", extra="spacy")


def to_doc_bin(tagged: Iterable[TaggedDocument], totals: Totals) -> bytes:
    """Write documents as one ``DocBin``. The text of each ``Doc`` is exactly that of its document.

    A token is a word; white space beyond the one space after a word is a token too, as in spaCy. Empty words are left
    out and counted in ``totals``. The entities are in ``doc.ents``, and with their scores in ``doc.spans["sc"]``, whose
    ``attrs["scores"]`` has one a span.
    """
    tokens, vocabulary = spacy_module("spacy.tokens"), spacy_module("spacy.vocab").Vocab()
    found = tokens.DocBin(attrs=ATTRIBUTES)
    for each in tagged:
        sentences = [[word for word in sentence if word.text] for sentence in each.document.sentences]
        words = list(itertools.chain(*sentences))
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


def join_doc_bins(parts: Sequence[Path], target: Path) -> None:
    """Join files into one, which is held in memory, as by any reader of it."""
    tokens = spacy_module("spacy.tokens")
    whole = tokens.DocBin(attrs=ATTRIBUTES)
    for part in parts:
        whole.merge(tokens.DocBin().from_disk(part))
    whole.to_disk(target)


def _cut_into_tokens(text: str, words: Sequence[Word]) -> tuple[list[str], list[bool], list[int]]:
    """Words and the white space between them, whether a space follows each, and the token of each word."""
    tokens: list[str] = []
    spaces: list[bool] = []
    places: list[int] = []
    behind = 0
    for start, end in [*((word.start, word.end) for word in words), (len(text), len(text))]:
        gap = text[behind:start]
        if tokens and gap.startswith(" "):
            spaces[-1] = True
            gap = gap[1:]
        pieces = [piece for piece in (gap, text[start:end]) if piece]
        tokens += pieces
        spaces += [False] * len(pieces)
        places.append(len(tokens) - 1)
        behind = end
    return tokens, spaces, places[:-1]
