"""Documents in, tagged documents out: chunks of constant size, in the order of the input."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossner_cli.data import Sentence
from crossner_cli.documents import Document, is_writable
from crossner_cli.engine import Engine
from crossner_cli.methods import Tagger
from crossner_cli.readers import NO_WORD
from crossner_cli.tagging import Tagged, tag
from crossner_cli.tags import OUTSIDE, Scheme, illegal_positions, to_spans, to_tags

# Enough sentences to batch those of like length together, few enough to hold.
CHUNK_SENTENCES, CHUNK_WORDS = 2_048, 32_768


@dataclass(frozen=True)
class TaggedDocument:
    """A document and what the tagger found in it.

    Args:
        document: As read.
        tags: Legal BIO tags of each sentence.
        entities: ``start`` and ``end`` in characters of the text, end exclusive, ``type``, ``text`` and ``score``:
            the lowest probability among the tags of its words, which the probability of the whole cannot exceed.
        repaired: Tags of the tagger that could not follow the one before them; an ``I-`` among them became a ``B-``.
    """

    document: Document
    tags: Sequence[Sequence[str]]
    entities: list[dict[str, Any]]
    repaired: int


@dataclass
class Totals:
    """What has been tagged so far."""

    documents: int = 0
    blank_documents: int = 0
    sentences: int = 0
    words: int = 0
    repaired: int = 0
    rewritten_words: int = 0
    entities: Counter[str] = field(default_factory=Counter)

    def add(self, tagged: TaggedDocument) -> None:
        """Count one document."""
        sentences = tagged.document.sentences
        self.documents += 1
        self.blank_documents += not sentences
        self.sentences += len(sentences)
        self.words += sum(map(len, sentences))
        self.repaired += tagged.repaired
        self.entities.update(entity["type"] for entity in tagged.entities)


def chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Group documents; a document is never cut in two."""
    chunk: list[Document] = []
    sentences = words = 0
    for document in documents:
        chunk.append(document)
        sentences += max(1, len(document.sentences))
        words += sum(map(len, document.sentences))
        if sentences >= CHUNK_SENTENCES or words >= CHUNK_WORDS:
            yield chunk
            chunk, sentences, words = [], 0, 0
    if chunk:
        yield chunk


def tag_documents(
    tagger: Tagger, documents: Sequence[Document], engine: Engine, *, domain: str, batch_subwords: int | None = None
) -> list[TaggedDocument]:
    """Tag documents, their sentences batched together by length.

    Args:
        tagger: What to tag with.
        documents: Every process is given the same ones.
        engine: Where.
        domain: Whose entity types are looked for.
        batch_subwords: Subwords read at once; None is the engine's.
    """
    sentences = [
        Sentence(tuple([word.text for word in words]), None, domain)
        for document in documents
        for words in document.sentences
    ]
    tagged = iter(tag(tagger, sentences, engine, batch_subwords=batch_subwords))
    scheme = tagger.tag_set.scheme
    return [_tagged_document(document, [next(tagged) for _ in document.sentences], scheme) for document in documents]


def _tagged_document(document: Document, found: Sequence[Tagged], scheme: Scheme) -> TaggedDocument:
    tags: list[Sequence[str]] = []
    entities: list[dict[str, Any]] = []
    repaired = 0
    for words, tagged in zip(document.sentences, found, strict=True):
        if tagged.tags.count(OUTSIDE) == len(words):
            tags.append(tagged.tags)
            continue
        spans = to_spans(tagged.tags)
        tags.append(to_tags(spans, len(words)))
        repaired += len(illegal_positions(tagged.tags, scheme))
        for first, last, entity_type in spans:
            start, end = words[first].start, words[last - 1].end
            entities.append({
                "start": start, "end": end, "type": entity_type, "text": document.text[start:end],
                "score": round(min(tagged.probabilities[first:last]), 4),
            })  # fmt: skip
    return TaggedDocument(document, tags, entities, repaired)


def to_jsonl(tagged: TaggedDocument) -> str:
    """One object on one line. Keys of the object read are kept, those written here win.

    ``sentences`` holds the first word and the word after the last of each sentence.
    """
    document = tagged.document
    ends = [0]
    for words in document.sentences:
        ends.append(ends[-1] + len(words))
    record = {
        **document.given,
        "text": document.text,
        "words": [word.text for words in document.sentences for word in words],
        "tags": [tag for tags in tagged.tags for tag in tags],
        "entities": tagged.entities,
        "sentences": [[ends[number], ends[number + 1]] for number in range(len(document.sentences))],
    }
    line = json.dumps(record, ensure_ascii=False)
    # Half a surrogate pair in a value passed through can only be written as the escape it was read from.
    return (line if is_writable(line) else json.dumps(record)) + "\n"


def to_conll(tagged: TaggedDocument, totals: Totals) -> str:
    """A line a word, word and tag separated by a tab; an empty line behind each sentence.

    White space that would break the columns becomes a space, a word without a character U+FFFD; both are counted.
    """
    lines: list[str] = []
    for words, tags in zip(tagged.document.sentences, tagged.tags, strict=True):
        for word, tag_text in zip(words, tags, strict=True):
            text = word.text
            if not text.strip(" \t\r\n"):
                text = NO_WORD
            elif "\t" in text or "\n" in text or "\r" in text:
                text = text.replace("\t", " ").replace("\r", " ").replace("\n", " ")
            totals.rewritten_words += text != word.text
            lines.append(f"{text}\t{tag_text}\n")
        lines.append("\n")
    return "".join(lines)
