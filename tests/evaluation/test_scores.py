"""Scores against an independent port of the CoNLL script, seqeval's own report, measured cases and properties."""

import numpy as np
import pytest
from builders.scores import conlleval_chunks, random_tags, whole_chunks
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as seqeval_conll
from seqeval.metrics.v1 import precision_recall_fscore_support as seqeval_strict
from seqeval.scheme import IOB2, IOBES

from crossner_cli.data.tags import to_spans
from crossner_cli.evaluation.scores import Scores, compute_f1, compute_shares, read_entities, score

TYPES = ["person", "Multi-tissue_structure", "a-b-c", "x-"]
SCHEMES = [("BI", "bio", IOB2), ("BIES", "bioes", IOBES)]
MODES = ["conll", "strict"]


def shares_of(gold, predicted, read) -> tuple[float, float, float]:
    """Micro precision, recall and F1 in percent by sets."""
    golds = {(number, *chunk) for number, tags in enumerate(gold) for chunk in read(tags)}
    others = {(number, *chunk) for number, tags in enumerate(predicted) for chunk in read(tags)}
    correct = len(golds & others)
    precision = 100 * correct / len(others) if others else 0.0
    recall = 100 * correct / len(golds) if golds else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def micro(found: Scores) -> tuple[float, float, float]:
    return found.precision, found.recall, found.f1


@pytest.mark.parametrize(("prefixes", "scheme", "_theirs"), SCHEMES)
@pytest.mark.parametrize("mode", MODES)
def test_entities_and_scores_equal_those_of_independent_code(prefixes, scheme, _theirs, mode):
    read = conlleval_chunks if mode == "conll" else lambda tags: whole_chunks(tags, bioes=scheme == "bioes")
    for seed in range(500):
        gold, predicted = random_tags(prefixes, 1 + seed % 9, seed, TYPES[: 1 + seed % 4])
        for side in (gold, predicted):
            for tags, spans in zip(side, read_entities(side, mode=mode, scheme=scheme), strict=True):
                assert {(span.type, span.start, span.end) for span in spans} == read(tags)
                assert spans == sorted(spans) and (mode == "strict" or spans == to_spans(tags))
        assert micro(score(gold, predicted, mode=mode, scheme=scheme)) == pytest.approx(
            shares_of(gold, predicted, read)
        )


@pytest.mark.parametrize(("prefixes", "scheme", "theirs"), SCHEMES)
@pytest.mark.parametrize("mode", MODES)
def test_scores_are_those_of_seqeval_to_the_last_bit(prefixes, scheme, theirs, mode, recwarn):
    for seed in range(200):
        gold, predicted = random_tags(prefixes, 5, seed)
        found = score(gold, predicted, mode=mode, scheme=scheme)
        more = {"zero_division": 0, **({"scheme": theirs} if mode == "strict" else {})}
        report = seqeval_strict if mode == "strict" else seqeval_conll
        if found.per_type:  # seqeval fails without any entity
            *expected, _ = report(gold, predicted, average="micro", **more)
            assert micro(found) == tuple(100 * float(share) for share in expected)
            columns = report(gold, predicted, average=None, **more)
            for row, *shares, support in zip(found.per_type.values(), *columns, strict=True):
                assert (row.precision, row.recall, row.f1) == tuple(100 * float(share) for share in shares)
                assert row.support == support


def test_f1_of_arrays_is_that_of_single_counts():
    counts = np.random.default_rng(1).integers(0, 9, (300, 3))
    predicted, gold = counts[:, 0] + counts[:, 1], counts[:, 0] + counts[:, 2]
    expected = [compute_shares(*map(int, row)).f1 for row in zip(counts[:, 0], predicted, gold, strict=True)]
    assert compute_f1(counts[:, 0], predicted, gold) == pytest.approx(expected)
    assert compute_shares(0, 0, 0) == compute_shares(0, 1, 1)


