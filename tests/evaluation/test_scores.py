"""Scores against an independent port of the CoNLL script, measured cases and properties."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from builders.scores import conlleval_chunks
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.data.tags import Span, to_spans, to_tags
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import Scores, score, whole_entities

TYPES = ["person", "Multi-tissue_structure", "a-b-c", "x-"]


def strict_chunks(tags: Sequence[str], *, bioes: bool) -> set[tuple[str, int, int]]:
    """Whole entities only: B I* in BIO; B I* E or S in BIOES. What follows an entity need not be legal."""
    chunks = set()
    for start, tag in enumerate(tags):
        prefix, _, entity_type = tag.partition("-")
        if prefix == "S" and bioes:
            chunks.add((entity_type, start, start + 1))
        if prefix != "B":
            continue
        end = start + 1
        while end < len(tags) and tags[end] == f"I-{entity_type}":
            end += 1
        if not bioes:
            chunks.add((entity_type, start, end))
        elif end < len(tags) and tags[end] == f"E-{entity_type}":
            chunks.add((entity_type, start, end + 1))
    return chunks


def f1_of(gold: list[list[str]], predicted: list[list[str]], read) -> tuple[float, float, float]:
    """Micro precision, recall and F1 in percent by sets."""
    golds = {(number, *chunk) for number, tags in enumerate(gold) for chunk in read(tags)}
    others = {(number, *chunk) for number, tags in enumerate(predicted) for chunk in read(tags)}
    correct = len(golds & others)
    precision = 100 * correct / len(others) if others else 0.0
    recall = 100 * correct / len(golds) if golds else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def random_pair(seed: int, prefixes: str) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences of random tags, mostly illegal ones among them, and a second tagging that agrees in part."""
    generator = random.Random(seed)
    types = generator.sample(TYPES, generator.randint(1, 3))

    def tag() -> str:
        return "O" if generator.random() < 0.4 else f"{generator.choice(prefixes)}-{generator.choice(types)}"

    gold = [[tag() for _ in range(generator.randint(1, 9))] for _ in range(generator.randint(1, 5))]
    return gold, [[old if generator.random() < 0.7 else tag() for old in tags] for tags in gold]


@pytest.mark.parametrize("prefixes", ["BI", "BIES"])
def test_conll_mode_equals_the_conll_script_on_random_and_illegal_tags(prefixes):
    for seed in range(1000):
        gold, predicted = random_pair(seed, prefixes)
        found = score(gold, predicted, mode="conll")
        assert (found.precision, found.recall, found.f1) == pytest.approx(f1_of(gold, predicted, conlleval_chunks))


@pytest.mark.parametrize(("prefixes", "scheme"), [("BI", "bio"), ("BIES", "bioes")])
def test_strict_mode_counts_whole_entities_only(prefixes, scheme):
    for seed in range(1000):
        gold, predicted = random_pair(seed, prefixes)
        found = score(gold, predicted, mode="strict", scheme=scheme)
        expected = f1_of(gold, predicted, lambda tags: strict_chunks(tags, bioes=scheme == "bioes"))
        assert (found.precision, found.recall, found.f1) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gold", "predicted", "conll", "strict"),
    [
        ("O B-x I-x", "O I-x I-x", 100, 0),
        ("B-PER I-PER", "B-PER I-LOC", 0, 0),
        ("B-x I-x", "B-x B-x", 0, 0),
        ("B-x B-x", "B-x I-x", 0, 0),
        ("O B-x | B-x O", "O B-x | I-x O", 100, 200 / 3),
        ("B-x O O", "B-x O I-x", 200 / 3, 100),
        ("B-x I-x I-x", "B-x I-x O", 0, 0),
        ("B-PER", "B-LOC", 0, 0),
        ("B-x E-x", "B-x I-x", 100, 0),
    ],
)
def test_measured_cases_score_as_the_usual_tools_do(gold, predicted, conll, strict):
    sides = [[part.split() for part in text.split("|")] for text in (gold, predicted)]
    assert score(*sides, mode="conll").f1 == pytest.approx(conll)
    assert score(*sides, mode="strict").f1 == pytest.approx(strict)


def tagged(prefixes: str = "BI") -> st.SearchStrategy[list[list[str]]]:
    """Sentences of any tags over the types."""
    tag = st.one_of(st.just("O"), st.builds(lambda p, t: f"{p}-{t}", st.sampled_from(prefixes), st.sampled_from(TYPES)))
    return st.lists(st.lists(tag, min_size=1, max_size=7), max_size=6)


@st.composite
def pairs(draw) -> tuple[list[list[str]], list[list[str]]]:
    """Gold tags, and predicted ones of the same lengths."""
    gold = draw(tagged())
    tag = st.one_of(st.just("O"), st.builds(lambda p, t: f"{p}-{t}", st.sampled_from("BI"), st.sampled_from(TYPES)))
    return gold, [draw(st.lists(tag, min_size=len(tags), max_size=len(tags))) for tags in gold]


def micro(found: Scores) -> tuple[float, float, float]:
    return found.precision, found.recall, found.f1


