"""Lists of names; names found as by trying every span, and as a library for many patterns finds them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.data.names import Case, Name, NameFinder, NameIndex, index_names, read_name_index, read_names
from crossner_cli.data.word_scan import scan_words
from crossner_cli.errors import CrossNERError

Found = list[tuple[int, str]]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.sets(st.lists(st.sampled_from("abc"), max_size=4).map(tuple), max_size=8),
    st.lists(st.sampled_from("abcd"), max_size=12).map(tuple),
)
def test_names_are_found_as_by_trying_every_span(names: set[Name], words: Name) -> None:
    places = range(len(words) + 1)
    spans = [(start, end) for start in places for end in reversed(places[start + 1 :]) if words[start:end] in names]
    expected, start = [], 0
    while start < len(words):
        ends = [end for begin, end in spans if begin == start]
        expected += [(start, ends[0])] if ends else []
        start = ends[0] if ends else start + 1
    finder = NameFinder(names)
    assert (list(finder.find_all(words)), finder.find(words)) == (spans, expected)


def test_lists_are_read_as_words_and_as_an_index(tmp_path: Path) -> None:
    path = tmp_path / "names.tsv"
    lines = ["\ufeffO'Neill's Inn\tpub\r", "", "Dr. No\tfilm", "Dr.  No \tfilm", "Dr. No\tperson", "École\tmusic org "]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    names, index = read_names([path, path]), read_name_index([path, path])
    assert index.counts == {"lines": 12, "blank_lines": 2, "names": 3, "repeated": 6, "names_with_several_types": 1}
    assert names.types == {
        ("O'Neill", "'s", "Inn"): ("pub",),
        ("Dr.", "No"): ("film", "person"),
        ("École",): ("music org",),
    }
    assert names.finder.find(("I", "saw", "Dr.", "No", "and", "Dr.", "Who")) == [(2, 4)]
    assert index.list_types() == "film (1 names), music org (1 names), person (1 names), pub (1 names)"
    path.write_text("\n \n", encoding="utf-8")
    for read in (read_names, read_name_index):
        with pytest.raises(CrossNERError, match=r"names.tsv: no name was found"):
            read([path])
    entries = [(f"Ada{number}", f"class{number}") for number in range(100)] + [("Bob", "person"), ("Eve", "person")]
    shown = index_names(entries).list_types()
    assert shown.count(",") == 39 and "person (2 names)" in shown and shown.endswith(" and 61 more")


@pytest.mark.parametrize("line", ["Ada Lovelace", "Ada\tB\tperson", "\tperson", "  \tperson", "Ada\t", "Ada\t "])
def test_a_malformed_line_is_shown_with_its_place(tmp_path: Path, line: str) -> None:
    path = tmp_path / "names.tsv"
    path.write_text(f"London\tcity\n{line}\n", encoding="utf-8")
    with pytest.raises(CrossNERError, match=r"names.tsv:2: expected 'name<TAB>type', got ") as problem:
        read_names([path])
    assert repr(line) in problem.value.problem
    assert "exactly one tab" in problem.value.hint


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
def test_names_of_an_index_are_found_as_by_trying_every_span(listed: dict[str, str], lines: list[str]) -> None:
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
    [("exact", ["Paris", "jazz", "O'Neill"]), ("ignore", ["Paris", "PARIS", "Jazz", "jazz", "o'neill", "O'Neill"])],
)
def test_case_counts_unless_it_is_ignored(case: Case, expected: list[str]) -> None:
    index = index_names([("Paris", "city"), ("jazz", "genre"), ("O'Neill", "person")], case=case)
    assert [text for _, text in find(index, ["Paris PARIS: Jazz, jazz", "o'neill's O'Neill's"])] == expected
    over_lines = find(index_names([("New York", "city")], case=case), ["a New", "York New York", "New"])
    assert over_lines == [(1, "New York")], "no name goes over the end of a line"


def test_a_loaded_index_is_the_one_saved(tmp_path: Path) -> None:
    names = [("Ada Lovelace", "person"), ("Paris", "city"), ("Paris", "person"), ("jazz", "genre")]
    index = index_names(names, case="ignore")
    index.save(tmp_path / "names")
    again = NameIndex.load(tmp_path / "names")
    line = ["Ada Lovelace heard Jazz in Paris."]
    assert find(again, line) == find(index, line) == [(0, "Ada Lovelace"), (0, "Jazz"), (0, "Paris")]
    assert again.type_sets == index.type_sets
    assert (again.counts, again.count_types()) == (index.counts, index.count_types())
