"""Folds: labelled sentences in parts, for taggers that have not seen the part that they tag.

Types are spread by iterative stratification: Sechidis, Tsoumakas and Vlahavas (2011), On the Stratification of
Multi-Label Data, section 3.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence

from crossner_cli.data.leaks import make_leak_key
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans

NEARLY_EQUAL = 0.8  # share of the words of two sentences that both have (Jaccard)
FEWEST_WORDS = 5  # of sentences that are compared so: shorter ones are equal or not


def split_into_folds(sentences: Sequence[Sentence], folds: int, seed: int = 0) -> list[int]:
    """Give each sentence a fold, so that each fold has its share of the sentences and of each type's entities.

    Copies of a sentence and nearly equal sentences get the same fold.

    Args:
        sentences: Labelled sentences.
        folds: Number of folds, at least 2.
        seed: Decides among equal choices.

    Returns:
        The number of the fold of each sentence, from 0.
    """
    groups = group_near_equal([sentence.words for sentence in sentences])
    members: defaultdict[int, list[int]] = defaultdict(list)
    for number, group in enumerate(groups):
        members[group].append(number)
    counts = {
        group: Counter(span.type for number in numbers for span in to_spans(sentences[number].tags or ()))
        for group, numbers in members.items()
    }
    total = Counter[str]()
    for found in counts.values():
        total.update(found)
    order = random.Random(seed).sample(sorted(members), len(members))
    # Those with the rarest type come first: later ones can still balance the frequent types.
    order.sort(key=lambda group: (min((total[kind] for kind in counts[group]), default=math.inf), -len(members[group])))
    missing = [{kind: number / folds for kind, number in total.items()} for _ in range(folds)]
    room = [len(sentences) / folds] * folds
    fold_of = [0] * len(sentences)
    for group in order:
        rarest = min(counts[group], key=lambda kind: total[kind], default=None)
        # A fold with room for the group; among these the one that lacks most of its rarest type, then the emptiest.
        size = len(members[group])
        fold = max(
            range(folds),
            key=lambda each: (room[each] >= size / 2, missing[each].get(rarest or "", 0.0), room[each]),
        )
        for number in members[group]:
            fold_of[number] = fold
        room[fold] -= size
        for kind, number in counts[group].items():
            missing[fold][kind] -= number
    return fold_of


def group_near_equal(texts: Sequence[Sequence[str]]) -> list[int]:
    """Group texts that are equal except for case, final stop and spaces, or share nearly all of their words.

    Two texts are nearly equal if at least 80 % of the words of either are in both.

    Args:
        texts: The words of each.

    Returns:
        The number of the first text of its group, for each.
    """
    parent = list(range(len(texts)))

    def find(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    def join(one: int, other: int) -> None:
        low, high = sorted((find(one), find(other)))
        parent[high] = low

    first: dict[str, int] = {}
    for number, words in enumerate(texts):
        join(number, first.setdefault(make_leak_key(" ".join(words)), number))
    bags = [frozenset(word.casefold() for word in words) for words in texts]
    frequency = Counter(word for bag in bags for word in bag)
    seen: defaultdict[str, list[int]] = defaultdict(list)
    for number, bag in enumerate(bags):
        if len(bag) < FEWEST_WORDS or find(number) != number:
            continue
        # Nearly equal sets share one of these rarest words of each (prefix filtering, Chaudhuri et al. 2006).
        rarest = sorted(bag, key=lambda word: (frequency[word], word))[
            : len(bag) - math.ceil(NEARLY_EQUAL * len(bag)) + 1
        ]
        for other in sorted({other for word in rarest for other in seen[word]}):
            if len(bag & bags[other]) >= NEARLY_EQUAL * len(bag | bags[other]):
                join(number, other)
        for word in rarest:
            seen[word].append(number)
    return [find(number) for number in range(len(texts))]
