"""Reading labelled files: every published variant, and nothing but a clear error for the rest."""

import bz2
import gzip
import io
import json
import lzma
import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from crossner_cli.data import domains, readers
from crossner_cli.data.jsonl_files import parse_jsonl
from crossner_cli.data.labelled_domain import read_domain
from crossner_cli.data.readers import Repairs, parse_columns
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.statistics import count_split
from crossner_cli.data.tags import Span, to_tags
from crossner_cli.errors import CrossNERError

MIRROR = os.environ.get("CROSSNER_MIRROR", "")
NOT_IN_MIRROR = {"science", "literature"}


def columns(text, **options):
    """Sentences of a column file, and the repairs."""
    data = text.encode() if isinstance(text, str) else text
    repairs = Repairs()
    return [each.sentence for each in parse_columns(io.BytesIO(data), "file", repairs, **options)], repairs


def words_of(text, **options):
    return [sentence.words for sentence in columns(text, **options)[0]]


def jsonl(*records, **options):
    repairs = Repairs()
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    return [each.sentence for each in parse_jsonl(lines, "file", repairs, **options)], repairs


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n\n\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r\r\n"])
def test_the_last_sentence_is_read_however_the_file_ends(newline, end):
    text = ("In\tO\nParis\tB-location\n\n\nYes\tO" + end).replace("\n", newline)
    assert words_of(text) == [("In", "Paris"), ("Yes",)]


def test_the_first_column_is_the_word_and_the_last_one_the_tag():
    found, _ = columns("EU NNP I-NP I-ORG\nrejects VBZ I-VP O\n")
    assert found == [Sentence(("EU", "rejects"), ("I-ORG", "O"))]
    assert words_of("New York\tNNP\tB-location\n") == [("New York",)]


def test_rows_of_another_number_of_columns_are_counted_since_part_of_a_word_may_be_lost():
    found, repairs = columns("In O\nNew York B-location\n.  O\n\nYes O\n")
    assert found[0].words == ("In", "New", "."), "what stands between the first column and the last is no word"
    assert repairs.to_json() == {readers.OTHER_COLUMNS: {"count": 1, "first": ["file:2"]}}
    for text in ("-DOCSTART- -X- -X- O\n\nIn IN O\nParis NNP B-location\n", "New York\tO\nis\tO\n", "In O \n is O\n"):
        assert readers.OTHER_COLUMNS not in columns(text)[1].counts
    assert not columns("In\nParis\n", tags_required=False)[1].counts


@pytest.mark.parametrize("word", ["\u00a0", "\u0085", "a\u0085b", "\u2028", "x\u00a0", "\x00", "\x0c", "#", "\u200b"])
@pytest.mark.parametrize("separator", ["\t", " "])
def test_a_word_stays_as_it_is(word, separator):
    found, repairs = columns(f"{word}{separator}O\nb{separator}O\n")
    assert found == [Sentence((word, "b"), ("O", "O"))]
    assert not repairs.counts


@pytest.mark.parametrize("row", ["\tB-x", " B-x", " \tB-x", "  B-x"])
def test_an_empty_word_ends_no_sentence_and_keeps_its_tag(row):
    found, repairs = columns(f"a\tO\n{row}\nb\tI-x\n")
    assert found == [Sentence(("a", "\ufffd", "b"), ("O", "B-x", "I-x"))]
    assert repairs.to_json() == {readers.EMPTY_WORD: {"count": 1, "first": ["file:2"]}}


@pytest.mark.parametrize("line", [" ", "\t", " \t ", "  \r"])
def test_a_line_of_spaces_ends_a_sentence_and_is_counted(line):
    found, repairs = columns(f"a O\n{line}\nb O\n")
    assert [sentence.words for sentence in found] == [("a",), ("b",)]
    assert repairs.counts == {readers.WHITE_SPACE_BREAK: 1}


