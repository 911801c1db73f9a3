"""Columns and JSONL of labelled sentences: every published variant, and nothing but a clear error for the rest."""

import io
import json

import pytest
from builders.timing import within
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.data.files import BAD_LINE, Repairs, number_lines
from crossner_cli.data.formats import conll as of_columns
from crossner_cli.data.formats import jsonl as of_jsonl
from crossner_cli.data.formats import spans
from crossner_cli.data.formats.conll import parse_columns
from crossner_cli.data.formats.format import read_each
from crossner_cli.data.formats.records import parse_lines
from crossner_cli.data.formats.spans import BLANK_ENTITY, OVERLAPPING_ENTITY, tag_text
from crossner_cli.data.formats.words import JSONL_HINT
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans
from crossner_cli.data.text import find_words
from crossner_cli.errors import CrossNERError

TEXT = "In Paris. Anna met Dr. Smith."


def parse_jsonl(stream, name, repairs):
    """Sentences of lines of JSONL, as a file of them is read."""
    records = parse_lines(number_lines(stream, name, repairs), name, repairs, hint=JSONL_HINT)
    return spans.to_sentences([*read_each(records, of_jsonl.read_object, repairs)], name, repairs)


def columns(text, **options):
    """Sentences of a column file, and the repairs."""
    data = text.encode() if isinstance(text, str) else text
    repairs = Repairs()
    return [each.sentence for each in parse_columns(io.BytesIO(data), "file", repairs, **options)], repairs


def jsonl(*records):
    """Sentences of JSONL, and the repairs."""
    repairs = Repairs()
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    return [each.sentence for each in parse_jsonl(lines, "file", repairs)], repairs


def words_of(text, **options):
    return [sentence.words for sentence in columns(text, **options)[0]]


KEPT = [Sentence(("a", "\ufffd", "b"), ("O", "B-x", "I-x"))]
BROKEN = [Sentence(("a",), ("O",)), Sentence(("b",), ("I-x",))]


@pytest.mark.parametrize(
    ("row", "sentences", "repair"),
    [
        *((row, KEPT, of_columns.EMPTY_WORD) for row in ("\tB-x", " B-x", " \tB-x", "  B-x")),
        *((row, BROKEN, of_columns.WHITE_SPACE_BREAK) for row in (" ", "\t", " \t ", "  \r")),
        ("  John   B-x", [Sentence(("a", "John", "b"), ("O", "B-x", "I-x"))], None),
    ],
)
def test_an_empty_word_keeps_its_tag_and_a_line_of_spaces_ends_a_sentence_and_both_are_counted(row, sentences, repair):
    found, repairs = columns(f"a O\n{row}\nb I-x\n")
    assert found == sentences
    assert repairs.to_json() == ({repair: {"count": 1, "first": ["file:2"]}} if repair else {})


def test_the_first_column_is_the_word_and_the_last_one_the_tag_and_rows_of_another_number_are_counted():
    found, _ = columns("EU NNP I-NP I-ORG\nrejects VBZ I-VP O\n")
    assert found == [Sentence(("EU", "rejects"), ("I-ORG", "O"))]
    assert words_of("New York\tNNP\tB-location\n") == [("New York",)]
    found, repairs = columns("In O\nNew York B-location\n.  O\n\nYes O\n")
    assert found[0].words == ("In", "New York", "."), "what a row has more is part of its word"
    assert repairs.to_json() == {of_columns.SPACED_WORD: {"count": 1, "first": ["file:2"]}}
    found, repairs = columns("Paris NNP B-location\nis O\nold JJ O\n")
    assert found[0].words == ("Paris", "is", "old") and repairs.counts == {of_columns.OTHER_COLUMNS: 1}
    with pytest.raises(CrossNERError, match="file:2: found 4 columns in .*, where other rows have 2"):
        columns("In O\nParis NNP B-NP B-location\n")
    for text in ("-DOCSTART- -X- -X- O\n\nIn IN O\nParis NNP B-location\n", "New York\tO\nis\tO\n", "In O \n is O\n"):
        assert of_columns.OTHER_COLUMNS not in columns(text)[1].counts
    assert not columns("In\nParis\n", tags_required=False)[1].counts


