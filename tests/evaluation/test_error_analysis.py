"""Entities in columns, their scores and errors: against seqeval, the CoNLL script, nervaluate and plain loops."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from builders.scores import conlleval_chunks
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, IOBES, Entities

from crossner_cli.data.tags import Span, illegal_positions, to_spans, to_tags, types_of
from crossner_cli.evaluation.error_analysis import KINDS, ErrorAnalysis, analyse_errors, confusion_name
from crossner_cli.evaluation.scores import score
from crossner_cli.evaluation.span_scores import score_detection, score_spans, score_typing
from crossner_cli.evaluation.spans import Layout, Spans, has_ends, read_tags

TYPES = ["person", "place", "tool"]
PAIRS = 10_000
Sentences = list[list[str]]
Chunk = tuple[int, int, int, str]


def random_sentences(prefixes: str, count: int = PAIRS, seed: int = 5) -> tuple[Sentences, Sentences]:
    """Pairs of taggings that agree in part; most of them break the scheme somewhere."""
    generator = random.Random(seed)
    tags = ["O"] * (3 * len(prefixes)) + [f"{prefix}-{name}" for prefix in prefixes for name in TYPES]
    gold = [generator.choices(tags, k=generator.randint(1, 6)) for _ in range(count)]
    return gold, [[old if generator.random() < 0.7 else generator.choice(tags) for old in side] for side in gold]


def chunks_of(sentences: Sentences, mode, scheme) -> set[Chunk]:
    """What is found in columns, as sentence, first word, end and type."""
    layout = Layout.of(sentences)
    spans = read_tags(sentences, TYPES, layout).spans(mode, scheme)
    numbers = layout.sentence_of(spans.start)
    starts, ends = spans.start - layout.first[numbers], spans.end - layout.first[numbers]
    return {
        (int(number), int(start), int(end), TYPES[kind])
        for number, start, end, kind in zip(numbers, starts, ends, spans.type, strict=True)
    }


def analyse(gold: Sentences, predicted: Sentences, mode="conll", scheme="bio") -> ErrorAnalysis:
    layout = Layout.of(gold)
    return analyse_errors(*(read_tags(side, TYPES, layout).spans(mode, scheme) for side in (gold, predicted)))


@pytest.mark.parametrize("prefixes", ["BI", "BIES"])
def test_entities_are_those_of_the_conll_script_and_of_seqeval_by_default(prefixes):
    for side in random_sentences(prefixes):
        found = chunks_of(side, "conll", "bio")
        assert found == {
            (number, start, end, name)
            for number, tags in enumerate(side) for name, start, end in conlleval_chunks(tags)
        }  # fmt: skip
        assert found == {
            (number, start, end + 1, name)
            for number, tags in enumerate(side) for name, start, end in get_entities(tags)
        }  # fmt: skip
        assert found == {(number, *span) for number, tags in enumerate(side) for span in to_spans(tags)}


@pytest.mark.parametrize(("prefixes", "scheme", "theirs"), [("BI", "bio", IOB2), ("BIES", "bioes", IOBES)])
def test_strict_entities_are_those_of_seqeval(prefixes, scheme, theirs):
    for side in random_sentences(prefixes):
        expected = {
            (entity.sent_id, entity.start, entity.end, entity.tag)
            for entities in Entities(side, theirs).entities for entity in entities
        }  # fmt: skip
        assert chunks_of(side, "strict", scheme) == expected


@pytest.mark.parametrize("mode", ["conll", "strict"])
@pytest.mark.parametrize(("prefixes", "scheme"), [("BI", "bio"), ("BIES", "bioes")])
def test_scores_of_random_pairs_equal_those_of_seqeval(prefixes, scheme, mode):
    gold, predicted = random_sentences(prefixes, PAIRS if (mode, scheme) == ("conll", "bio") else PAIRS // 5)
    found = score_spans(analyse(gold, predicted, mode, scheme), TYPES)
    expected = score(gold, predicted, mode=mode, scheme=scheme)
    assert found["micro"] == pytest.approx(
        {"precision": expected.precision, "recall": expected.recall, "f1": expected.f1}
    )
    assert found["macro"]["f1"] == pytest.approx(expected.macro_f1)
    for name, row in expected.per_type.items():
        assert found["per_type"][name] == pytest.approx(vars(row))


@pytest.mark.parametrize(("prefixes", "scheme"), [("BI", "bio"), ("BIES", "bioes")])
def test_scores_of_single_sentences_equal_those_of_seqeval(prefixes, scheme):
    gold, predicted = random_sentences(prefixes, 100, seed=8)
    for pair in zip(gold, predicted, strict=True):
        for mode in ("conll", "strict"):
            sides = [[side] for side in pair]
            expected = score(*sides, mode=mode, scheme=scheme)
            found = score_spans(analyse(*sides, mode, scheme), TYPES)
            assert found["micro"]["f1"] == pytest.approx(expected.f1)
            assert {name: row["f1"] for name, row in found["per_type"].items()} == pytest.approx(
                {name: row.f1 for name, row in expected.per_type.items()}
            )


@pytest.mark.parametrize("scheme", ["bio", "bioes", "iob1"])
def test_illegal_places_are_those_found_sentence_by_sentence(scheme):
    for side in random_sentences("BIES" if scheme == "bioes" else "BI", 1000):
        layout = Layout.of(side)
        places = read_tags(side, TYPES, layout).illegal(scheme)
        numbers = layout.sentence_of(places)
        expected = [(number, at) for number, tags in enumerate(side) for at in illegal_positions(tags, scheme)]
        assert list(zip(numbers.tolist(), (places - layout.first[numbers]).tolist(), strict=True)) == expected


def test_nervaluate_counts_the_same_where_the_notions_coincide():
    nervaluate = pytest.importorskip("nervaluate")
    gold, predicted = random_sentences("BI", 1500)
    # Its list loader reads tags in its own way: it gets the entities themselves.
    sides = [
        [[{"label": span.type, "start": span.start, "end": span.end - 1} for span in to_spans(tags)] for tags in side]
        for side in (gold, predicted)
    ]
    theirs = nervaluate.Evaluator(*sides, tags=TYPES, loader="dict").evaluate()["overall"]
    analysis = analyse(gold, predicted)
    ours = score_spans(analysis, TYPES)
    for notion, found in (("strict", {**ours, **ours["micro"]}), ("exact", score_detection(analysis))):
        assert theirs[notion].correct == found["correct"]
        assert (theirs[notion].possible, theirs[notion].actual) == (found["support"], found["predicted"])
        assert 100 * theirs[notion].f1 == pytest.approx(found["f1"])


def test_kinds_are_those_of_nervaluate_where_at_most_one_entity_meets_another():
    nervaluate = pytest.importorskip("nervaluate")
    generator = random.Random(3)

    def one_entity() -> Sentences:
        start = generator.randrange(5)
        span = Span(start, generator.randint(start + 1, 6), generator.choice(TYPES))
        return [to_tags([span] if generator.random() < 0.8 else [], 6)]

    for _ in range(300):
        gold, predicted = one_entity(), one_entity()
        counts = analyse(gold, predicted).counts(TYPES)["all"]
        overall = nervaluate.Evaluator(gold, predicted, tags=TYPES, loader="list").evaluate()["overall"]
        boundary = sum(counts[kind] for kind in ("boundary_left", "boundary_right", "boundary_both"))
        assert overall["strict"].missed == counts["missed"] and overall["strict"].spurious == counts["spurious"]
        assert overall["partial"].partial == boundary + counts["boundary_and_type"]
        assert overall["ent_type"].incorrect == counts["type"] + counts["boundary_and_type"]


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
]  # fmt: skip


@pytest.mark.parametrize(("gold", "predicted", "gold_kinds", "predicted_kinds"), CASES)
def test_errors_are_sorted_as_described(gold, predicted, gold_kinds, predicted_kinds):
    found = analyse([gold.split()], [predicted.split()])
    assert [KINDS[kind] for kind in found.gold_kind] == gold_kinds
    assert [KINDS[kind] for kind in found.predicted_kind] == predicted_kinds


def pair_by_hand(gold: list[Span], predicted: list[Span]) -> dict[int, int]:
    """Greedy pairing of one sentence in plain loops: same words first, then as described."""
    candidates = []
    for ours, one in enumerate(gold):
        for theirs, other in enumerate(predicted):
            overlap = min(one.end, other.end) - max(one.start, other.start)
            if overlap > 0:
                exact = (one.start, one.end) == (other.start, other.end)
                candidates.append((not exact, one.type != other.type, -overlap, ours, theirs))
    pairs: dict[int, int] = {}
    for *_, ours, theirs in sorted(candidates):
        if ours not in pairs and theirs not in pairs.values():
            pairs[ours] = theirs
    return pairs


def test_pairs_are_those_of_plain_loops():
    gold, predicted = random_sentences("BI", 2000, seed=9)
    found = analyse(gold, predicted)
    offset = [0, 0]
    for tags, others in zip(gold, predicted, strict=True):
        sides = to_spans(tags), to_spans(others)
        expected = pair_by_hand(*sides)
        for number in range(len(sides[0])):
            partner = int(found.gold_partner[offset[0] + number])
            assert partner == (offset[1] + expected[number] if number in expected else -1)
        offset = [offset[0] + len(sides[0]), offset[1] + len(sides[1])]


def tagging(length: int) -> st.SearchStrategy[list[str]]:
    return st.lists(
        st.sampled_from(["O", *(f"{prefix}-{name}" for prefix in "BI" for name in TYPES)]),
        min_size=length, max_size=length,
    )  # fmt: skip


pairs = st.lists(st.integers(1, 7).flatmap(lambda length: st.tuples(tagging(length), tagging(length))), max_size=6)


@given(pairs, st.sampled_from(["conll", "strict"]))
def test_every_entity_is_in_exactly_one_kind_and_every_table_adds_up(found, mode):
    gold, predicted = [list(one) for one, _ in found], [list(other) for _, other in found]
    analysis = analyse(gold, predicted, mode)
    counts, scores, confusion = analysis.counts(TYPES), score_spans(analysis, TYPES), analysis.confusion(TYPES)
    for number, name in enumerate(TYPES):
        support, given_type = (int((side.type == number).sum()) for side in (analysis.gold, analysis.predicted))
        assert sum(counts["gold_by_type"][name].values()) == support == sum(confusion[name].values())
        assert sum(counts["predicted_by_type"][name].values()) == given_type
        assert given_type == sum(row[name] for row in confusion.values())
    assert confusion["O"]["O"] == 0
    assert counts["all"]["correct"] == scores["correct"]
    paired = sum(counts["all"].values()) - counts["all"]["missed"] - counts["all"]["spurious"]
    assert paired + counts["all"]["missed"] == len(analysis.gold)
    assert paired + counts["all"]["spurious"] == len(analysis.predicted)
    is_paired = analysis.gold_partner >= 0
    assert (analysis.predicted_partner[analysis.gold_partner[is_paired]] == np.flatnonzero(is_paired)).all()


@given(pairs)
def test_swapping_gold_and_predicted_swaps_missed_and_spurious(found):
    gold, predicted = [list(one) for one, _ in found], [list(other) for _, other in found]
    one, other = score_detection(analyse(gold, predicted)), score_detection(analyse(predicted, gold))
    assert (one["f1"], one["precision"]) == pytest.approx((other["f1"], other["recall"]))
    names = {"missed": "spurious", "spurious": "missed"}
    here, there = (Counter(analyse(*sides).counts(TYPES)["all"]) for sides in ((gold, predicted), (predicted, gold)))
    assert {kind: here[kind] for kind in ("correct", "type")} == {kind: there[kind] for kind in ("correct", "type")}
    assert here["missed"] - here["spurious"] == there[names["missed"]] - there[names["spurious"]]


def test_typing_is_counted_on_right_spans_only():
    analysis = analyse([["B-person", "B-place", "B-tool", "O"]], [["B-person", "B-tool", "O", "B-tool"]])
    found = score_typing(analysis, TYPES)
    assert (found["accuracy"], found["right_spans"], found["right_types"]) == (50.0, 2, 1)
    assert found["per_type"]["place"]["accuracy"] == 0 and "tool" not in found["per_type"]
    assert score_detection(analysis)["correct"] == 2
    assert score_spans(analysis, TYPES)["weighted"]["recall"] == pytest.approx(100 / 3)


def test_nothing_at_all_scores_zero():
    for sentences in ([], [[]], [["O"]]):
        analysis = analyse(sentences, sentences)
        assert score_spans(analysis, TYPES)["micro"]["f1"] == 0 and score_spans(analysis, TYPES)["per_type"] == {}
        assert score_typing(analysis, TYPES)["accuracy"] is None, "a share of nothing is no number"
        assert isinstance(analysis.gold, Spans) and len(analysis.gold) == 0


def test_types_and_the_scheme_are_read_from_tags():
    sides = [["B-Multi-tissue_structure", "O"], ["S-b"]], [["L-a"]]
    assert types_of(*sides) == ("Multi-tissue_structure", "a", "b")
    assert has_ends(read_tags(sides[0], types_of(*sides))) and not has_ends(read_tags([["B-a"]], ["a"]))
    with pytest.raises(ValueError, match="person"):
        types_of([["person"]])


def test_a_type_that_is_called_o_is_not_taken_for_what_is_no_entity():
    gold, predicted = [["B-O", "B-O", "O", "B-tool"]], [["B-tool", "O", "B-O", "B-O"]]
    layout, types = Layout.of(gold), types_of(gold, predicted)
    analysis = analyse_errors(*(read_tags(side, types, layout).spans("conll", "bio") for side in (gold, predicted)))
    assert analysis.confusion(types) == {
        confusion_name("O"): {"B-O": 0, "tool": 1, "O": 1},
        "tool": {"B-O": 1, "tool": 0, "O": 0},
        "O": {"B-O": 1, "tool": 0, "O": 0},
    }
