"""Labels that contradict other labels of the same sentences, found without a tagger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crossner_cli.data.leaks import make_leak_key
from crossner_cli.data.names import NameFinder
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_spans

RARE = 0.2  # share of its occurrences in which a string has a label, or lacks one, that looks like a slip
FEWEST = 4  # occurrences of a string that are enough to tell
ARTICLES = frozenset(
    ("a", "an", "the", "der", "die", "das", "ein", "eine", "le", "la", "les", "el", "los", "il", "de", "het")
)
BRACKETS = "()[]{}«»“”‘’"  # each beside its partner


class Suspect(NamedTuple):
    """A label that may be wrong, or a place that may lack one.

    Args:
        sentence: Number of the sentence, from 0.
        gold: The label; None if it is missing.
        found: What may be right; None if nothing is an entity there. One of both is a span.
        kind: What may be wrong.
        score: From 0 to 1; 1 is the surest.
    """

    sentence: int
    gold: Span | None
    found: Span | None
    kind: str
    score: float

    @property
    def place(self) -> Span:
        """The label, or what is missing."""
        place = self.gold or self.found
        assert place is not None
        return place


def find_inconsistencies(sentences: Sequence[Sentence]) -> list[Suspect]:
    """Find labels that contradict others: the surest first, each place once.

    Found are sentences that are labelled in two ways; strings that nearly always have another type; names that are
    labelled in nearly all or in nearly no other places; and entities with an article or punctuation at their edge,
    where most have it outside.

    Args:
        sentences: Labelled sentences.
    """
    spans = [to_spans(sentence.tags or ()) for sentence in sentences]
    found = [
        *_compare_copies(sentences, spans),
        *_compare_types(sentences, spans),
        *_compare_places(sentences, spans),
        *_compare_edges(sentences, spans),
    ]
    first: dict[tuple[int, int, int], Suspect] = {}
    for each in sorted(found, key=lambda suspect: -suspect.score):
        first.setdefault((each.sentence, each.place.start, each.place.end), each)
    return list(first.values())


def _compare_copies(sentences: Sequence[Sentence], spans: Sequence[Sequence[Span]]) -> Iterator[Suspect]:
    """Compare copies of a sentence with the labels that most of them have, or else the first one."""
    copies: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for number, sentence in enumerate(sentences):
        copies[make_leak_key(" ".join(sentence.words)), len(sentence.words)].append(number)
    for numbers in copies.values():
        usual, times = Counter(tuple(spans[number]) for number in numbers).most_common(1)[0]
        score = times / len(numbers)
        for number in numbers:
            for span in sorted({*spans[number]} - {*usual}):
                other = next((each for each in usual if each.start < span.end and span.start < each.end), None)
                yield Suspect(number, span, other, "labelled in two ways", score)
            for span in sorted({*usual} - {*spans[number]}):
                if not any(each.start < span.end and span.start < each.end for each in spans[number]):
                    yield Suspect(number, None, span, "labelled in two ways", score)


def _compare_types(sentences: Sequence[Sentence], spans: Sequence[Sequence[Span]]) -> Iterator[Suspect]:
    """Compare the type of each string with the one that it usually has."""
    types = _count_types(sentences, spans)
    for number, (sentence, found) in enumerate(zip(sentences, spans, strict=True)):
        for span in found:
            counts = types[_name(sentence, span.start, span.end)]
            usual, times = counts.most_common(1)[0]
            total = counts.total()
            if total >= FEWEST and counts[span.type] <= RARE * total:
                yield Suspect(number, span, Span(span.start, span.end, usual), "rare type", times / total)


def _compare_places(sentences: Sequence[Sentence], spans: Sequence[Sequence[Span]]) -> Iterator[Suspect]:
    """Compare the places of each labelled string, with and without a label."""
    types = _count_types(sentences, spans)
    finder = NameFinder({*types})
    bare: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for number, (sentence, found) in enumerate(zip(sentences, spans, strict=True)):
        inside = {word for span in found for word in range(span.start, span.end)}
        for start, end in finder.find_all(sentence.words):
            if inside.isdisjoint(range(start, end)):
                bare[_name(sentence, start, end)].append((number, start, end))
    for name, places in bare.items():
        usual, labelled = types[name].most_common(1)[0][0], types[name].total()
        share = labelled / (labelled + len(places))
        if 1 - share <= 0.5:
            for number, start, end in places:
                yield Suspect(number, None, Span(start, end, usual), "not labelled", share)
        elif share <= RARE:
            for number, found in enumerate(spans):
                for span in found:
                    if _name(sentences[number], span.start, span.end) == name:
                        yield Suspect(number, span, None, "seldom labelled", 1 - share)


def _count_types(sentences: Sequence[Sentence], spans: Sequence[Sequence[Span]]) -> dict[str, Counter[str]]:
    """Count the types of each labelled string."""
    types: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence, found in zip(sentences, spans, strict=True):
        for span in found:
            types[_name(sentence, span.start, span.end)][span.type] += 1
    return types


def _name(sentence: Sentence, start: int, end: int) -> str:
    return " ".join(sentence.words[start:end])


def _compare_edges(sentences: Sequence[Sentence], spans: Sequence[Sequence[Span]]) -> Iterator[Suspect]:
    """Compare entities with an article or punctuation at their edge with those of their type that have it outside."""
    inside, outside = Counter[tuple[str, str, bool]](), Counter[tuple[str, str, bool]]()
    edges = []
    for number, (sentence, found) in enumerate(zip(sentences, spans, strict=True)):
        for span in found:
            for place, beside, is_first in ((span.start, span.start - 1, True), (span.end - 1, span.end, False)):
                if span.end - span.start > 1 and _is_edge(sentence.words, place, span):
                    key = sentence.words[place], span.type, is_first
                    inside[key] += 1
                    edges.append((number, span, key))
                if 0 <= beside < len(sentence.words) and _is_edge(sentence.words, beside, span):
                    outside[sentence.words[beside], span.type, is_first] += 1
    for number, span, key in edges:
        total = inside[key] + outside[key]
        if total >= FEWEST and inside[key] <= RARE * total:
            other = Span(span.start + key[2], span.end - (not key[2]), span.type)
            yield Suspect(number, span, other, "edge", outside[key] / total)


def _is_edge(words: Sequence[str], place: int, span: Span) -> bool:
    """Return whether a word is an article before an entity, or punctuation.

    A capital makes the article a part of the name, and a bracket whose partner the entity holds is one, too.
    """
    word = words[place]
    if (
        span.start <= place < span.end
        and word in BRACKETS
        and BRACKETS[BRACKETS.index(word) ^ 1] in words[span.start : span.end]
    ):
        return False
    return not any(letter.isalnum() for letter in word) or (place <= span.start and word in ARTICLES)