@settings(deadline=None, derandomize=True, max_examples=60)
@given(pairs(), st.sampled_from(["conll", "strict"]))
def test_renaming_types_and_reordering_sentences_change_no_score(pair, mode):
    gold, predicted = pair
    names = dict(zip(TYPES, ["micro avg", "_", "zzz--", "B-person"], strict=True))

    def rename(side: list[list[str]]) -> list[list[str]]:
        return [[tag if tag == "O" else f"{tag[0]}-{names[tag[2:]]}" for tag in tags] for tags in side]

    plain = score(gold, predicted, mode=mode)
    renamed = score(rename(gold), rename(predicted), mode=mode)
    assert micro(renamed) == pytest.approx(micro(plain))
    assert {names[name]: row for name, row in plain.per_type.items()} == renamed.per_type
    assert score(gold[::-1], predicted[::-1], mode=mode) == plain


@settings(deadline=None, derandomize=True, max_examples=60)
@given(pairs(), st.sampled_from(["conll", "strict"]))
def test_counts_of_types_add_up_to_the_scores(pair, mode):
    found = score(*pair, mode=mode)
    rows = found.per_type.values()
    correct, predicted = sum(row.correct for row in rows), sum(row.predicted for row in rows)
    assert found.precision == pytest.approx(100 * correct / predicted if predicted else 0)
    assert found.recall == pytest.approx(100 * correct / found.support if found.support else 0)
    assert found.macro_f1 == pytest.approx(sum(row.f1 for row in rows) / len(rows) if rows else 0)
    assert list(found.per_type) == sorted(found.per_type)
    for row in rows:
        assert row.precision == pytest.approx(100 * row.correct / row.predicted if row.predicted else 0)
        assert row.recall == pytest.approx(100 * row.correct / row.support if row.support else 0)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(tagged(), st.sampled_from(["bio", "bioes"]))
def test_modes_agree_on_legal_tags_and_gold_scores_hundred(sentences, scheme):
    legal = [to_tags(to_spans(tags), len(tags), scheme) for tags in sentences]
    conll, strict = (score(legal, legal, mode=mode, scheme=scheme) for mode in ("conll", "strict"))
    assert micro(conll) == micro(strict)
    assert conll.f1 == (100 if any(to_spans(tags) for tags in legal) else 0)
    assert conll.repaired == conll.illegal_in_gold == 0


def test_entities_do_not_join_across_sentences():
    gold, predicted = [["B-A"], ["O"]], [["B-A"], ["I-A"]]
    assert score(gold, predicted).f1 == pytest.approx(200 / 3)
    assert score([gold[0] + gold[1]], [predicted[0] + predicted[1]]).f1 == 0


def test_types_with_hyphens_stay_apart():
    gold = [["B-Multi-tissue_structure", "I-Multi-tissue_structure", "O", "B-x-", "B-x"]]
    for mode in ("conll", "strict"):
        found = score(gold, gold, mode=mode)
        assert set(found.per_type) == {"Multi-tissue_structure", "x-", "x"}
        assert found.per_type["x-"].support == found.per_type["x"].support == 1
        assert score([["B-artist"]], [["B-musicalartist"]], mode=mode).f1 == 0


def test_bilou_and_bmes_prefixes_count_as_bioes():
    gold, predicted = [["B-a", "I-a", "L-a", "U-b"]], [["B-a", "M-a", "E-a", "S-b"]]
    assert score(gold, predicted, mode="strict").f1 == score(gold, predicted).f1 == 100


@pytest.mark.parametrize("sentences", [[], [[]], [["O"]], [["O", "O"], ["O"]]])
def test_without_entities_every_score_is_zero_and_nothing_warns(sentences, recwarn):
    for mode in ("conll", "strict"):
        found = score(sentences, sentences, mode=mode)
        assert (found.f1, found.macro_f1, found.per_type, found.support) == (0, 0, {}, 0)
        assert found.sentences == len(sentences)
    assert score([["O"]], [["B-a"]]).f1 == score([["B-a"]], [["O"]]).f1 == 0
    assert not recwarn.list


def test_tags_that_cannot_follow_are_counted_on_both_sides():
    found = score([["I-a", "O", "I-b"]], [["B-a", "I-b", "B-b"]])
    assert (found.illegal_in_gold, found.repaired) == (2, 1)
    assert "opens an entity" in found.to_json()["repair"]
    assert score([["B-a"]], [["B-a"]], mode="strict", scheme="bioes").repaired == 1


def test_differing_sentences_are_refused_with_their_number():
    with pytest.raises(CrossNERError, match="2 gold sentences and 1 predicted"):
        score([["O"], ["O"]], [["O"]])
    with pytest.raises(CrossNERError, match="Sentence 2 has 2 gold tags and 1 predicted"):
        score([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(CrossNERError, match=r"Sentence 1 holds 'person', which is no tag"):
        score([["O"]], [["person"]])


def test_scores_as_json_tell_tool_and_rules():
    record = score([["B-a"]], [["B-a"]]).to_json()
    assert record["tool"].startswith("seqeval ") and record["zero_division"] == 0 and record["mode"] == "conll"
    assert record["per_type"]["a"] == {
        "precision": 100.0, "recall": 100.0, "f1": 100.0, "support": 1, "predicted": 1, "correct": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tags", "scheme", "spans"),
    [
        ("B-a I-a I-b", "bio", [Span(0, 2, "a")]),
        ("O I-a B-b", "bio", [Span(2, 3, "b")]),
        ("B-a I-a S-b-c", "bioes", [Span(2, 3, "b-c")]),
    ],
)
def test_whole_entities_are_what_strict_mode_keeps(tags, scheme, spans):
    assert to_spans(whole_entities(tags.split(), scheme)) == spans