def test_a_byte_order_mark_is_no_part_of_the_first_word_and_is_counted():
    found, repairs = columns(b"\xef\xbb\xbfIn\tO\n")
    assert found[0].words == ("In",)
    assert repairs.counts == {readers.BYTE_ORDER_MARK_REMOVED: 1}


@pytest.mark.parametrize("row", ["-DOCSTART- -X- O O", "-DOCSTART- -X- -X- O", "-DOCSTART-", "-DOCSTART-\tO",
                                 "-DOCSTART- -X-"])  # fmt: skip
def test_docstart_is_dropped_and_counted_or_kept(row):
    text = f"{row}\n\nA B-x\n{row}\nb O\n"
    found, repairs = columns(text)
    assert found == [Sentence(("A",), ("B-x",)), Sentence(("b",), ("O",))]
    assert repairs.counts == {readers.DOCSTART_DROPPED: 2}
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
        ("a\tO\n".encode("utf-16"), "file:1: the file is UTF-16"),
        (b"a O\rb O\r\r", "file:1: found a carriage return inside a line"),
    ],
)
def test_a_malformed_line_is_named_with_what_was_found_and_a_way_out(data, problem):
    with pytest.raises(CrossNERError) as raised:
        columns(data)
    assert problem in raised.value.problem
    assert raised.value.hint


def test_words_alone_can_be_read_where_no_tags_are_required():
    assert columns("a\nb\n\nc\n", tags_required=False)[0] == [Sentence(("a", "b")), Sentence(("c",))]
    assert columns("a\tO\nb\tB-x\n", tags_required=False)[0] == [Sentence(("a", "b"), ("O", "B-x"))]
    assert columns("a\tO\nb\n", tags_required=False)[0] == [Sentence(("a", "b"))]


@pytest.mark.parametrize("mark", [",", ";", "|"])
def test_columns_between_other_marks_are_refused_with_a_command_that_converts_them(mark, tmp_path):
    text = f"In{mark}O\n{mark}{mark}O\nParis{mark}B-place\n\n"
    with pytest.raises(CrossNERError, match="file:1: found one column") as caught:
        columns(text)
    command = caught.value.hint.partition("Convert: ")[2]
    (tmp_path / "FILE").write_text(text)
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    found, repairs = columns((tmp_path / "CONVERTED").read_text())
    assert found == [Sentence(("In", mark, "Paris"), ("O", "O", "B-place"))] and not repairs.counts


def test_running_text_in_place_of_columns_is_refused_rather_than_cut():
    with pytest.raises(CrossNERError, match="'He saw Paris'") as raised:
        columns("He saw Paris\n", tags_required=False)
    assert "--input-format text" in raised.value.hint


@pytest.mark.parametrize(
    ("text", "place", "command", "words"),
    [
        ("1\tAnna met Peter in London.\n2\tBob.\n", "file:1: found '1\\tAnna met", "cut -f 2", None),
        ("a\tNN\nb\tVB\n", "file:1: found 'a\\tNN'", "cut -f 1", [("a", "b")]),
        ("# id 7f-1\tdomain=en\nAnna _ _ B-PER\n", "file:1: found '# id 7f-1", "cut -f 1", None),
        ("# text = Al dia\n1-2\tAl\t_\n1\tA\tADP\n2\tel\tDET\n\n1\tdia\tNOUN\n", "file:1: found '# text",
         "grep -vE", [("A", "el"), ("dia",)]),
    ],
)  # fmt: skip
def test_columns_that_end_in_no_tag_are_refused_rather_than_dropped(text, place, command, words, tmp_path):
    with pytest.raises(CrossNERError) as raised:
        columns(text, tags_required=False)
    assert place in raised.value.problem and "expected a word alone or a word and a tag" in raised.value.problem
    (way_out,) = re.findall(rf"as: ({command}.*?)(?:;|$)", raised.value.hint)
    if words is not None:
        (tmp_path / "FILE").write_text(text)
        subprocess.run(way_out, shell=True, check=True, cwd=tmp_path)
        assert words_of((tmp_path / "WORDS.conll").read_text(), tags_required=False) == words


