"""Fine-grained analyses: pairs, kinds of error and confusions against nervaluate and properties; averages, examples."""

from __future__ import annotations

import random
import statistics
from collections import Counter

import pandas as pd
import pytest
from builders.analyses import FIRST, SECOND, analyse, gold_sentences
from builders.scores import TYPES, conll_entities, random_tags
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_spans, to_tags
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.fine_grained import (
    Tagging,
    analyse_taggings,
    average_records,
    count_confusions,
    count_illegal_tags,
    count_kinds,
    count_relations,
    find_frequent_errors,
    pair_entities,
    score_detection,
    score_types,
    score_typing,
    tabulate_entities,
)
from crossner_cli.evaluation.scores import score
from crossner_cli.run.progress import exhaust

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
    assert list(found[found["side"] == "gold"]["kind"]) == gold_kinds
    assert list(found[found["side"] == "predicted"]["kind"]) == predicted_kinds


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
    sides = entities[entities["side"] == "gold"], entities[entities["side"] == "predicted"]
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
    found = score_typing(entities, TYPES)
    assert (found["accuracy"], found["right_spans"], found["right_types"]) == (50.0, 2, 1)
    assert found["per_type"]["place"]["accuracy"] == 0 and found["per_type"]["tool"]["accuracy"] is None
    assert score_detection(entities)["correct"] == 2
    assert score_types(entities)["weighted"]["recall"] == pytest.approx(100 / 3)
    nothing = tabulate([["O"]], [["O"]])
    assert score_types(nothing)["micro"]["f1"] == 0 and score_types(nothing)["per_type"] == {}
    assert score_typing(nothing, [])["accuracy"] is None, "a share of nothing is no number"
    assert find_frequent_errors(nothing, []) == [] and len(nothing) == 0


def test_a_type_that_is_called_o_is_not_taken_for_no_entity():
    entities = tabulate([["B-O", "B-O", "O", "B-tool"]], [["B-tool", "O", "B-O", "B-O"]])
    assert count_confusions(entities, ["O", "tool"]) == {
        "B-O": {"B-O": 0, "tool": 1, "O": 1},
        "tool": {"B-O": 1, "tool": 0, "O": 0},
        "O": {"B-O": 1, "tool": 0, "O": 0},
    }


def test_confusions_within_the_hierarchy_are_told_from_others():
    confusion = {
        "politician": {"politician": 9, "person": 3, "writer": 2, "song": 5, "O": 7},
        "person": {"politician": 1, "person": 4, "song": 0},
        "O": {"person": 8},
    }
    relations = {"type_errors": 11, "too_general": 3, "too_specific": 1, "sibling": 2}
    assert count_relations(confusion) == {**relations, "percent": pytest.approx(600 / 11)}
    assert count_relations({"a": {"a": 1}})["percent"] is None


def test_numbers_are_means_over_seeds_with_their_deviation():
    record = analyse(FIRST, SECOND)["model"].record
    gold = [sentence.tags or () for sentence in gold_sentences()]
    each = [score(gold, [tags.split() for tags in side]).f1 for side in (FIRST, SECOND)]
    expected = {"mean": statistics.fmean(each), "deviation": statistics.stdev(each)}
    assert record["mean"]["scores"]["micro"]["f1"] == expected
    # A seed that never makes an error of a kind counts as 0.
    assert record["mean"]["illegal_tags"]["sequences"]["O I-place"]["mean"] == 0.5
    assert record["mean"]["hierarchy"]["too_general"]["mean"] == 0.5
    single = analyse(FIRST, labels=("model",))["model"].record
    assert single["mean"]["scores"]["support"] == {"mean": 7.0, "deviation": None}