@pytest.mark.parametrize("bad", ["c D E\n", "caf\xe9 O\n"])
def test_a_sentence_with_a_bad_line_is_left_out_whole_and_counted(bad):
    for first, second in ((f"a B-x\n{bad}", "b O\n"), ("b O\n", f"a B-x\n{bad}"), (f"{bad}a B-x\n", "b O\n")):
        repairs = Repairs(skips_bad_lines=True)
        stream = io.BytesIO(f"{first}\n{second}".encode("latin-1"))
        assert [each.sentence.words for each in parse_columns(stream, "file", repairs)] == [("b",)]
        assert repairs.counts == {BAD_LINE: 1, of_columns.BAD_SENTENCE: 1}


@pytest.mark.parametrize("word", ["\u00a0", "\u0085", "a\u0085b", "\u2028", "x\u00a0", "\x00", "\x0c", "#", "\u200b"])
@pytest.mark.parametrize("separator", ["\t", " "])
def test_a_word_stays_as_it_is(word, separator):
    found, repairs = columns(f"{word}{separator}O\nb{separator}O\n")
    assert found == [Sentence((word, "b"), ("O", "O"))]
    assert not repairs.counts


@pytest.mark.parametrize(
    "row", ["-DOCSTART- -X- O O", "-DOCSTART- -X- -X- O", "-DOCSTART-", "-DOCSTART-\tO", "-DOCSTART- -X-"]
)
def test_docstart_is_dropped_and_counted(row):
    text = f"{row}\n\nA B-x\n{row}\nb O\n"
    found, repairs = columns(text)
    assert found == [Sentence(("A",), ("B-x",)), Sentence(("b",), ("O",))]
    assert repairs.counts == {of_columns.DOCSTART_DROPPED: 2}


def test_words_alone_but_no_running_text_can_be_read_where_no_tags_are_required():
    assert columns("a\nb\n\nc\n", tags_required=False)[0] == [Sentence(("a", "b")), Sentence(("c",))]
    assert columns("a\tO\nb\tB-x\n", tags_required=False)[0] == [Sentence(("a", "b"), ("O", "B-x"))]
    assert columns("a\tO\nb\n", tags_required=False)[0] == [Sentence(("a", "b"))]
    with pytest.raises(CrossNERError, match="'He saw Paris'") as raised:
        columns("He saw Paris\n", tags_required=False)
    assert "--input-format text" in raised.value.hint


@pytest.mark.parametrize(
    ("read", "data", "problem"),
    [
        (columns, b"a\tO\nb\n", "file:2: found one column, 'b'"),
        (columns, b"a b c\n", "file:1: found the tag 'c' in 'a b c'"),
        (columns, b"a\tB-per\x1b[31mson\n", "found the tag 'B-per\\x1b[31mson'"),
        (columns, b"a\tO\n\xe9t\xe9\tO\n", "file:2: byte 0xe9 at position 1"),
        (columns, "a\tO\n".encode("utf-16"), "file is UTF-16, not text"),
        (columns, b"a O\rb O\r\r", "file:1: found a carriage return inside a line"),
        (jsonl, {"words": ["a", "b"], "tags": ["O"]}, "file:1: found 2 words and 1 tags"),
        (jsonl, {"words": ["a"]}, "found no list of tags"),
        (jsonl, {"text": "a"}, "found no list of words, only 'text'"),
        (jsonl, {"tokens": ["a"], "ner_tags": [3]}, "found the tags [3], numbers whose names are not known"),
        (jsonl, {"words": ["a"], "tags": ["B-x\ny\tz"]}, "found the tag 'B-x\\ny\\tz'"),
        (jsonl, {"text": "a \ud83d", "label": []}, "file:1: text holds half a surrogate pair"),
        (jsonl, {"text": "a b", "entities": [[0, 1, "x"]], "spans": [[2, 3, "x"]]}, "in 'entities' and in 'spans'"),
        (
            jsonl,
            b'{"text": "a", "label": [[0, 1, "x"]], "label": []}',
            "not a JSON object (the key 'label' occurs twice)",
        ),
        (jsonl, b'{"words": ["a"', "not a JSON object (Expecting"),
        (jsonl, b"[" * 100_000, "not a JSON object (RecursionError)"),
        (jsonl, b"1" * 5_000, "not a JSON object (ValueError)"),
    ],
)
def test_a_malformed_line_is_named_with_what_was_found_and_a_way_out(read, data, problem):
    with pytest.raises(CrossNERError) as raised:
        read(data)
    assert problem in raised.value.problem
    assert raised.value.hint