@pytest.mark.parametrize(("words", "tags"), [("words", "tags"), ("tokens", "ner_tags")])
def test_jsonl_is_read_under_either_pair_of_names(words, tags):
    found, repairs = jsonl({words: ["a", "\u0085"], tags: ["O", "B-x-y"]}, b"", {words: [], tags: []})
    assert found == [Sentence(("a", "\u0085"), ("O", "B-x-y"))]
    assert repairs.counts == {readers.EMPTY_SENTENCE: 1}


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
        ([1], "expected a JSON object"),
        (b'{"words": ["a"', "no JSON"),
        (b"[" * 100_000, "no JSON (RecursionError)"),
        (b"1" * 5_000, "no JSON"),
    ],
)
def test_a_malformed_jsonl_line_is_named_with_what_was_found(record, problem):
    with pytest.raises(CrossNERError) as raised:
        jsonl(record)
    assert problem in raised.value.problem
    assert raised.value.hint


def test_jsonl_that_tells_where_its_sentences_end_is_read_sentence_by_sentence():
    record = {"words": ["a", "b", "c"], "tags": ["B-x", "I-x", "O"], "sentences": [[0, 1], [1, 3]]}
    expected = [Sentence(("a",), ("B-x",)), Sentence(("b", "c"), ("I-x", "O"))]
    assert jsonl(record)[0] == expected
    assert jsonl({"words": ["a", "b"], "sentences": [[0, 1], [1, 2]]}, tags_required=False)[0] == [
        Sentence(("a",)), Sentence(("b",)),
    ]  # fmt: skip
    whole = [Sentence(("a", "b", "c"), ("B-x", "I-x", "O"))]
    for other in (None, "two", [], [[0, 1]], [[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 0], [0, 3]], [[0, 1], [1, 4]],
                  [[0, 3.0]], [[False, 3]], [[0, 1, 3]], [3], ["a", "b. c."], [[1, 3], [0, 1]]):  # fmt: skip
        assert jsonl({**record, "sentences": other})[0] == whole, other


def test_jsonl_without_tags_is_read_where_none_are_required():
    assert jsonl({"tokens": ["a", " "]}, tags_required=False)[0] == [Sentence(("a", "\ufffd"))]


@pytest.mark.parametrize("name", ["missing.txt", "folder.txt", "x" * 5000 + ".txt", "nul\0.txt"])
def test_a_path_that_is_no_file_is_an_error(tmp_path, name):
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(CrossNERError, match="cannot be read"):
        read_domain({"train": tmp_path / name})


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"-DOCSTART- O\n\n"])
def test_a_file_without_sentences_is_an_error(tmp_path, content):
    (tmp_path / "train.txt").write_bytes(content)
    with pytest.raises(CrossNERError, match="holds no sentence") as raised:
        read_domain({"train": tmp_path / "train.txt"})
    assert "word<TAB>tag" in raised.value.hint and "remove" not in raised.value.hint


@pytest.mark.parametrize(("split", "way_out"), [("dev", " and give --dev-from-train 0.1."), ("test", ".")])
def test_a_split_that_one_can_do_without_may_be_removed_where_it_is_empty(tmp_path, split, way_out):
    (tmp_path / f"{split}.txt").touch()
    with pytest.raises(CrossNERError, match="holds no sentence") as raised:
        read_domain({split: tmp_path / f"{split}.txt"})
    assert raised.value.hint.endswith(f"Or remove the file{way_out}")


def test_objects_without_sentences_are_told_how_objects_look(tmp_path):
    (tmp_path / "train.jsonl").write_text("")
    with pytest.raises(CrossNERError, match="holds no sentence") as raised:
        read_domain({"train": tmp_path / "train.jsonl"})
    assert '"words"' in raised.value.hint


