"""Columns of words and tags: every published variant, and nothing but a clear error for the rest."""

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.data import columns as module
from crossner_cli.data.columns import parse_columns
from crossner_cli.data.files import Repairs
from crossner_cli.data.jsonl import parse_jsonl
from crossner_cli.data.sentences import Sentence
from crossner_cli.errors import CrossNERError


def columns(text, **options):
    """Sentences of a column file, and the repairs."""
    data = text.encode() if isinstance(text, str) else text
    repairs = Repairs()
    return [each.sentence for each in parse_columns(io.BytesIO(data), "file", repairs, **options)], repairs


def words_of(text, **options):
    return [sentence.words for sentence in columns(text, **options)[0]]


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n\n\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_last_sentence_is_read_however_the_file_ends(newline, end):
    text = ("In\tO\nParis\tB-location\n\n\nYes\tO" + end).replace("\n", newline)
    assert words_of(text) == [("In", "Paris"), ("Yes",)]


@pytest.mark.parametrize(
    ("row", "sentences", "repair"),
    [
        *(
            (row, [Sentence(("a", "\ufffd", "b"), ("O", "B-x", "I-x"))], module.EMPTY_WORD)
            for row in ("\tB-x", " B-x", " \tB-x", "  B-x")
        ),
        *(
            (row, [Sentence(("a",), ("O",)), Sentence(("b",), ("I-x",))], module.WHITE_SPACE_BREAK)
            for row in (" ", "\t", " \t ", "  \r")
        ),
        ("  John   B-x", [Sentence(("a", "John", "b"), ("O", "B-x", "I-x"))], None),
    ],
)
def test_an_empty_word_keeps_its_tag_and_a_line_of_spaces_ends_a_sentence_and_both_are_counted(row, sentences, repair):
    found, repairs = columns(f"a O\n{row}\nb I-x\n")
    assert found == sentences
    assert repairs.to_json() == ({repair: {"count": 1, "first": ["file:2"]}} if repair else {})


def test_the_first_column_is_the_word_and_the_last_one_the_tag():
    found, _ = columns("EU NNP I-NP I-ORG\nrejects VBZ I-VP O\n")
    assert found == [Sentence(("EU", "rejects"), ("I-ORG", "O"))]
    assert words_of("New York\tNNP\tB-location\n") == [("New York",)]


def test_rows_of_another_number_of_columns_are_counted_since_part_of_a_word_may_be_lost():
    found, repairs = columns("In O\nNew York B-location\n.  O\n\nYes O\n")
    assert found[0].words == ("In", "New", "."), "what stands between the first column and the last is no word"
    assert repairs.to_json() == {module.OTHER_COLUMNS: {"count": 1, "first": ["file:2"]}}
    for text in ("-DOCSTART- -X- -X- O\n\nIn IN O\nParis NNP B-location\n", "New York\tO\nis\tO\n", "In O \n is O\n"):
        assert module.OTHER_COLUMNS not in columns(text)[1].counts
    assert not columns("In\nParis\n", tags_required=False)[1].counts


@pytest.mark.parametrize("word", ["\u00a0", "\u0085", "a\u0085b", "\u2028", "x\u00a0", "\x00", "\x0c", "#", "\u200b"])
@pytest.mark.parametrize("separator", ["\t", " "])
def test_a_word_stays_as_it_is(word, separator):
    found, repairs = columns(f"{word}{separator}O\nb{separator}O\n")
    assert found == [Sentence((word, "b"), ("O", "O"))]
    assert not repairs.counts


@pytest.mark.parametrize(
    "row", ["-DOCSTART- -X- O O", "-DOCSTART- -X- -X- O", "-DOCSTART-", "-DOCSTART-\tO", "-DOCSTART- -X-"]
)
def test_docstart_is_dropped_and_counted_or_kept(row):
    text = f"{row}\n\nA B-x\n{row}\nb O\n"
    found, repairs = columns(text)
    assert found == [Sentence(("A",), ("B-x",)), Sentence(("b",), ("O",))]
    assert repairs.counts == {module.DOCSTART_DROPPED: 2}
    kept, repairs = columns(text, keep_docstart=True)
    docstart = Sentence(("-DOCSTART-",), ("O",))
    assert kept == [docstart, found[0], docstart, found[1]]
    assert not repairs.counts


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a\tO\nb\n", "file:2: found one column, 'b'"),
        (b"a\tO\nb\t\n", "file:2: found one column"),
        (b"a b c\n", "file:1: found the tag 'c' in 'a b c'"),
        (b"a\tB-\n", "found the tag 'B-'"),
        (b"a\tX-person\n", "found the tag 'X-person'"),
        (b"a\tB-per\x1b[31mson\n", "found the tag 'B-per\\x1b[31mson'"),
        (b"a\tO\n\xe9t\xe9\tO\n", "file:2: byte 0xe9 at position 1"),
        ("a\tO\n".encode("utf-16"), "file is UTF-16, not text"),
        (b"a O\rb O\r\r", "file:1: found a carriage return inside a line"),
    ],
)
def test_a_malformed_line_is_named_with_what_was_found_and_a_way_out(data, problem):
    with pytest.raises(CrossNERError) as raised:
        columns(data)
    assert problem in raised.value.problem
    assert raised.value.hint


def test_words_alone_but_no_running_text_can_be_read_where_no_tags_are_required():
    assert columns("a\nb\n\nc\n", tags_required=False)[0] == [Sentence(("a", "b")), Sentence(("c",))]
    assert columns("a\tO\nb\tB-x\n", tags_required=False)[0] == [Sentence(("a", "b"), ("O", "B-x"))]
    assert columns("a\tO\nb\n", tags_required=False)[0] == [Sentence(("a", "b"))]
    with pytest.raises(CrossNERError, match="'He saw Paris'") as raised:
        columns("He saw Paris\n", tags_required=False)
    assert "--input-format text" in raised.value.hint


SPACES = [b"\t", b" ", b"\n", b"\r", b"\x00", b"\xc2\xa0", b"\xc2\x85", b"\xff", b"\xef\xbb\xbf"]
COLUMNS = [b"O", b"B-x", b"I-", b"-", b"word", b"-DOCSTART-"]
JSON = [b'{"words": ["a"], "tags": ["O"]}', b'{"words":', b"[", b"]}", b'"\\ud800"', b"NaN", b"null"]
FRAGMENTS = [*SPACES, *COLUMNS, *JSON]


@settings(max_examples=300)
@given(
    st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(FRAGMENTS), max_size=25).map(b"".join)),
    st.booleans(),
    st.booleans(),
    st.sampled_from([parse_columns, parse_jsonl]),
)
def test_any_bytes_are_read_or_refused_with_a_message(data, tags_required, keep_docstart, parse):
    options = {"tags_required": tags_required, "keep_docstart": keep_docstart}
    try:
        found = list(parse(io.BytesIO(data), "file", Repairs(), **options))
    except CrossNERError as error:
        assert error.problem.startswith("file")
        return
    for located in found:
        sentence = located.sentence
        assert len(located.lines) == len(sentence.words) > 0
        assert all(word.strip(" \t") for word in sentence.words)
        assert sentence.tags is not None if tags_required else True
        assert sentence.tags is None or len(sentence.tags) == len(sentence.words)
        json.dumps(sentence.words, ensure_ascii=False).encode()


def test_a_line_of_millions_of_characters_is_read_or_refused():
    word = "x" * 3_000_000
    assert words_of(f"{word}\tO\n") == [(word,)]
    with pytest.raises(CrossNERError) as raised:
        columns(word)
    assert len(str(raised.value)) < 500
