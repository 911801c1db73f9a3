"""Documents in, tagged documents out: chunks of constant size, in the order of the input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossner_cli.data.documents import Document
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, Scheme, illegal_positions, to_spans, to_tags
from crossner_cli.engine.devices import Engine
from crossner_cli.methods.contract import Tagger
from crossner_cli.taggers.calibration import Calibration, score_entity
from crossner_cli.taggers.tagging import Tagged, tag

# Enough sentences to batch those of like length together, few enough to hold.
CHUNK_SENTENCES, CHUNK_WORDS = 2_048, 32_768


@dataclass(frozen=True)
class TaggedDocument:
    """A document and what the tagger found in it.

    Args:
        document: As read.
        tags: Legal BIO tags of each sentence.
        entities: ``start`` and ``end`` in characters of the text, end exclusive, ``type``, ``text`` and ``score``:
            the probability that the entity is right, where the tagger is calibrated; else the lowest probability among
            the tags of its words, which that of the whole cannot exceed.
        repaired: Tags of the tagger that could not follow the one before them; an ``I-`` among them became a ``B-``.
    """

    document: Document
    tags: Sequence[Sequence[str]]
    entities: list[dict[str, Any]]
    repaired: int

    def is_sure(self, min_score: float | None) -> bool:
        """Whether there is an entity, and none of a lower score; all documents are where no score is wanted."""
        if min_score is None:
            return True
        return bool(self.entities) and all(entity["score"] >= min_score for entity in self.entities)


@dataclass
class Totals:
    """What has been tagged so far; of documents that are not sure enough to be written, no entity."""

    documents: int = 0
    blank_documents: int = 0
    unsure_documents: int = 0
    sentences: int = 0
    words: int = 0
    repaired: int = 0
    rewritten_words: int = 0
    entities: Counter[str] = field(default_factory=Counter)

    def add(self, tagged: TaggedDocument, *, is_written: bool = True) -> None:
        """Count one document."""
        sentences = tagged.document.sentences
        self.documents += 1
        self.blank_documents += not sentences
        self.sentences += len(sentences)
        self.words += sum(map(len, sentences))
        if not is_written:
            self.unsure_documents += 1
            return
        self.repaired += tagged.repaired
        self.entities.update(entity["type"] for entity in tagged.entities)

    def include(self, others: dict[str, Any]) -> None:
        """Add what another process, or an interrupted command, has counted: its ``to_json``."""
        for name, mine in vars(self).items():
            setattr(self, name, mine + type(mine)(others[name]))

    def to_json(self) -> dict[str, Any]:
        """Every count; entities by type, the most frequent first."""
        return {**vars(self), "entities": dict(self.entities.most_common())}


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
    tagger: Tagger, documents: Sequence[Document], engine: Engine, *, domain: str, batch_subwords: int | None = None,
    calibration: Calibration | None = None,
) -> list[TaggedDocument]:  # fmt: skip
    """Tag documents, their sentences batched together by length.

    Args:
        tagger: What to tag with.
        documents: Every process is given the same ones.
        engine: Where.
        domain: Whose entity types are looked for.
        batch_subwords: Subwords read at once; None is the engine's.
        calibration: What makes probabilities of scores.
    """
    sentences = [
        Sentence(tuple([word.text for word in words]), None, domain)
        for document in documents
        for words in document.sentences
    ]
    tagged = iter(tag(tagger, sentences, engine, batch_subwords=batch_subwords))
    scheme = tagger.tag_set.scheme
    return [
        _tagged_document(document, [next(tagged) for _ in document.sentences], scheme, calibration)
        for document in documents
    ]


def _tagged_document(
    document: Document, found: Sequence[Tagged], scheme: Scheme, calibration: Calibration | None = None
) -> TaggedDocument:
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
        for span in spans:
            start, end, score = words[span.start].start, words[span.end - 1].end, score_entity(tagged, span)
            entities.append({
                "start": start, "end": end, "type": span.type, "text": document.text[start:end],
                "score": round(score if calibration is None else calibration(score), 4),
            })  # fmt: skip
    return TaggedDocument(document, tags, entities, repaired)