SPACES = [b"\t", b" ", b"\n", b"\r", b"\x00", b"\xc2\xa0", b"\xc2\x85", b"\xff", b"\xef\xbb\xbf"]
COLUMNS = [b"O", b"B-x", b"I-", b"-", b"word", b"-DOCSTART-"]
JSON = [b'{"words": ["a"], "tags": ["O"]}', b'{"words":', b"[", b"]}", b'"\\ud800"', b"NaN", b"null"]


@settings(max_examples=300)
@given(
    st.one_of(st.binary(max_size=60), st.lists(st.sampled_from([*SPACES, *COLUMNS, *JSON]), max_size=25).map(b"".join)),
    st.sampled_from([(parse_columns, {}), (parse_columns, {"tags_required": False}), (parse_jsonl, {})]),
)
def test_any_bytes_are_read_or_refused_with_a_message(data, how):
    parse, options = how
    try:
        found = list(parse(io.BytesIO(data), "file", Repairs(), **options))
    except CrossNERError as error:
        assert error.problem.startswith("file")
        return
    for located in found:
        sentence = located.sentence
        assert len(located.lines) == len(sentence.words) > 0
        assert all(word.strip(" \t") for word in sentence.words)
        assert (options and sentence.tags is None) or len(sentence.tags) == len(sentence.words)
        json.dumps(sentence.words, ensure_ascii=False).encode()


def test_a_text_without_entities_has_none_words_with_tags_stay_and_refused_examples_are_counted():
    assert jsonl({"text": "Yes .", "label": []})[0] == [Sentence(("Yes", "."), ("O", "O"))]
    both = {"text": "a-b", "words": ["a", "-", "b"], "tags": ["O", "O", "B-x"], "entities": [[0, 1, "y"]]}
    assert jsonl(both)[0] == [Sentence(("a", "-", "b"), ("O", "O", "B-x"))]
    refused = [{"text": TEXT, "spans": [], "answer": answer} for answer in ("reject", "ignore")]
    found, repairs = jsonl(*refused, {"text": "Yes .", "spans": []})
    assert len(found) == 1 and repairs.counts == {of_jsonl.REFUSED_EXAMPLE: 2}


@pytest.mark.parametrize(
    ("text", "entities", "tags", "kind"),
    [
        ("the Paris-based one", [[4, 9, "x"]], ["O", "B-x", "O"], spans.WIDENED_ENTITY),
        ("in Paris now", [[3, 7, "x"]], ["O", "B-x", "O"], spans.WIDENED_ENTITY),
        ("in Paris now", [[2, 9, "x"]], ["O", "B-x", "O"], None),
        ("New York City", [[0, 8, "x"], [0, 13, "y"]], ["B-y", "I-y", "I-y"], OVERLAPPING_ENTITY),
        ("New York City", [[0, 8, "x"], [4, 13, "y"]], ["B-x", "I-x", "O"], OVERLAPPING_ENTITY),
        ("New York City", [[0, 8, "x"], [9, 13, "y"]], ["B-x", "I-x", "B-y"], None),
        ("a  b", [[1, 3, "x"]], ["O", "O"], BLANK_ENTITY),
        ("He met J. Smith. Yes.", [[7, 20, "x"]], None, spans.JOINED_SENTENCE),
        (" \n ", [], None, spans.EMPTY_SENTENCE),
    ],
)
def test_what_is_widened_dropped_or_joined_is_counted(text, entities, tags, kind):
    found, repairs = jsonl({"text": text, "label": entities})
    if tags is not None:
        assert [list(sentence.tags) for sentence in found] == [tags]
    assert repairs.to_json() == ({kind: {"count": 1, "first": ["file:1"]}} if kind else {})
    assert len(found) == (kind != spans.EMPTY_SENTENCE)


