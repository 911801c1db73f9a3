"""Lists of names, and names found as by trying every span."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.data.names import Name, NameFinder, read_names
from crossner_cli.errors import CrossNERError


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
    finder = NameFinder({" ".join(name) for name in names})
    assert (list(finder.find_all(words)), finder.find(words)) == (spans, expected)


def test_lists_are_read_as_words(tmp_path: Path) -> None:
    path = tmp_path / "names.tsv"
    lines = ["\ufeffO'Neill's Inn\tpub\r", "", "Dr. No\tfilm", "Dr.  No \tfilm", "Dr. No\tperson", "École\tmusic org "]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    names = read_names([path, path])
    assert names.counts == {"lines": 12, "blank_lines": 2, "names": 3, "repeated": 6, "names_with_several_types": 1}
    assert names.types == {"O'Neill 's Inn": ("pub",), "Dr. No": ("film", "person"), "École": ("music org",)}
    assert names.finder.find(("I", "saw", "Dr.", "No", "and", "Dr.", "Who")) == [(2, 4)]
    assert names.list_types() == "film (1 names), music org (1 names), person (1 names), pub (1 names)"
    path.write_text("\n \n", encoding="utf-8")
    with pytest.raises(CrossNERError, match=r"names.tsv: there are no names"):
        read_names([path])
    entries = [f"Ada{number}\tclass{number}" for number in range(100)] + ["Bob\tperson", "Eve\tperson"]
    path.write_text("\n".join(entries), encoding="utf-8")
    shown = read_names([path]).list_types()
    assert shown.count(",") == 39 and "person (2 names)" in shown and shown.endswith(" and 61 more")


@pytest.mark.parametrize("line", ["Ada Lovelace", "Ada\tB\tperson", "\tperson", "  \tperson", "Ada\t", "Ada\t "])
def test_a_malformed_line_is_shown_with_its_place(tmp_path: Path, line: str) -> None:
    path = tmp_path / "names.tsv"
    path.write_text(f"London\tcity\n{line}\n", encoding="utf-8")
    with pytest.raises(CrossNERError, match=r"names.tsv:2: expected 'name<TAB>type', got ") as problem:
        read_names([path])
    assert repr(line) in problem.value.problem
    assert "exactly one tab" in problem.value.hint
