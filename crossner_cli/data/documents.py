"""Documents: a text, its words with their places in it, and the entities of a tagger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossner_cli.data.text import Word
from crossner_cli.errors import BadLine

Cut = Callable[[str], Sequence[Sequence[Word]]]
SENTENCES = "sentences"


@dataclass(frozen=True)
class Document:
    """A text, its words with their places in it, and the object that it was read from.

    The text of words alone is the words joined by single spaces; a blank line has no sentence.
    """

    text: str
    sentences: Sequence[Sequence[Word]]
    given: dict[str, Any] = field(default_factory=dict)


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
        score: The lowest probability of the tag of any word, also outside entities; 1 without words. It is not
            calibrated.
        unsure: Number of entities that were left out, because they scored too low; their words are outside entities.
    """

    document: Document
    tags: Sequence[Sequence[str]]
    entities: list[dict[str, Any]]
    repaired: int
    score: float = 1.0
    unsure: int = 0


@dataclass
class Totals:
    """Counts of tagged documents.

    Entities that are left out, because they scored too low, count as ``unsure_entities`` alone. ``reading`` counts
    what the tagger could not read or left out.
    """

    documents: int = 0
    blank_documents: int = 0
    sentences: int = 0
    words: int = 0
    repaired: int = 0
    rewritten_words: int = 0
    entities: Counter[str] = field(default_factory=Counter)
    unsure_entities: int = 0
    reading: Counter[str] = field(default_factory=Counter)

    def add(self, tagged: TaggedDocument) -> None:
        """Count one document."""
        sentences = tagged.document.sentences
        self.documents += 1
        self.blank_documents += not sentences
        self.sentences += len(sentences)
        self.words += sum(map(len, sentences))
        self.unsure_entities += tagged.unsure
        self.repaired += tagged.repaired
        self.entities.update(entity["type"] for entity in tagged.entities)

    def include(self, others: Mapping[str, Any]) -> None:
        """Add the counts of another ``Totals``, given as the result of ``to_json``."""
        for name, mine in vars(self).items():
            setattr(self, name, mine + type(mine)(others[name]))

    def to_json(self) -> dict[str, Any]:
        """Make a record of all counts; entities by type, the most frequent first."""
        return {**vars(self), "entities": dict(self.entities.most_common()), "reading": dict(self.reading)}


def document_of_words(words: Sequence[str], given: dict[str, Any] | None = None) -> Document:
    """Make a document of words joined by single spaces: one sentence, unless ``given`` holds the ends of sentences."""
    found, start = [], 0
    for word in words:
        found.append(Word(word, start, start + len(word)))
        start += len(word) + 1
    return _document_of_found(" ".join(words), found, given or {})


def _document_of_found(text: str, found: Sequence[Word], given: dict[str, Any]) -> Document:
    return Document(text, [found[first:end] for first, end in sentence_borders(given, len(found))], given)


def find_words_given(text: str, words: Sequence[str], given: dict[str, Any]) -> Document:
    """Make a document of words that occur in its text, in order."""
    found, end = [], 0
    for number, word in enumerate(words, start=1):
        start = text.find(word, end)
        if start < 0:
            raise BadLine(
                f"word {number}, {word!r}, is not in the text after the words before it.",
                hint="Give text or words, or words that are cut from the text.",
            )
        end = start + len(word)
        found.append(Word(word, start, end))
    return _document_of_found(text, found, given)


def sentence_borders(record: dict[str, Any], words: int) -> list[tuple[int, int]]:
    """Return the first word and the word after the last of each sentence of an object.

    Args:
        record: ``sentences`` holds pairs of those numbers, as ``predict`` writes them; a list of any other form belongs
            to another tool and is ignored.
        words: Its number of words.

    Returns:
        One pair per sentence; without ``sentences``, all words are one. Empty without words.
    """
    whole = [(0, words)] if words else []
    pairs = record.get(SENTENCES)
    if not isinstance(pairs, list) or any(not isinstance(each, list) or len(each) != 2 for each in pairs):
        return whole
    if any(type(number) is not int for pair in pairs for number in pair):
        return whole
    ends = [0, *(end for _, end in pairs)]
    in_order = all(before == first < last for before, (first, last) in zip(ends, pairs, strict=False))
    return [(first, last) for first, last in pairs] if in_order and ends[-1] == words else whole
