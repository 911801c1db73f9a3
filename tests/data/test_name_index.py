"""Names found in much text at once: as by trying every span, and as a library for many patterns finds them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crossner_cli.data.name_index import Case, NameIndex, index_names, read_name_index
from crossner_cli.data.names import read_names
from crossner_cli.data.text import find_words
from crossner_cli.data.word_scan import hash_lines, scan_words
from crossner_cli.errors import CrossNERError

Found = list[tuple[int, str]]


def find(index: NameIndex, lines: list[str]) -> Found:
    """The line and the text of each mention."""
    scan = scan_words("\n".join(lines))
    mentions = index.find(scan)
    found = []
    for first, last in zip(mentions.starts.tolist(), mentions.ends.tolist(), strict=True):
        line = int(scan.line_of_word[first])
        begin = int(scan.line_starts[line])
        found.append((line, lines[line][int(scan.starts[first]) - begin : int(scan.ends[last - 1]) - begin]))
    return found


def words_of(line: str) -> list[str]:
    scan = scan_words(line)
    return [f"\n{line}"[start:end] for start, end in zip(scan.starts.tolist(), scan.ends.tolist(), strict=True)]


WORDS = st.sampled_from(["a", "b", "ab", "B", "a.", "c-d"])
LINES = st.lists(st.lists(WORDS, min_size=1, max_size=9).map(" ".join), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.dictionaries(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), st.sampled_from("XY"), max_size=9), LINES)
def test_names_are_found_as_by_trying_every_span(listed: dict[str, str], lines: list[str]) -> None:
    expected: Found = []
    names = {tuple(words_of(name)) for name in listed}
    for number, line in enumerate(lines):
        words, start = words_of(line), 0
        while start < len(words):
            ends = [end for end in range(len(words), start, -1) if tuple(words[start:end]) in names]
            if ends:
                expected.append((number, tuple(words[start : ends[0]])))  # type: ignore[arg-type]
            start = ends[0] if ends else start + 1
    found = find(index_names(listed.items()), lines)
    assert [(line, tuple(words_of(text))) for line, text in found] == expected


def test_names_are_found_as_aho_corasick_finds_them() -> None:
    ahocorasick = pytest.importorskip("ahocorasick_rs")
    random = np.random.default_rng(5)
    words = [f"w{number}" for number in range(60)]
    names = list({" ".join(random.choice(words, random.integers(1, 5))) for _ in range(800)})
    lines = [" ".join(random.choice(words, 25)) for _ in range(200)]
    # With two spaces between words, names next to one another share none.
    automaton = ahocorasick.AhoCorasick(
        [f" {name} ".replace(" ", "  ")[1:-1] for name in names], matchkind=ahocorasick.MatchKind.LeftmostLongest
    )
    expected = [
        (number, names[pattern])
        for number, line in enumerate(lines)
        for pattern, _, _ in automaton.find_matches_as_indexes(f" {line} ".replace(" ", "  ")[1:-1])
    ]
    assert find(index_names((name, "X") for name in names), lines) == expected
    assert len(expected) > 500


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("exact", ["Paris", "jazz", "O'Neill"]),
        ("ignore", ["Paris", "PARIS", "Jazz", "jazz", "o'neill", "O'Neill"]),
    ],
)
def test_case_counts_unless_it_is_ignored(case: Case, expected: list[str]) -> None:
    index = index_names([("Paris", "city"), ("jazz", "genre"), ("O'Neill", "person")], case=case)
    assert [text for _, text in find(index, ["Paris PARIS: Jazz, jazz", "o'neill's O'Neill's"])] == expected


def test_a_loaded_index_is_the_one_saved(tmp_path: Path) -> None:
    names = [("Ada Lovelace", "person"), ("Paris", "city"), ("Paris", "person"), ("jazz", "genre")]
    index = index_names(names, case="ignore")
    index.save(tmp_path / "names")
    again = NameIndex.load(tmp_path / "names")
    line = ["Ada Lovelace heard Jazz in Paris."]
    assert find(again, line) == find(index, line) == [(0, "Ada Lovelace"), (0, "Jazz"), (0, "Paris")]
    assert (again.type_sets, again.counts, again.count_types()) == (
        index.type_sets,
        index.counts,
        index.count_types(),
    )


def test_a_list_is_counted_as_names_counts_it(tmp_path: Path) -> None:
    path = tmp_path / "names.tsv"
    path.write_text("Dr No\tfilm\n\nDr  No \tfilm\nDr No\tperson\nÉcole\torg\n我们\torg\n", encoding="utf-8")
    index, names = read_name_index([path, path]), read_names([path, path])
    types = Counter(each for of_name in names.types.values() for each in of_name)
    assert (index.counts, index.count_types()) == (names.counts, dict(types))
    assert index.list_types() == "film (1 names), org (2 names), person (1 names)"
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(CrossNERError, match="no name was found"):
        read_name_index([path])


def test_of_hundreds_of_types_a_message_shows_those_with_most_names() -> None:
    entries = [(f"Ada{number}", f"class{number}") for number in range(100)] + [("Bob", "person"), ("Eve", "person")]
    shown = index_names(entries).list_types()
    assert shown.count(",") == 39 and "person (2 names)" in shown and shown.endswith(" and 61 more")


def test_no_name_goes_over_the_end_of_a_line() -> None:
    index = index_names([("New York", "city")])
    assert find(index, ["a New", "York New York", "New"]) == [(1, "New York")]


TOKENS = """The U.S. company's don't can't well-known J. R. Smith (1999) 3.5 1,200 10:30 "Yes" Ada, end. O'Hara AT&T
    O'Neill's they've -- ... me@home.org #tag -5 é naïve 我们 नमस्ते C 's n't we'll A.B. [1] café's"""
ORDINARY = st.lists(st.sampled_from(TOKENS.split()), min_size=1, max_size=8).map(" ".join)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(ORDINARY)
@example("J.")
def test_ordinary_words_are_those_of_find_words(line: str) -> None:
    expected = [word.text for word in find_words(line)]
    # An initial or a clitic of its own is read differently where a longer look tells what it is.
    assert words_of(line) == expected or re.search(r"(^| )(n't|C|-5|A\.B\.)( |$)", line)


def test_words_are_counted_by_line() -> None:
    scan = scan_words("One, two.\nThree\nfour's")
    assert scan.words_of_lines.tolist() == [4, 1, 2]
    assert scan.line_of_word.tolist() == [0, 0, 0, 0, 1, 2, 2]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.text("abcéß我", min_size=1, max_size=6), min_size=2, max_size=12))
def test_hashes_are_equal_where_words_are(words: list[str]) -> None:
    lines = hash_lines("\n".join(words))
    assert [lines[0] == each for each in lines] == [words[0] == word for word in words]
    scan = scan_words("\n".join(f"{word} {word.upper() if word.upper().lower() == word else word}" for word in words))
    hashes = scan.hash_words(ignore_case=True)
    for first, last in zip(scan.first_words[:-1].tolist(), scan.first_words[1:].tolist(), strict=True):
        half = (last - first) // 2
        assert hashes[first : first + half].tolist() == hashes[first + half : last].tolist()