def test_the_scheme_is_detected_over_all_splits_and_illegal_tags_are_counted(tmp_path):
    (tmp_path / "train.txt").write_text("a B-x\nb E-x\n\nc S-y\n")
    (tmp_path / "test.txt").write_text("a B-x\nb I-x\nc O\n\nd I-y\n")
    found = read_domain({"train": tmp_path / "train.txt", "test": tmp_path / "test.txt"}, name="toy")
    assert found.found_scheme == "bioes"
    assert found.types == ("x", "y")
    assert found.splits["train"] == [Sentence(("a", "b"), ("B-x", "I-x"), "toy"), Sentence(("c",), ("B-y",), "toy")]
    assert [sentence.tags for sentence in found.splits["test"]] == [("B-x", "I-x", "O"), ("B-y",)]
    places = [f"{tmp_path}/test.txt:{line}" for line in (3, 5, 5)]
    assert found.repairs.to_json() == {readers.ILLEGAL_TAG: {"count": 3, "first": places}}


def test_only_the_first_places_of_a_repair_are_kept():
    repairs = columns(" \n" * 100)[1].to_json()
    assert repairs[readers.WHITE_SPACE_BREAK]["count"] == 100
    assert repairs[readers.WHITE_SPACE_BREAK]["first"] == [f"file:{line}" for line in range(1, 6)]


TYPES = ["person", "Multi-tissue_structure", "O", "B-"]
PREFIXES = {"bio": "BIII", "bioes": "BIES", "bilou": "BILU", "bmes": "BMES"}
CHARACTERS = st.characters(exclude_characters="\n\r\t \ufeff", exclude_categories=["Cs"])
WORDS = st.text(CHARACTERS, min_size=1, max_size=6).filter(lambda word: word != "-DOCSTART-")


@st.composite
def labelled_sentences(draw):
    """Words, and spans that do not overlap."""
    words = draw(st.lists(WORDS, min_size=1, max_size=8))
    spans, position = [], 0
    while position < len(words):
        length = draw(st.integers(0, 3))
        if length and position + length <= len(words):
            spans.append(Span(position, position + length, draw(st.sampled_from(TYPES))))
        position += max(length, 1)
    return words, spans


def write_tags(spans, length, scheme):
    """An independent writer of every scheme."""
    tags = ["O"] * length
    for before, span in zip([None, *spans], spans, strict=False):
        if scheme == "iob1":
            touches = before is not None and before.end == span.start and before.type == span.type
            prefixes = "B" if touches else "I"
            prefixes += "I" * (span.end - span.start - 1)
        else:
            begin, inside, end, single = PREFIXES[scheme]
            if scheme == "bio":
                single = begin
            middle = inside * (span.end - span.start - 2)
            prefixes = single if span.end - span.start == 1 else begin + middle + end
        tags[span.start : span.end] = [f"{prefix}-{span.type}" for prefix in prefixes]
    return tags


@settings(max_examples=80)
@given(
    st.lists(labelled_sentences(), min_size=1, max_size=4),
    st.sampled_from(["iob1", *PREFIXES]),
    st.sampled_from(["\t", " ", " NN x ", "\tNN\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n", "\n\n"]),
    st.booleans(),
    st.sampled_from(["bio", "bioes"]),
)
def test_sentences_come_back_from_any_scheme_separator_and_line_end(
    tmp_path_factory, sentences, scheme, separator, newline, end, has_mark, wanted
):
    path = tmp_path_factory.getbasetemp() / "sentences.txt"
    blocks = []
    for words, spans in sentences:
        rows = zip(words, write_tags(spans, len(words), scheme), strict=True)
        blocks.append("\n".join(f"{word}{separator}{tag}" for word, tag in rows))
    text = ("\n\n".join(blocks) + end).replace("\n", newline)
    path.write_bytes((b"\xef\xbb\xbf" if has_mark else b"") + text.encode())
    found = read_domain({"train": path}, scheme=wanted)
    assert [list(sentence.words) for sentence in found.splits["train"]] == [words for words, _ in sentences]
    assert [list(sentence.tags) for sentence in found.splits["train"]] == [
        to_tags(spans, len(words), wanted) for words, spans in sentences
    ]
    assert found.repairs.counts == ({readers.BYTE_ORDER_MARK_REMOVED: 1} if has_mark else {})


