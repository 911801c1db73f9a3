"""Pairs, kinds of error, confusions and parents: against nervaluate, plain counting and properties."""

from __future__ import annotations

import random
from collections import Counter

import pandas as pd
import pytest
from builders.scores import TYPES, conll_entities, random_tags
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_spans, to_tags
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.error_analysis import (
    count_confusions,
    count_kinds,
    count_relations,
    find_frequent_errors,
    pair_entities,
    read_parents,
    side_of,
    tabulate_entities,
    type_relation,
)
from crossner_cli.evaluation.fine_grained import score_detection, score_types, score_typing
from crossner_cli.evaluation.scores import score

Tags = list[list[str]]


def tabulate(gold: Tags, predicted: Tags) -> pd.DataFrame:
    sentences = [Sentence(tuple(f"w{place}" for place in range(len(tags))), tuple(tags)) for tags in gold]
    return tabulate_entities(sentences, conll_entities(gold), conll_entities(predicted))


CASES = [
    ("B-person I-person O", "B-person I-person O", ["correct"], ["correct"]),
    ("B-person O O", "O O O", ["missed"], []),
    ("O O O", "O B-tool O", [], ["spurious"]),
    ("B-person I-person O", "O B-person O", ["boundary_left"], ["boundary_left"]),
    ("B-person I-person O", "B-person O O", ["boundary_right"], ["boundary_right"]),
    ("B-person I-person I-person", "O B-person O", ["boundary_both"], ["boundary_both"]),
    ("B-person I-person O", "O B-person I-person", ["boundary_both"], ["boundary_both"]),
    ("B-person I-person O", "B-place I-place O", ["type"], ["type"]),
    ("B-person I-person O", "B-place O O", ["boundary_and_type"], ["boundary_and_type"]),
    # One predicted entity over two gold ones: the longer of the same type is its partner.
    ("B-person B-person I-person", "B-person I-person I-person", ["missed", "boundary_left"], ["boundary_left"]),
    # The same type goes before the longer overlap.
    ("B-person B-place I-place", "B-person I-person I-person", ["boundary_right", "missed"], ["boundary_right"]),
    # A chain: each best pair leaves its neighbours to others.
    ("B-tool I-tool B-tool I-tool O", "O B-tool I-tool B-tool I-tool", ["boundary_both"] * 2, ["boundary_both"] * 2),
]


@pytest.mark.parametrize(("gold", "predicted", "gold_kinds", "predicted_kinds"), CASES)
def test_errors_are_sorted_as_described(gold, predicted, gold_kinds, predicted_kinds):
    found = tabulate([gold.split()], [predicted.split()])
    assert list(side_of(found, "gold")["kind"]) == gold_kinds
    assert list(side_of(found, "predicted")["kind"]) == predicted_kinds


def rank(gold: Span, predicted: Span, ours: int, theirs: int) -> tuple:
    """The place of a pair in the order of choice."""
    overlap = min(gold.end, predicted.end) - max(gold.start, predicted.start)
    return (gold[:2] != predicted[:2], gold.type != predicted.type, -overlap, ours, theirs)


def test_no_pair_is_left_out_that_is_better_than_those_of_its_entities():
    """This describes the one pairing in which the best pair goes first."""
    for tags, others in zip(*random_tags("BI", 2000, seed=9), strict=True):
        gold, predicted = to_spans(tags), to_spans(others)
        pairs = pair_entities(gold, predicted)
        assert len(set(pairs.values())) == len(pairs)
        chosen = {pair: rank(gold[pair[0]], predicted[pair[1]], *pair) for pair in pairs.items()}
        for ours, one in enumerate(gold):
            for theirs, other in enumerate(predicted):
                if min(one.end, other.end) <= max(one.start, other.start):
                    assert (ours, theirs) not in chosen
                    continue
                rivals = [place for pair, place in chosen.items() if pair[0] == ours or pair[1] == theirs]
                assert rivals and min(rivals) <= rank(one, other, ours, theirs)


def test_nervaluate_counts_the_same_where_the_notions_coincide():
    nervaluate = pytest.importorskip("nervaluate")
    gold, predicted = random_tags("BI", 1500)
    # Its list loader reads tags in its own way: it gets the entities themselves.
    sides = [
        [[{"label": span.type, "start": span.start, "end": span.end - 1} for span in to_spans(tags)] for tags in side]
        for side in (gold, predicted)
    ]
    theirs = nervaluate.Evaluator(*sides, tags=list(TYPES), loader="dict").evaluate()["overall"]
    entities = tabulate(gold, predicted)
    ours = score_types(entities)
    for notion, found in (("strict", {**ours, **ours["micro"]}), ("exact", score_detection(entities))):
        assert theirs[notion].correct == found["correct"]
        assert (theirs[notion].possible, theirs[notion].actual) == (found["support"], found["predicted"])
        assert 100 * theirs[notion].f1 == pytest.approx(found["f1"])


def test_kinds_are_those_of_nervaluate_where_at_most_one_entity_meets_another():
    nervaluate = pytest.importorskip("nervaluate")
    generator = random.Random(3)

    def one_entity() -> Tags:
        start = generator.randrange(5)
        span = Span(start, generator.randint(start + 1, 6), generator.choice(TYPES))
        return [to_tags([span] if generator.random() < 0.8 else [], 6)]

    for _ in range(200):
        gold, predicted = one_entity(), one_entity()
        counts = count_kinds(tabulate(gold, predicted), TYPES)["all"]
        overall = nervaluate.Evaluator(gold, predicted, tags=list(TYPES), loader="list").evaluate()["overall"]
        boundary = sum(counts[kind] for kind in ("boundary_left", "boundary_right", "boundary_both"))
        assert overall["strict"].missed == counts["missed"] and overall["strict"].spurious == counts["spurious"]
        assert overall["partial"].partial == boundary + counts["boundary_and_type"]
        assert overall["ent_type"].incorrect == counts["type"] + counts["boundary_and_type"]


