"""Parts of a corpus, and the sentences of a part."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from builders.timing import within
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crossner_cli.corpus.levels import write_levels
from crossner_cli.corpus.selection import Execution, Selection
from crossner_cli.corpus.sentences import cut_into_parts, read_sentences, split_lines, split_sentences
from crossner_cli.data.files import read_part
from crossner_cli.data.leaks import find_kept, make_leak_key
from crossner_cli.data.text import segment
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import exhaust

PIECES = "Ada saw a. B. Mr. ? ! ... . \" ' ) ( ” 。 我 U.S. He - 1 e.g."
SPACES = [" ", "  ", "\t", "\u2029", "\u00a0"]


def sentences_of(path, bytes_of_part, **options):
    counts = Counter[str]()
    given = {"one_a_line": False, "excluded": frozenset(), **options}
    parts = cut_into_parts([path], bytes_of_part)
    found = [text for part in parts for sentences in read_sentences(part, counts, **given) for text in sentences]
    del counts["characters"]
    return found, counts


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([*PIECES.split(), *SPACES]), max_size=12).map("".join))
@example('Ada. ) "He')
@example("Ada.' ")
def test_texts_have_the_sentences_that_predict_finds(text):
    spaced = re.sub("\u2029", "\n\n", re.sub("[ \t\u00a0]+", " ", text)).strip()
    expected = [" ".join(spaced[words[0].start : words[-1].end].split()) for words in segment(spaced)]
    assert split_sentences(text) == expected


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text("ab \n\t\r\u00a0\u2003\u0085é", max_size=30))
def test_the_lines_of_a_text_have_single_spaces_and_are_not_blank(text):
    assert split_lines(text) == [" ".join(line.split()) for line in text.split("\n") if line.strip()]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.text("ab é.", max_size=9), max_size=30), st.integers(1, 40), st.sampled_from(["\n", "\r\n"]))
def test_parts_hold_every_line_once_and_in_order(lines, bytes_of_part, ending):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text.txt")
        path.write_bytes(ending.join(lines).encode())
        found, counts = sentences_of(path, bytes_of_part, one_a_line=True)
    assert found == [" ".join(line.split()) for line in lines if line.strip()]
    assert counts["documents"] == len(found)


def test_a_bad_byte_is_reported_with_its_line_whatever_part_it_is_in(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"A line of text.\n" * 50 + b"caf\xe9 here\n" + b"more\n" * 50)
    for bytes_of_part in (10, 100, 10_000):
        with pytest.raises(CrossNERError, match=r"text.txt:51: byte 0xe9 at position 4"):
            sentences_of(path, bytes_of_part)


def test_a_byte_order_mark_and_the_last_line_end_are_no_text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xef\xbb\xbfOne.\r\n\r\nTwo")
    assert sentences_of(path, 1000) == (["One.", "Two"], {"documents": 2, "blank_lines": 1, "sentences": 2})
    (tmp_path / "texts.jsonl").write_text(json.dumps({"text": "\ufeffAda saw Paris."}) + "\n", encoding="utf-8")
    assert sentences_of(tmp_path / "texts.jsonl", 1000)[0] == ["Ada saw Paris."]


@pytest.mark.parametrize("text", ["ΟΔΟΣ ΑΘΗΝΩΝ".lower(), "ΟΔΟΣΑΘΗΝΩΝ", "οδοσ αθηνων !?"])
def test_the_key_of_a_sentence_is_the_same_however_greek_words_are_cut(text):
    assert make_leak_key(text) == make_leak_key("ΟΔΟΣ ΑΘΗΝΩΝ")


HELD_OUT = [
    "In 1969 , Scheinman invented the Stanford arm :",
    "Bob founded Foo Inc. The firm sold robots .",
    "It is .",
    "Learning with kernels , Dr. J. Roe says , is an old idea",
]
AROUND = ["He was an engineer.", "It was electric.", "Robots are old, says A. B.", "(It closed.)", "and it ended"]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([*HELD_OUT, *AROUND]), min_size=1, max_size=5))
def test_held_out_sentences_are_found_inside_paragraphs(pieces):
    """However the splitter cuts: no 20 letters in a row of a longer one stay that begin or end a sentence."""
    excluded = frozenset(map(make_leak_key, HELD_OUT))
    found = split_sentences(" ".join(pieces))
    keep = find_kept(found, " ".join(pieces), excluded)
    kept = [text for text, stays in zip(found, keep, strict=True) if stays]
    assert not any(make_leak_key(text) in excluded for text in kept)
    if not any(piece in HELD_OUT for piece in pieces):
        assert all(keep), "what holds none of them is kept whole"
    for held in HELD_OUT:
        if len(held) > 30 and pieces[0] == held and pieces.count(held) == 1:
            assert not any(
                make_leak_key(text) in make_leak_key(held) or make_leak_key(held) in make_leak_key(text)
                for text in kept
            )


def test_a_held_out_sentence_that_is_cut_in_two_or_joined_to_another_is_left_out_and_counted(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(
        "He was an engineer. In 1969, Scheinman invented the Stanford arm: It was electric.\n"
        "Robots are old. Bob founded Foo Inc. The firm sold robots. It closed.\nIt is. It is so.\n"
    )
    found, counts = sentences_of(path, 1000, excluded=frozenset(map(make_leak_key, HELD_OUT)))
    assert found == ["He was an engineer.", "Robots are old.", "It closed.", "It is so."]
    assert counts["dropped_leaks"] == counts["sentences"] - 4


@pytest.mark.parametrize("line", ["." * (1 << 17) + "x", ".\u2029" * (1 << 16)])
def test_a_line_of_dots_takes_no_time(tmp_path, line):
    path = tmp_path / "text.txt"
    path.write_text(line, encoding="utf-8")
    excluded = frozenset([make_leak_key("Anna met Peter in town.")])
    with within(10):
        assert sentences_of(path, 1 << 20, excluded=excluded)


def test_a_line_that_does_not_fit_into_memory_is_refused_wherever_the_part_begins(tmp_path, monkeypatch):
    monkeypatch.setattr("crossner_cli.data.files.LONGEST_LINE", 50)
    path = tmp_path / "a.txt"
    path.write_text("Ada\n" + "x" * 120 + "\nBob\n")
    for start in (0, 1, 3, 5, 40):
        with pytest.raises(CrossNERError, match="a line that is longer"):
            list(read_part(path, start, path.stat().st_size))


@pytest.mark.parametrize("form", ["jsonl", "txt"])
def test_a_book_is_read_some_sentences_at_a_time_with_the_same_result(tmp_path, monkeypatch, form):
    names = tmp_path / "names.tsv"
    names.write_text("Ada Roe\tperson\nRome\tcity\n")
    book = " ".join(f"Ada Roe saw Rome {number} times. Nobody knew, as Mr. Fox said." for number in range(40))
    path = tmp_path / f"books.{form}"
    texts = [book, "Ada Roe left Rome.", book.replace(".", ",")]
    path.write_text("".join((json.dumps({"text": text}) if form == "jsonl" else text) + "\n" for text in texts))

    def written(folder):
        selection = Selection(specialised_types=frozenset({"city"}), execution=Execution(workers=1))
        counts = exhaust(write_levels([path], [names], folder, selection))
        return counts, [each.read_bytes() for each in sorted(folder.iterdir())]

    whole = written(tmp_path / "whole")
    monkeypatch.setattr("crossner_cli.corpus.sentences.CHARACTERS_AT_ONCE", 150)
    assert written(tmp_path / "pieces") == whole
