"""Buckets of entities against plain loops over sentences, and surface forms against a search word by word."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.statistics import STOP_WORDS
from crossner_cli.data.tags import to_spans, types_of
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.buckets import percent_ranges, word_ranges
from crossner_cli.evaluation.error_analysis import analyse_errors
from crossner_cli.evaluation.raw_mentions import mentions_in_raw_text
from crossner_cli.evaluation.spans import read_tags
from crossner_cli.evaluation.surface_forms import SurfaceForms
from crossner_cli.evaluation.surroundings import REASONS, Surroundings, Text, prepare_sorting
from crossner_cli.evaluation.type_parents import (
    DEFAULT_PARENTS,
    ancestors,
    hierarchy_confusions,
    read_parents,
    relation,
)
from crossner_cli.run.progress import Progress, exhaust

WORDS = ["a", "b", "c", "The", "of", ",", "d"]
TYPES = ["person", "place", "tool"]


@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), max_size=5), st.data())
def test_forms_are_numbered_and_found_wherever_they_stand(sentences, data):
    text = np.array([number for words in sentences for number in (*words, 0)], np.int64)
    places = []
    first = 0
    for words in sentences:
        for _ in range(data.draw(st.integers(0, 3))):
            start = data.draw(st.integers(0, len(words) - 1))
            places.append((first + start, first + data.draw(st.integers(start + 1, len(words)))))
        first += len(words) + 1
    start, end = (np.array([place[side] for place in places], np.int64) for side in (0, 1))
    forms, numbers = SurfaceForms.build(text, start, end)
    words_at = [tuple(text[begin:finish].tolist()) for begin, finish in places]
    assert forms.count == len(set(words_at)) == len(set(numbers.tolist()))
    assert len(set(zip(words_at, numbers.tolist(), strict=True))) == forms.count
    other = np.array([1, 2, 9, 1, 0, *text.tolist(), 3], np.int64)  # 9 is in no form
    found = {
        (int(place), length, int(number))
        for at, which, length in forms.find(other) for place, number in zip(at, which, strict=True)
    }  # fmt: skip
    expected = {
        (place, len(form), number)
        for form, number in zip(words_at, numbers.tolist(), strict=True)
        for place in range(len(other)) if tuple(other[place : place + len(form)].tolist()) == form
    }  # fmt: skip
    assert found == expected


def random_sentences(generator: random.Random, count: int) -> list[Sentence]:
    tags = ["O"] * 6 + [f"{prefix}-{name}" for prefix in "BI" for name in TYPES]
    found = []
    for _ in range(count):
        length = generator.randint(1, 14)
        words = tuple(generator.choice(WORDS) for _ in range(length))
        found.append(Sentence(words, tuple(generator.choices(tags, k=length))))
    return found


def is_content(word: str) -> bool:
    return any(map(str.isalnum, word)) and word.lower() not in STOP_WORDS


def seen_by_hand(surface, entity_type, train) -> str:
    mentions = [(tuple(each.words[span.start : span.end]), span.type) for each in train for span in to_spans(each.tags)]
    if (surface, entity_type) in mentions:
        return "seen, this type"
    if surface in [words for words, _ in mentions]:
        return "seen, other type"
    known = {word for words, _ in mentions for word in words}
    return "partly seen" if any(word in known and is_content(word) for word in surface) else "unseen"


def readings_by_hand(surface, train) -> str:
    readings = set()
    for sentence in train:
        spans = to_spans(sentence.tags)
        readings |= {span.type for span in spans if sentence.words[span.start : span.end] == surface}
        for start in range(len(sentence.words) - len(surface) + 1):
            end = start + len(surface)
            if sentence.words[start:end] == surface and set(sentence.tags[start:end]) == {"O"}:
                readings.add("O")
    return ("not in train", "1 reading", "2 readings", "3+ readings")[min(3, len(readings))]


def raw_by_hand(surface, lines) -> str:
    if any(tuple(line[at : at + len(surface)]) == surface for line in lines for at in range(len(line))):
        return "seen"
    known = {word for line in lines for word in line}
    return "partly seen" if any(word in known and is_content(word) for word in surface) else "unseen"


def by_hand(sentence: Sentence, start: int, end: int, entity_type: str, around: dict) -> dict[str, str]:
    """The bucket of an entity in every bucketing, by plain look-ups."""
    surface, length = sentence.words[start:end], len(sentence.words)
    inside = sum(span.end - span.start for span in to_spans(sentence.tags))
    share = next((at for at, high in enumerate((0, 0.1, 0.2, 0.3)) if inside / length <= high), 4)
    size, limit = end - start, next(at for at, high in enumerate((10, 20, 30, 50, 10**9)) if length <= high)
    return {
        "mention length": ("1 word", "2 words", "3 words", "4 words", "5+ words")[min(size, 5) - 1],
        "sentence length": word_ranges((10, 20, 30, 50))[limit],
        "entity density": ("0 %", "0-10 %", "10-20 %", "20-30 %", "over 30 %")[share],
        "seen in target train": seen_by_hand(surface, entity_type, around["train"]),
        "seen in source train": seen_by_hand(surface, entity_type, around["source"]),
        "seen in raw text": raw_by_hand(surface, around["lines"]),
        "type and source": "shared" if entity_type == "person" else "target only",
        "readings in train": readings_by_hand(surface, around["train"]),
    }


@pytest.mark.parametrize("seed", range(6))
def test_every_bucket_equals_plain_loops(seed, tmp_path):
    generator = random.Random(seed)
    sentences, train, source = (random_sentences(generator, count) for count in (25, 8, 5))
    predicted = [
        tuple(tag if generator.random() < 0.7 else "O" for tag in sentence.tags) for sentence in sentences
    ]  # fmt: skip
    lines = [[generator.choice(WORDS) for _ in range(generator.randint(1, 9))] for _ in range(6)]
    raw = tmp_path / "raw.txt"
    raw.write_text("\n".join(" ".join(line) for line in lines))
    surroundings = Surroundings(train, source, raw, ("person", "song"))
    gold_tags = [sentence.tags for sentence in sentences]
    text = Text.of(sentences, surroundings)
    types = types_of(gold_tags, predicted, *([each.tags for each in side] for side in (train, source)))
    sides = [read_tags(tags, types, text.layout).spans("conll", "bio") for tags in (gold_tags, predicted)]
    sorting, forms = exhaust(prepare_sorting(text, types, sides, surroundings))
    found = sorting.buckets(analyse_errors(*sides), *forms)
    counts: dict[str, Counter] = defaultdict(Counter)
    for sentence, tags in zip(sentences, predicted, strict=True):
        gold, given_spans = set(to_spans(sentence.tags)), set(to_spans(tags))
        for name, spans in (("n", gold), ("predicted", given_spans), ("correct", gold & given_spans)):
            for span in spans:
                around = {"train": train, "source": source, "lines": lines}
                for bucketing, bucket in by_hand(sentence, *span, around).items():
                    counts[bucketing][bucket, name] += 1
    assert set(found) == set(REASONS) | {"mention length", "sentence length", "entity density"}
    for bucketing, parts in found.items():
        for bucket, scores in parts.items():
            assert {name: scores[name] for name in ("n", "predicted", "correct")} == {
                name: counts[bucketing][bucket, name] for name in ("n", "predicted", "correct")
            }, (bucketing, bucket)
        assert sum(scores["n"] for scores in parts.values()) == len(sides[0])


def test_what_a_run_does_not_have_makes_no_bucket():
    sentences = [Sentence(("a", "b"), ("B-person", "O"))]
    text = Text.of(sentences, Surroundings())
    spans = read_tags([sentences[0].tags], ["person"], text.layout).spans("conll", "bio")
    sorting, forms = exhaust(prepare_sorting(text, ["person"], [spans, spans], Surroundings()))
    assert set(sorting.buckets(analyse_errors(spans, spans), *forms)) == {
        "mention length", "sentence length", "entity density",
    }  # fmt: skip


def test_raw_text_is_cut_as_mentions_are_and_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("crossner_cli.evaluation.raw_mentions.WORDS_AT_ONCE", 5)
    raw = tmp_path / "raw.txt"
    raw.write_text('We met (Anna Smith) in Paris.\n\nNobody knows "the U.S. Navy", he said.\nAnna\nSmith Jones\n')
    vocabulary = ["Anna", "Smith", "the", "U.S.", "Navy", "Smith,", "Jones", "Paris."]
    text = np.array([1, 2, 0, 3, 4, 5, 0, 6, 0, 2, 1, 0, 3, 0, 8, 0, 3, 7], np.int64)
    mentions = [(0, 2), (3, 6), (7, 8), (9, 11), (12, 13), (14, 15), (16, 18)]
    start, end = (np.array([mention[side] for mention in mentions]) for side in (0, 1))
    work = mentions_in_raw_text(raw, vocabulary, text, start, end)
    told = []
    while True:
        try:
            told.append(next(work))
        except StopIteration as stop:
            seen, partly = stop.value
            break
    assert seen.tolist() == [True, True, False, False, True, True, False]
    assert partly.tolist() == [True, True, True, True, False, True, True]
    assert len(told) > 2 and isinstance(told[-1], Progress) and told[-1].done == raw.stat().st_size


def test_names_of_ranges_read_well():
    assert word_ranges((1, 2, 4)) == ("1 word", "2 words", "3-4 words", "5+ words")
    assert percent_ranges((0.0, 0.1, 0.3)) == ("0 %", "0-10 %", "10-30 %", "over 30 %")


def test_parents_are_the_table_changed_by_the_option():
    types = {"politician", "person", "band", "song", "misc"}
    assert read_parents(None, types) == {"politician": "person", "band": "organisation"}
    given = read_parents("song=misc,band=none, politician=official", types)
    assert given == {"politician": "official", "song": "misc"}
    assert all(parent in ("person", "organisation", "location") for parent in DEFAULT_PARENTS.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("song", "not of the form child=parent"),
        ("", "not of the form"),
        ("song=a=b", "not of the form"),
        ("song=misc,song=person", "twice"),
        ("sing=misc", "'sing' is none of the entity types"),
        ("song=misc,misc=song", "goes in a circle"),
        ("song=song", "goes in a circle"),
    ],
)
def test_parents_that_cannot_be_read_are_refused(text, message):
    with pytest.raises(CrossNERError, match=message):
        read_parents(text, {"song", "misc"})


def test_confusions_within_the_hierarchy_are_told_from_others():
    parents = {"politician": "person", "writer": "person", "mp": "politician"}
    assert ancestors("mp", parents) == ["politician", "person"]
    assert relation("mp", "person", parents) == "too_general" and relation("person", "mp", parents) == "too_specific"
    assert relation("writer", "politician", parents) == "sibling" and relation("writer", "song", parents) is None
    confusion = {
        "politician": {"politician": 9, "person": 3, "writer": 2, "song": 5, "O": 7},
        "person": {"politician": 1, "person": 4}, "O": {"person": 8},
    }  # fmt: skip
    found = hierarchy_confusions(confusion, parents)
    assert {name: found[name] for name in ("type_errors", "too_general", "too_specific", "sibling")} == {
        "type_errors": 11, "too_general": 3, "too_specific": 1, "sibling": 2,
    }  # fmt: skip
    assert found["percent"] == pytest.approx(600 / 11)
    assert found["pairs"]["politician -> person"] == {"kind": "too_general", "count": 3}
