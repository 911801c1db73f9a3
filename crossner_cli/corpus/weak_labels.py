"""Sentences labelled by a list of names: what the list knows is an entity, all else is not."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from crossner_cli.corpus.selection import LevelPart
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_tags
from crossner_cli.data.text import find_words


def label(part: LevelPart, type_sets: Sequence[Sequence[str]], counts: Counter[str]) -> Iterator[Sentence]:
    """Tag the words of selected sentences in BIO.

    A name of several types has the one listed first. A mention takes in the dot of an abbreviation that it ends
    before, as ``Inc`` in ``Inc.``; one that begins or ends within a word otherwise labels nothing.

    Args:
        part: Sentences and the mentions in them.
        type_sets: What the numbers of types stand for.
        counts: Where ``weak_mentions``, ``weak_mentions_within_words`` and ``weak_mentions_of_several_types`` are
            counted.
    """
    lines, starts, ends = part.mentions.T.tolist()
    numbers = part.type_sets.tolist()
    for line, text in enumerate(part.texts):
        words = find_words(text)
        begins, finishes = [word.start for word in words], [word.end for word in words]
        spans = []
        for place in range(bisect_left(lines, line), bisect_left(lines, line + 1)):
            types, start, end = type_sets[numbers[place]], starts[place], ends[place]
            first, last = bisect_left(begins, start), bisect_left(finishes, end)
            is_whole = finishes[last] == end or (finishes[last] == end + 1 and text[end] == ".")
            if first == len(begins) or begins[first] != start or not is_whole:
                counts["weak_mentions_within_words"] += 1
                continue
            counts["weak_mentions"] += 1
            counts["weak_mentions_of_several_types"] += len(types) > 1
            spans.append(Span(first, last + 1, types[0]))
        yield Sentence(tuple(word.text for word in words), tuple(to_tags(spans, len(words), "bio")))