@pytest.mark.parametrize(
    ("gold", "predicted", "conll", "strict"),
    [
        ("O B-x I-x", "O I-x I-x", 100, 0),
        ("B-PER I-PER", "B-PER I-LOC", 0, 0),
        ("B-x B-x", "B-x I-x", 0, 0),
        ("B-x O O", "B-x O I-x", 200 / 3, 100),
        ("B-x E-x", "B-x I-x", 100, 0),
        ("B-a | O", "B-a | I-a", 200 / 3, 100),  # entities do not join across sentences
        ("B-artist", "B-musicalartist", 0, 0),
        ("B-a I-a L-a U-b", "B-a M-a E-a S-b", 100, 100),  # BILOU and BMES count as BIOES
    ],
)
def test_measured_cases_score_as_the_usual_tools_do(gold, predicted, conll, strict):
    sides = [[part.split() for part in text.split("|")] for text in (gold, predicted)]
    assert score(*sides, mode="conll").f1 == pytest.approx(conll)
    assert score(*sides, mode="strict").f1 == pytest.approx(strict)


@pytest.mark.parametrize("mode", MODES)
def test_each_side_is_read_in_its_own_scheme(mode):
    gold = [["B-place", "I-place", "O", "B-person"]]
    assert (
        score(gold, [["B-place", "E-place", "O", "S-person"]], mode=mode, scheme="bioes", gold_scheme="bio").f1 == 100
    )


def tagged() -> st.SearchStrategy[list[list[str]]]:
    return st.lists(st.lists(any_tag(), min_size=1, max_size=7), max_size=6)


def any_tag() -> st.SearchStrategy[str]:
    return st.one_of(
        st.just("O"), st.builds(lambda prefix, name: f"{prefix}-{name}", st.sampled_from("BI"), st.sampled_from(TYPES))
    )


@st.composite
def pairs(draw) -> tuple[list[list[str]], list[list[str]]]:
    """Gold tags, and predicted ones of the same lengths."""
    gold = draw(tagged())
    return gold, [draw(st.lists(any_tag(), min_size=len(tags), max_size=len(tags))) for tags in gold]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(pairs(), st.sampled_from(MODES))
def test_renaming_types_and_reordering_sentences_change_no_score(pair, mode):
    gold, predicted = pair
    names = dict(zip(TYPES, ["micro avg", "_", "zzz--", "B-person"], strict=True))

    def rename(side: list[list[str]]) -> list[list[str]]:
        return [[tag if tag == "O" else f"{tag[0]}-{names[tag[2:]]}" for tag in tags] for tags in side]

    plain = score(gold, predicted, mode=mode)
    renamed = score(rename(gold), rename(predicted), mode=mode)
    assert micro(renamed) == micro(plain)
    assert {names[name]: row for name, row in plain.per_type.items()} == renamed.per_type
    assert score(gold[::-1], predicted[::-1], mode=mode) == plain


@pytest.mark.parametrize("sentences", [[], [[]], [["O"]], [["O", "O"], ["O"]]])
def test_without_entities_every_score_is_zero_and_nothing_warns(sentences, recwarn):
    for mode in MODES:
        found = score(sentences, sentences, mode=mode)
        assert (found.f1, found.macro_f1, found.per_type, found.support) == (0, 0, {}, 0)
        assert found.sentences == len(sentences)
    assert score([["O"]], [["B-a"]]).f1 == score([["B-a"]], [["O"]]).f1 == 0
    assert not recwarn.list


def test_tags_that_cannot_follow_are_counted_on_both_sides():
    found = score([["I-a", "O", "I-b"]], [["B-a", "I-b", "B-b"]])
    assert (found.illegal_in_gold, found.repaired) == (2, 1)
    assert score([["B-a"]], [["B-a"]], mode="strict", scheme="bioes").repaired == 1


def test_tags_of_other_words_are_refused():
    for other in ([["O"]], [["O"], ["O"]]):
        with pytest.raises(ValueError, match="of the same words"):
            score([["O"], ["O", "O"]], other)
