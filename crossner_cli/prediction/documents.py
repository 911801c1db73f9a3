"""Documents with their tags, and counts of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossner_cli.data.documents import Document


@dataclass(frozen=True)
class TaggedDocument:
    """A document with its tags and entities.

    Args:
        document: As read.
        tags: Legal BIO tags of each sentence.
        entities: ``start`` and ``end`` in characters of the text, end exclusive, ``type``, ``text`` and ``score``. The
            score is the probability that the entity is right if the tagger is calibrated; if not, it is the lowest
            probability of the tags of its words, an upper bound of that of the whole.
        repaired: Number of tags that could not follow the tag before them; an ``I-`` became a ``B-``.
    """

    document: Document
    tags: Sequence[Sequence[str]]
    entities: list[dict[str, Any]]
    repaired: int

    def scores_at_least(self, least: float | None) -> bool:
        """Return whether there are entities, all with this score or more; always true if ``least`` is None."""
        if least is None:
            return True
        return bool(self.entities) and all(entity["score"] >= least for entity in self.entities)


@dataclass
class Totals:
    """Counts of tagged documents.

    Documents that are not written, because an entity scored too low, count as ``unsure_documents``; their entities and
    repairs are not counted. ``reading`` counts what the tagger could not read or left out.
    """

    documents: int = 0
    blank_documents: int = 0
    unsure_documents: int = 0
    sentences: int = 0
    words: int = 0
    repaired: int = 0
    rewritten_words: int = 0
    entities: Counter[str] = field(default_factory=Counter)
    reading: Counter[str] = field(default_factory=Counter)

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

    def include(self, others: Mapping[str, Any]) -> None:
        """Add the counts of another ``Totals``, given as the result of ``to_json``."""
        for name, mine in vars(self).items():
            setattr(self, name, mine + type(mine)(others[name]))

    def to_json(self) -> dict[str, Any]:
        """All counts; entities by type, the most frequent first."""
        return {**vars(self), "entities": dict(self.entities.most_common()), "reading": dict(self.reading)}