def test_many_long_entities_that_overlap_take_no_time():
    entities = [(200_000, 399_999, "x"), *((200_000 - 2 * number, 200_001, "x") for number in range(1, 90_000))]
    with within(20):
        _, counts = tag_text("a " * 200_000, entities)
    assert counts[OVERLAPPING_ENTITY] == len(entities) - 1


@pytest.mark.parametrize(
    ("entity", "problem"),
    [
        ([3, 80, "x"], "found the entity [3, 80, 'x'] in a text of 29 characters"),
        ([8, 8, "x"], "found the entity [8, 8, 'x'] in a text"),
        ([3.0, 8.0, "x"], "found the entity [3.0, 8.0, 'x']"),
        ("location", "found the entity 'location'"),
        ({"start": 3, "end": 8, "labels": ["x", "y"]}, "found the entity {"),
        ({"start": 4, "end": 9, "type": "x", "text": "Paris"}, "is 'aris.' in the text"),
        ([3, 8, "x\ny"], "found the type 'x\\ny'"),
    ],
)
def test_an_entity_that_is_none_or_not_in_the_text_is_refused_with_its_place(entity, problem):
    with pytest.raises(CrossNERError) as caught:
        jsonl({"text": "Yes.", "label": []}, {"text": TEXT, "label": [entity]})
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
def test_jsonl_is_read_under_either_pair_of_names(words, tags):
    found, repairs = jsonl({words: ["a", "\u0085"], tags: ["O", "B-x-y"]}, b"", {words: [], tags: []})
    assert found == [Sentence(("a", "\u0085"), ("O", "B-x-y"))]
    assert repairs.counts == {spans.EMPTY_SENTENCE: 1}
    assert jsonl({words: ["a", " "], tags: ["O", "O"]})[0] == [Sentence(("a", "\ufffd"), ("O", "O"))]


def test_jsonl_that_tells_where_its_sentences_end_is_read_sentence_by_sentence():
    record = {"words": ["a", "b", "c"], "tags": ["B-x", "I-x", "O"], "sentences": [[0, 1], [1, 3]]}
    assert jsonl(record)[0] == [Sentence(("a",), ("B-x",)), Sentence(("b", "c"), ("I-x", "O"))]
    gaps = [[[0, 1]], [[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 0], [0, 3]], [[0, 1], [1, 4]], [[1, 3], [0, 1]]]
    no_ranges = [None, "two", [], [[0, 3.0]], [[False, 3]], [[0, 1, 3]], [3], ["a", "b. c."]]
    for other in gaps + no_ranges:
        assert jsonl({**record, "sentences": other})[0] == [Sentence(("a", "b", "c"), ("B-x", "I-x", "O"))], other


def test_soft_labels_stay_with_their_words_and_are_checked():
    soft = [{"O": 1.0}, {"B-x": 0.75, "O": 0.25}]
    record = {"words": ["a", "b"], "tags": ["O", "B-x"], "probabilities": soft, "sentences": [[0, 1], [1, 2]]}
    assert [sentence.soft for sentence in jsonl(record)[0]] == [(soft[0],), (soft[1],)]
    assert jsonl({**record, "probabilities": [0.9, 0.8]})[0][0].soft is None, "another tool's"
    for wrong in ([{}, {"O": 1}], [{"O": 2.0}, {"O": 1}], [{"no tag": 1.0}, {"O": 1}], [{"O": 1.0}]):
        with pytest.raises(CrossNERError, match="probabilities"):
            jsonl({**record, "probabilities": wrong})