@pytest.mark.parametrize("mode", ["conll", "strict"])
@pytest.mark.parametrize(("prefixes", "scheme"), [("BI", "bio"), ("BIES", "bioes")])
def test_scores_by_type_are_those_of_the_evaluation(prefixes, scheme, mode):
    gold, predicted = random_tags(prefixes, 200)
    sentences = [Sentence(("w",) * len(tags), tuple(tags)) for tags in gold]
    work = analyse_taggings(
        sentences, [Tagging("m", "-", predicted, scheme)], KnownText(), mode=mode, gold_scheme=scheme
    )
    mean = exhaust(work)["m"].record["mean"]
    expected = score(gold, predicted, mode=mode, scheme=scheme)
    found = {**mean["scores"]["per_type"], "micro": mean["scores"]["micro"]}
    rows = {**{name: vars(row) for name, row in expected.per_type.items()}, "micro": vars(expected)}
    assert sorted(found) == sorted([*TYPES, "micro"]) == sorted(rows)
    for name, row in found.items():
        assert {measure: average["mean"] for measure, average in row.items()}.items() <= rows[name].items()
    assert mean["scores"]["macro"]["f1"]["mean"] == expected.macro_f1
    assert mean["illegal_tags"]["count"]["mean"] == expected.repaired


def test_averages_take_a_missing_number_as_zero_and_leave_out_a_share_of_nothing():
    assert average_records([{"a": 1}, {"a": 3, "b": {"c": 4}}]) == {
        "a": {"mean": 2.0, "deviation": pytest.approx(2**0.5)},
        "b": {"c": {"mean": 2.0, "deviation": pytest.approx(8**0.5)}},
    }
    records = [{"accuracy": 100.0}, {"accuracy": None}]
    assert average_records(records)["accuracy"] == {"mean": 100.0, "deviation": None}
    assert average_records(records[1:])["accuracy"] == {"mean": None, "deviation": None}
    nothing = ["O O O O O O O", "O O O O", "O O O", "O O B-song O O"]
    typing = analyse(FIRST, nothing)["model"].record["mean"]["typing"]["per_type"]
    alone = analyse(FIRST, labels=("model",))["model"].record["mean"]["typing"]["per_type"]
    assert typing["person"]["accuracy"] == alone["person"]["accuracy"], "a missed entity has no predicted type"


def test_seeds_that_invent_different_types_are_analysed_together():
    """The cell of one seed's own type and another's is in no seed's table, but in that of both."""
    found = analyse([*FIRST[:2], "O O B-tool", FIRST[3]], [*FIRST[:2], "O O B-ship", FIRST[3]])
    confusion = found["model"].record["mean"]["confusion"]
    assert confusion["tool"]["ship"]["mean"] == confusion["ship"]["tool"]["mean"] == 0
    assert confusion["O"]["tool"]["mean"] == confusion["O"]["ship"]["mean"] == 0.5
    assert all(row.keys() == confusion.keys() for row in confusion.values())


def test_frequent_errors_are_of_the_shown_seed_and_grouped():
    record = analyse(FIRST, SECOND)["model"].record
    assert record["shown_seed"] == "2"
    assert [error["kind"] for error in record["frequent_errors"]] == ["boundary_right", "missed", "type"]
    first = record["frequent_errors"][0]
    assert first["gold"] == {"text": "Anna Smith", "type": "politician"} and first["predicted"]["text"] == "Anna"
    assert first["context"] == "Anna Smith met Bob in Paris ." and first["sentence"] == 1
    alone = analyse(FIRST, labels=("model",))["model"].record["frequent_errors"]
    assert alone[0] == {
        "kind": "missed",
        "count": 2,
        "gold": {"text": "Paris", "type": "place"},
        "predicted": None,
        "sentence": 1,
        "context": "Anna Smith met Bob in Paris .",
    }
    assert [error["predicted"]["text"] for error in alone if error["kind"] == "spurious"] == ["."]


def test_illegal_tags_are_counted_by_what_stands_before_them():
    broken = [["I-person", "B-person", "I-place", "O"], ["O"]]
    assert count_illegal_tags(broken, "bio") == {
        "count": 2,
        "sequences": {"(start) I-person": 1, "B-person I-place": 1},
    }
    ends = [tags.split() for tags in ("B-person O", "O B-place", "O E-song")]
    sequences = {"B-person O": 1, "B-place (end)": 1, "O E-song": 1}
    assert count_illegal_tags(ends, "bioes")["sequences"] == sequences