@settings(max_examples=80)
@given(st.lists(st.sampled_from(["O", *(f"{prefix}-{name}" for prefix in "BIES" for name in "xy")]), min_size=1))
def test_malformed_sequences_are_repaired_as_seqeval_reads_them(tmp_path_factory, tags):
    path = tmp_path_factory.getbasetemp() / "malformed.txt"
    path.write_text("".join(f"w {tag}\n" for tag in tags))
    (repaired,) = read_domain({"train": path}).splits["train"]
    assert get_entities(list(repaired.tags)) == get_entities(tags)


FRAGMENTS = [
    b"\t", b" ", b"\n", b"\r", b"\x00", b"\xc2\xa0", b"\xc2\x85", b"\xff", b"\xef\xbb\xbf",
    b"O", b"B-x", b"I-", b"-", b"word", b"-DOCSTART-",
    b'{"words": ["a"], "tags": ["O"]}', b'{"words":', b"[", b"]}", b'"\\ud800"', b"NaN", b"null",
]  # fmt: skip


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
        assert error.problem.startswith("file:")
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


@pytest.mark.skipif(not MIRROR, reason="CROSSNER_MIRROR is not set")
@pytest.mark.parametrize("name", sorted(set(domains.known_domains()) - NOT_IN_MIRROR))
def test_published_data_sets_have_the_published_counts(name):
    known = domains.known_domains()[name]
    files = {split: Path(MIRROR) / name / file.name for split, file in known.files.items()}
    found = read_domain(files)
    assert set(found.types) == set(known.types)
    for split, file in known.files.items():
        counts = count_split(found.splits[split])
        expected = {kind: count for kind, count in file.entities.items() if count}
        assert (counts["sentences"], counts["words"], counts["longest_sentence"], counts["entities"]) == (
            file.sentences, file.words, file.longest_sentence, expected,
        )  # fmt: skip
    malformed = {"cbs-scitech-2019": 20, "cbs-scitech-2020": 6}.get(name, 0)
    assert found.repairs.counts[readers.ILLEGAL_TAG] == malformed


def test_indented_rows_keep_their_words_and_a_tag_without_a_word_is_an_empty_word():
    (indented,), repairs = columns("  John   B-person\n lives O\n")
    assert indented.words == ("John", "lives") and indented.tags == ("B-person", "O") and not repairs.counts
    (empty,), repairs = columns("John O\n O\n")
    assert empty.words == ("John", "\N{REPLACEMENT CHARACTER}") and repairs.counts


@pytest.mark.parametrize(
    ("data", "what", "command"),
    [
        (gzip.compress(b"Anna met Peter.\n" * 50), "compressed by gzip", "gzip -dc FILE"),
        (bz2.compress(b"Anna met Peter.\n" * 50), "compressed by bzip2", "bzip2 -dc FILE"),
        (lzma.compress(b"Anna met Peter.\n" * 50), "compressed by xz", "xz -dc FILE"),
        (b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", "a PDF", "pdftotext FILE - > CONVERTED"),
        (b"PK\x03\x04\x14\x00\x08\n", "a ZIP archive, as documents of Word are", "pandoc --to plain FILE"),
        ("Anna met Peter.\n".encode("utf-16"), "UTF-16", "iconv -f UTF-16"),
    ],
    # gzip's bytes hold the time: no two processes would collect one name.
    ids=["gzip", "bzip2", "xz", "pdf", "docx", "utf-16"],
)
@pytest.mark.parametrize("skip", [False, True])
def test_what_is_no_text_of_utf_8_is_told_by_its_content_whether_or_not_bad_lines_are_skipped(
    data, what, command, skip
):
    with pytest.raises(CrossNERError, match=f"t.txt:1: the file is {what}, not UTF-8") as caught:
        list(readers.numbered_lines(io.BytesIO(data), "t.txt", Repairs(skips_bad_lines=skip)))
    assert command in caught.value.hint
