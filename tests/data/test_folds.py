"""Folds: equal shares, types spread, and no copy of a sentence in another fold."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.domains import find_domain
from crossner_cli.data.folds import FEWEST_WORDS, NEARLY_EQUAL, group_near_equal, split_into_folds
from crossner_cli.data.labelled import read_domain
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans

WORDS = st.lists(st.sampled_from([*"abcdefgh"]), min_size=1, max_size=9).map(tuple)


def sample() -> list[Sentence]:
    return read_domain(find_domain("sample-target").files).splits["train"]


def nearly_equal(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    bags = {*one}, {*other}
    if "".join(one) == "".join(other):
        return True
    return min(map(len, bags)) >= FEWEST_WORDS and len(bags[0] & bags[1]) >= NEARLY_EQUAL * len(bags[0] | bags[1])


@given(st.lists(WORDS, max_size=12))
def test_groups_are_those_of_comparing_every_pair(texts: list[tuple[str, ...]]) -> None:
    groups = list(range(len(texts)))
    for one, words in enumerate(texts):
        for other in range(one):
            if nearly_equal(words, texts[other]):
                low, high = sorted((groups[one], groups[other]))
                groups = [low if each == high else each for each in groups]
    assert group_near_equal(texts) == groups


@pytest.mark.parametrize("folds", [2, 5, 10])
def test_folds_have_equal_shares_of_sentences_and_of_each_type(folds: int) -> None:
    sentences = sample()
    fold_of = split_into_folds(sentences, folds)
    sizes = Counter(fold_of)
    print(sizes)
    assert len(sizes) == folds and max(sizes.values()) - min(sizes.values()) <= 2
    by_type = Counter(
        (span.type, fold) for each, fold in zip(sentences, fold_of, strict=True) for span in to_spans(each.tags or ())
    )
    total = Counter(span.type for each in sentences for span in to_spans(each.tags or ()))
    for kind, number in total.items():
        assert max(by_type[kind, fold] for fold in range(folds)) <= 2 * number / folds + 2


def test_copies_and_near_copies_share_a_fold() -> None:
    sentences = sample()
    copies = [Sentence((*each.words[:-1], "!"), each.tags) for each in sentences]
    fold_of = split_into_folds([*sentences, *copies], 5)
    assert fold_of[: len(sentences)] == fold_of[len(sentences) :]
    assert len(set(fold_of)) == 5
