"""Labelled JSONL: words with tags, and texts whose entities are ranges of characters."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data import jsonl as module
from crossner_cli.data.columns import EMPTY_SENTENCE
from crossner_cli.data.files import Repairs
from crossner_cli.data.jsonl import BLANK_ENTITY, OVERLAPPING_ENTITY, parse_jsonl, tag_text
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans
from crossner_cli.data.text import find_words
from crossner_cli.errors import CrossNERError

TEXT = "In Paris. Anna met Dr. Smith."
READ = [
    Sentence(("In", "Paris", "."), ("O", "B-location", "O")),
    Sentence(("Anna", "met", "Dr.", "Smith", "."), ("B-person", "O", "B-person", "I-person", "O")),
]
TOKENS = [{"text": word.text, "start": word.start, "end": word.end, "id": n} for n, word in enumerate(find_words(TEXT))]


def read(*records, **options):
    """Sentences of JSONL, and the repairs."""
    repairs = Repairs()
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    return [each.sentence for each in parse_jsonl(lines, "file", repairs, **options)], repairs


RANGES = [(3, 8, "location"), (10, 14, "person"), (19, 28, "person")]
OF_SPANS = [{"start": start, "end": end, "label": kind, "token_start": 1} for start, end, kind in RANGES]
EXPORTS = {
    "own": {"entities": [{"start": start, "end": end, "type": kind, "score": 0.9} for start, end, kind in RANGES]},
    "doccano": {"id": 7, "label": [list(each) for each in RANGES], "Comments": []},
    "doccano-labels": {"labels": [list(each) for each in reversed(RANGES)]},
    "doccano-relations": {
        "entities": [{"id": 1, "label": kind, "start_offset": start, "end_offset": end} for start, end, kind in RANGES],
        "relations": [],
    },
    "prodigy": {"spans": OF_SPANS, "tokens": TOKENS, "answer": "accept"},
    "label-studio": {
        "label": [
            {"start": start, "end": end, "text": TEXT[start:end], "labels": [kind]} for start, end, kind in RANGES
        ]
    },
}


@pytest.mark.parametrize("tool", EXPORTS)
def test_texts_are_read_as_the_tools_for_labelling_export_them(tool):
    found, repairs = read({"text": TEXT, **EXPORTS[tool]})
    assert found == READ
    assert not repairs.counts


def test_a_text_without_entities_has_none_and_words_with_tags_are_read_as_they_are():
    assert read({"text": "Yes .", "label": []})[0] == [Sentence(("Yes", "."), ("O", "O"))]
    both = {"text": "a-b", "words": ["a", "-", "b"], "tags": ["O", "O", "B-x"], "entities": [[0, 1, "y"]]}
    assert read(both)[0] == [Sentence(("a", "-", "b"), ("O", "O", "B-x"))]


@pytest.mark.parametrize(
    ("text", "entities", "tags", "kind"),
    [
        ("the Paris-based one", [[4, 9, "x"]], ["O", "B-x", "O"], module.WIDENED_ENTITY),
        ("in Paris now", [[3, 7, "x"]], ["O", "B-x", "O"], module.WIDENED_ENTITY),
        ("in Paris now", [[2, 9, "x"]], ["O", "B-x", "O"], None),
        ("New York City", [[0, 8, "x"], [0, 13, "y"]], ["B-y", "I-y", "I-y"], module.OVERLAPPING_ENTITY),
        ("New York City", [[0, 8, "x"], [4, 13, "y"]], ["B-x", "I-x", "O"], module.OVERLAPPING_ENTITY),
        ("New York City", [[0, 8, "x"], [9, 13, "y"]], ["B-x", "I-x", "B-y"], None),
        ("a  b", [[1, 3, "x"]], ["O", "O"], module.BLANK_ENTITY),
        ("He met J. Smith. Yes.", [[7, 20, "x"]], None, module.JOINED_SENTENCE),
        (" \n ", [], None, EMPTY_SENTENCE),
    ],
)
def test_what_is_widened_dropped_or_joined_is_counted(text, entities, tags, kind):
    found, repairs = read({"text": text, "label": entities})
    if tags is not None:
        assert [list(sentence.tags) for sentence in found] == [tags]
    assert repairs.to_json() == ({kind: {"count": 1, "first": ["file:1"]}} if kind else {})
    assert len(found) == (kind != EMPTY_SENTENCE)


def test_examples_that_were_refused_or_passed_over_are_dropped_and_counted():
    refused = [{"text": TEXT, "spans": [], "answer": answer} for answer in ("reject", "ignore")]
    found, repairs = read(*refused, {"text": "Yes .", "spans": []})
    assert len(found) == 1 and repairs.counts == {module.REFUSED_EXAMPLE: 2}


@pytest.mark.parametrize(
    ("entity", "problem"),
    [
        ([3, 80, "x"], "found the entity [3, 80, 'x'] in a text of 29 characters"),
        ([-3, 8, "x"], "found the entity [-3, 8, 'x'] in a text"),
        ([8, 8, "x"], "found the entity [8, 8, 'x'] in a text"),
        ([3, 8], "found the entity [3, 8]"),
        ([3.0, 8.0, "x"], "found the entity [3.0, 8.0, 'x']"),
        ([True, 8, "x"], "found the entity [True, 8, 'x']"),
        ([3, 8, None], "found the entity [3, 8, None]"),
        ("location", "found the entity 'location'"),
        ({"start": 3, "end": 8}, "found the entity {'start': 3, 'end': 8}"),
        ({"start": 3, "end": 8, "labels": ["x", "y"]}, "found the entity {"),
        ({"start": 4, "end": 9, "type": "x", "text": "Paris"}, "is 'aris.' in the text"),
        ([3, 8, ""], "found the type ''"),
        ([3, 8, "x\ny"], "found the type 'x\\ny'"),
        ([3, 8, " x"], "found the type ' x'"),
    ],
)
def test_an_entity_that_is_none_or_not_in_the_text_is_refused_with_its_place(entity, problem):
    with pytest.raises(CrossNERError) as caught:
        read({"text": "Yes.", "label": []}, {"text": TEXT, "label": [entity]})
    assert caught.value.problem.startswith("file:2: ") and problem in caught.value.problem
    assert caught.value.hint


@st.composite
def texts_with_entities(draw):
    text = draw(st.text("aB1. \n-'’é漢", max_size=40))
    ranges = st.tuples(st.integers(0, 39), st.integers(1, 12), st.sampled_from("xy"))
    return text, [
        (start, start + length, kind)
        for start, length, kind in draw(st.lists(ranges, max_size=6))
        if start + length <= len(text)
    ]


@given(texts_with_entities())
def test_every_word_of_a_text_is_in_a_sentence_and_every_entity_is_tagged_or_counted(given_text):
    text, entities = given_text
    words = find_words(text)
    sentences, counts = tag_text(text, entities)
    assert [word for sentence in sentences for word in sentence.words] == [word.text for word in words]
    spans, first = [], 0
    for sentence in sentences:
        assert sentence.words
        spans += [(first + span.start, first + span.end, span.type) for span in to_spans(sentence.tags)]
        first += len(sentence.words)
    assert len(spans) + counts[OVERLAPPING_ENTITY] + counts[BLANK_ENTITY] == len(entities)
    touched = [
        [n for n, word in enumerate(words) if word.start < end and start < word.end] for start, end, _ in entities
    ]
    wanted = {(each[0], each[-1] + 1, kind) for each, (_, _, kind) in zip(touched, entities, strict=True) if each}
    assert wanted.issuperset(spans)
    assert counts[BLANK_ENTITY] == sum(not each for each in touched)
    taken = {n for start, end, _ in spans for n in range(start, end)}
    assert all(taken.intersection(range(start, end)) for start, end, _ in wanted), "dropped only what overlaps another"


@pytest.mark.parametrize(("words", "tags"), [("words", "tags"), ("tokens", "ner_tags")])
def test_jsonl_is_read_under_either_pair_of_names_and_without_tags_where_none_are_required(words, tags):
    found, repairs = read({words: ["a", "\u0085"], tags: ["O", "B-x-y"]}, b"", {words: [], tags: []})
    assert found == [Sentence(("a", "\u0085"), ("O", "B-x-y"))]
    assert repairs.counts == {EMPTY_SENTENCE: 1}
    assert read({words: ["a", " "]}, tags_required=False)[0] == [Sentence(("a", "\ufffd"))]


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"words": ["a", "b"], "tags": ["O"]}, "file:1: found 2 words and 1 tags"),
        ({"words": ["a"]}, "found no list of tags"),
        ({"text": "a"}, "found no list of words, only 'text'"),
        ({"tokens": ["a"], "ner_tags": [3]}, "ner_tags holds a value of type int"),
        ({"words": "ab", "tags": ["O", "O"]}, "words is of type str"),
        ({"words": ["a"], "tags": ["person"]}, "found the tag 'person'"),
        ({"words": ["a"], "tags": ["B-x\ny\tz"]}, "found the tag 'B-x\\ny\\tz'"),
        ({"words": ["a"], "tags": ["B- "]}, "found the tag 'B- '"),
        (b'{"words": ["a"], "tags": ["O"], "score": NaN}', "no JSON"),
        (b'{"words": ["a"], "tags": ["O"], "score": 1e400}', "no JSON"),
        ({"words": ["\ud800"], "tags": ["O"]}, "half a surrogate pair"),
        ({"text": "a \ud83d", "label": []}, "file:1: text holds half a surrogate pair"),
        ([1], "expected a JSON object"),
        (b'{"words": ["a"', "no JSON"),
        (b"[" * 100_000, "no JSON (RecursionError)"),
        (b"1" * 5_000, "no JSON"),
    ],
)
def test_a_malformed_jsonl_line_is_named_with_what_was_found(record, problem):
    with pytest.raises(CrossNERError) as raised:
        read(record)
    assert problem in raised.value.problem
    assert raised.value.hint


def test_jsonl_that_tells_where_its_sentences_end_is_read_sentence_by_sentence():
    record = {"words": ["a", "b", "c"], "tags": ["B-x", "I-x", "O"], "sentences": [[0, 1], [1, 3]]}
    assert read(record)[0] == [Sentence(("a",), ("B-x",)), Sentence(("b", "c"), ("I-x", "O"))]
    words = {key: value for key, value in record.items() if key != "tags"}
    assert read(words, tags_required=False)[0] == [Sentence(("a",)), Sentence(("b", "c"))]
    gaps = [[[0, 1]], [[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 0], [0, 3]], [[0, 1], [1, 4]], [[1, 3], [0, 1]]]
    no_ranges = [None, "two", [], [[0, 3.0]], [[False, 3]], [[0, 1, 3]], [3], ["a", "b. c."]]
    for other in gaps + no_ranges:
        assert read({**record, "sentences": other})[0] == [Sentence(("a", "b", "c"), ("B-x", "I-x", "O"))], other