def tagging(length: int) -> st.SearchStrategy[list[str]]:
    tags = ["O", *(f"{prefix}-{name}" for prefix in "BI" for name in TYPES)]
    return st.lists(st.sampled_from(tags), min_size=length, max_size=length)


pairs = st.lists(st.integers(1, 7).flatmap(lambda length: st.tuples(tagging(length), tagging(length))), max_size=6)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(pairs)
def test_every_entity_is_in_exactly_one_kind_and_every_table_adds_up(found):
    gold, predicted = [list(one) for one, _ in found], [list(other) for _, other in found]
    entities = tabulate(gold, predicted)
    counts, confusion = count_kinds(entities, TYPES), count_confusions(entities, TYPES)
    expected = score(gold, predicted).per_type
    for name in TYPES:
        row = expected.get(name)
        support, given_type = (row.support, row.predicted) if row else (0, 0)
        assert sum(counts["gold_by_type"][name].values()) == support == sum(confusion[name].values())
        assert sum(counts["predicted_by_type"][name].values()) == given_type
        assert given_type == sum(row[name] for row in confusion.values())
    assert confusion["O"]["O"] == 0
    paired = sum(counts["all"].values()) - counts["all"]["missed"] - counts["all"]["spurious"]
    sides = side_of(entities, "gold"), side_of(entities, "predicted")
    assert paired + counts["all"]["missed"] == len(sides[0])
    assert paired + counts["all"]["spurious"] == len(sides[1])
    for row in entities.itertuples():
        assert row.partner == -1 or (entities["partner"][row.partner], entities["side"][row.partner]) == (
            row.Index,
            "predicted" if row.side == "gold" else "gold",
        )


@settings(deadline=None, derandomize=True, max_examples=40)
@given(pairs)
def test_swapping_gold_and_predicted_mirrors_the_counts(found):
    gold, predicted = [list(one) for one, _ in found], [list(other) for _, other in found]
    tables = tabulate(gold, predicted), tabulate(predicted, gold)
    one, other = map(score_detection, tables)
    assert (one["f1"], one["precision"]) == pytest.approx((other["f1"], other["recall"]))
    here, there = (Counter(count_kinds(table, TYPES)["all"]) for table in tables)
    assert (here["correct"], here["type"]) == (there["correct"], there["type"])
    assert here["missed"] - here["spurious"] == there["spurious"] - there["missed"]


def test_typing_is_counted_on_right_spans_only():
    entities = tabulate([["B-person", "B-place", "B-tool", "O"]], [["B-person", "B-tool", "O", "B-tool"]])
    found = score_typing(entities)
    assert (found["accuracy"], found["right_spans"], found["right_types"]) == (50.0, 2, 1)
    assert found["per_type"]["place"]["accuracy"] == 0 and "tool" not in found["per_type"]
    assert score_detection(entities)["correct"] == 2
    assert score_types(entities)["weighted"]["recall"] == pytest.approx(100 / 3)
    nothing = tabulate([["O"]], [["O"]])
    assert score_types(nothing)["micro"]["f1"] == 0 and score_types(nothing)["per_type"] == {}
    assert score_typing(nothing)["accuracy"] is None, "a share of nothing is no number"
    assert find_frequent_errors(nothing, []) == [] and len(nothing) == 0


def test_a_type_that_is_called_o_is_not_taken_for_no_entity():
    entities = tabulate([["B-O", "B-O", "O", "B-tool"]], [["B-tool", "O", "B-O", "B-O"]])
    assert count_confusions(entities, ["O", "tool"]) == {
        "B-O": {"B-O": 0, "tool": 1, "O": 1},
        "tool": {"B-O": 1, "tool": 0, "O": 0},
        "O": {"B-O": 1, "tool": 0, "O": 0},
    }


def test_parents_are_the_table_changed_by_the_option():
    types = {"politician", "person", "band", "song", "misc"}
    assert read_parents(None, types) == {"politician": "person", "band": "organisation"}
    given = read_parents("song=misc,band=none, politician=official", types)
    assert given == {"politician": "official", "song": "misc"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("song=a=b", "not of the form child=parent"),
        ("song=misc,song=person", "twice"),
        ("sing=misc", "'sing' is none of the entity types"),
        ("song=misc,misc=song", "goes in a circle"),
    ],
)
def test_parents_that_cannot_be_read_are_refused(text, message):
    with pytest.raises(CrossNERError, match=message):
        read_parents(text, {"song", "misc"})


def test_confusions_within_the_hierarchy_are_told_from_others():
    parents = {"politician": "person", "writer": "person", "mp": "politician"}
    assert type_relation("mp", "person", parents) == "too_general"
    assert type_relation("person", "mp", parents) == "too_specific"
    confusion = {
        "politician": {"politician": 9, "person": 3, "writer": 2, "song": 5, "O": 7},
        "person": {"politician": 1, "person": 4},
        "O": {"person": 8},
    }
    found = count_relations(confusion, parents)
    counts = [found[name] for name in ("type_errors", "too_general", "too_specific", "sibling")]
    assert counts == [11, 3, 1, 2]
    assert found["percent"] == pytest.approx(600 / 11)
    assert found["pairs"]["politician -> person"] == {"kind": "too_general", "count": 3}
