"""Files of word vectors: every format gives the same vectors, and what is damaged is refused."""

import gzip
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crossner_cli.errors import CrossNERError
from crossner_cli.recurrent import vector_files
from crossner_cli.recurrent.vector_files import read_vectors
from crossner_cli.recurrent.word_vectors import WordVectors

Table = dict[str, list[float]]
TABLE: Table = {"the": [0.5, -1.25, 3.0], "Paris": [1e-7, 2.5, -0.125], "münchen": [7.0, 0.0, -3.5]}


def glove(table: Table, line_end: bytes = b"\n") -> bytes:
    lines = (" ".join([word, *(f"{value:.9g}" for value in values)]) for word, values in table.items())
    return b"".join(line.encode() + line_end for line in lines)


def header(table: Table) -> bytes:
    return f"{len(table)} {len(next(iter(table.values())))}\n".encode()


def binary(table: Table, line_end: bytes = b"") -> bytes:
    entries = [word.encode() + b" " + np.array(values, "<f4").tobytes() + line_end for word, values in table.items()]
    return header(table) + b"".join(entries)


def gzipped(write: Callable[[Table], bytes]) -> Callable[[Table], bytes]:
    return lambda table: gzip.compress(write(table), 1)


TEXTS: dict[str, Callable[[Table], bytes]] = {
    "GloVe": glove,
    "word2vec": lambda table: header(table) + glove(table),
    "fastText": lambda table: header(table) + glove(table, b" \n"),
    "Windows": lambda table: glove(table, b"\r\n"),
    "byte order mark": lambda table: b"\xef\xbb\xbf" + glove(table),
    "unfinished line": lambda table: glove(table).removesuffix(b"\n"),
}
BINARIES: dict[str, Callable[[Table], bytes]] = {"binary": binary, "binary lines": lambda table: binary(table, b"\n")}
FORMATS = TEXTS | BINARIES
FORMATS |= {f"{name}.gz": gzipped(write) for name, write in FORMATS.items()}


@pytest.fixture(params=FORMATS)
def write(request: pytest.FixtureRequest) -> Callable[[Table], bytes]:
    return FORMATS[request.param]


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., WordVectors]:
    def read(content: bytes, *words: str, exact_only: bool = False) -> WordVectors:
        path = tmp_path / "vectors"
        path.write_bytes(content)
        return read_vectors(path, words, exact_only=exact_only)

    return read


@pytest.fixture
def refusal(read: Callable[..., WordVectors]) -> Callable[..., str]:
    def refusal(content: bytes, *words: str) -> str:
        with pytest.raises(CrossNERError) as caught:
            read(content, *words)
        assert caught.value.hint
        return caught.value.problem

    return refusal


def as_table(vectors: WordVectors) -> Table:
    return {word: vectors.rows[row].tolist() for word, row in vectors.index.items()}


def test_every_format_gives_the_same_vectors_in_blocks_of_any_size(write, read, monkeypatch) -> None:
    vectors = read(write(TABLE), "münchen", "the", "nowhere", "Paris", "the")
    assert vectors.words == ("münchen", "the", "Paris") and vectors.size == 3
    assert vectors.rows.dtype == np.float32
    assert as_table(vectors) == {word: np.float32(TABLE[word]).tolist() for word in vectors.words}
    assert vectors.asked == 4 and vectors.entries == 3 and not vectors.notes
    table = {f"{letter}{'x' * number}": [number, 1.5, -2] for number, letter in enumerate("aeiouäß" * 4)}
    expected = as_table(read(write(table), *table))
    assert len(expected) == 28
    # The head of a file must hold its first two lines.
    for size in (32, 33, 47, 100, 1024):
        monkeypatch.setattr(vector_files, "BLOCK", size)
        assert as_table(read(write(table), *table)) == expected


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1)
values = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=4, max_size=4)


def assert_comes_back(write: Callable[[Table], bytes], table: Table) -> None:
    table = {"first": [1.0, 2.0, 3.0, 4.0], **table}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "vectors")
        path.write_bytes(write(table))
        assert as_table(read_vectors(path, table)) == table


@given(st.sampled_from([*TEXTS]), st.dictionaries(words, values))
@example("GloVe", {". . .": [1, 2, 3, 4], ".": [5, 6, 7, 8], "\u00a0": [1, 1, 1, 1], "a\u2028b\x85c": [2, 2, 2, 2]})
@example(
    "word2vec", {" a": [1, 2, 3, 4], "a ": [5, 6, 7, 8], "a": [0, 0, 0, 1], "web 2.0": [1, 1, 1, 1], " ": [9, 9, 9, 9]}
)
@example("GloVe", {"x" * 200_000: [1, 2, 3, 4], "nan": [1, 2, 3, 4], "1e5": [4, 3, 2, 1], "\r": [1, 1, 1, 1]})
def test_odd_words_of_text_come_back(name, table) -> None:
    assert_comes_back(TEXTS[name], table)


usual_values = st.lists(st.floats(-(2**19), 2**19, width=32), min_size=4, max_size=4)


@given(st.sampled_from([*BINARIES]), st.dictionaries(words.filter(lambda word: " " not in word), usual_values))
def test_odd_words_of_binary_come_back(name, table) -> None:
    assert_comes_back(BINARIES[name], table)


def test_a_word_is_not_taken_for_a_longer_one_that_begins_with_it(read) -> None:
    content = b"a 1 1\n. . . 2 2\nNew York 3 3\nwindows 95 5 5\nNew 4 4\nwindows 6 6\n"
    assert as_table(read(content, ".", "New", "windows")) == {"New": [4, 4], "windows": [6, 6]}


def test_words_that_no_file_can_hold_are_missing_and_what_is_repeated_or_undecodable_is_counted(read) -> None:
    content = b"the 1 1\n 2 2\n\n\xed\xa0\x80 3 3\n"
    vectors = read(content, "", "\ud800", "a\nb", "the")
    assert vectors.words == ("the",) and vectors.entries == 3 and vectors.notes == ("1 not UTF-8 (skipped)",)
    value = np.float32([1, 2]).tobytes()
    vectors = read(b"3 2\nthe " + value + b"the " + value[::-1] + b"\xff\xfe " + value, "the")
    assert as_table(vectors) == {"the": [1, 2]}
    assert vectors.entries == 3 and vectors.notes == ("1 repeated (the first counts)", "1 not UTF-8 (skipped)")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"some text that is no vector\n", "'some text that is no vector'"),
        (b"the 23135851162\nof 13151942776\n", "no word with its vector"),
        (b"3 99999999999\nthe 1 2\n", "no word with its vector"),
        (b"\x00\xff\x80" * 100, "no word with its vector"),
        (b"3 2\n", "holds no vectors"),
        (b"2 3\nthe\t1\t2\t3\n", "does not separate values by spaces: 'the"),
        (b"3 4\nthe " + bytes(16) + b"\xff" * 70_000, "no word ends"),
        (binary({"of": [1.0, 2.0], "the": [1.0, float("nan")]}), "byte 15: 'the' has the value nan"),
    ],
)
def test_other_files_are_refused(refusal, content, problem) -> None:
    assert problem in refusal(content, "the")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"paris 0.1 0.2", ":3: 'paris' has 2 values, expected 3"),
        (b"paris 0.1 0.2 0.3 x 0.1 0.2 0.3", ":3: 'paris' has 7 values"),
        (b"paris 0.1 abc 0.3", "abc"),
        (b"paris 0.1 0.2\xff 0.3", ":3: vector of 'paris'"),
        (b"paris 0.1 nan 0.3", ":3: 'paris' has the value nan"),
        (b"paris 0.1 1e60 0.3", ":3: 'paris' has the value inf"),
    ],
)
def test_wrong_lines_are_refused_if_their_word_is_wanted(refusal, read, line, problem) -> None:
    content = b"the 1 2 3\nof 1 2 3\n" + line + b"\nafter 1 2 3\n"
    assert problem in refusal(content, "Paris")
    assert read(content, "after").words == ("after",)
    assert problem.replace(":3:", ":4:") in refusal(b"4 3\n" + content, "Paris")


def test_a_binary_file_cut_off_anywhere_is_refused(refusal) -> None:
    content = binary(TABLE)
    whole = {len(binary(dict(list(TABLE.items())[:count]))): count for count in (1, 2, 3)}
    for end in range(len(header(TABLE)) + 1, len(content)):
        if end in whole:
            assert f"has {whole[end]} of the 3 vectors it announces" in refusal(content[:end], "the")
        else:
            assert "the file ends within entry" in refusal(content[:end], "nowhere")


def test_a_gzip_file_cut_off_or_damaged_is_refused(refusal) -> None:
    table = {f"word{number}": np.random.default_rng(number).random(5).tolist() for number in range(50)}
    content = gzip.compress(glove(table))
    for end in range(3, len(content), 97):
        assert "cannot be read after byte 0" in refusal(content[:end], "word1")
    for position in range(12, len(content), 211):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        refusal(bytes(damaged), "nowhere")


def test_a_line_without_end_is_refused_before_it_fills_the_memory(refusal, monkeypatch) -> None:
    monkeypatch.setattr(vector_files, "LONGEST_LINE", 5_000)
    monkeypatch.setattr(vector_files, "BLOCK", 1_000)
    assert "line of more than 5,000 bytes" in refusal(b"the 1 2\n" + b"x" * 10_000, "the")


def test_a_pipe_is_read(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", f"open({str(pipe)!r}, 'wb').write({gzip.compress(glove(TABLE))!r})"]):
        assert read_vectors(pipe, ["the"]).rows.tolist() == [TABLE["the"]]


MEASURE = """
    import re, sys
    from pathlib import Path
    from crossner_cli.recurrent.vector_files import read_vectors

    def peak() -> int:
        # Not ru_maxrss: that begins with the peak of the process that started this one.
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

    wanted = ["word7", "WORD70000", "nowhere"]
    read_vectors(Path(sys.argv[1]), wanted)
    before = peak()
    assert len(read_vectors(Path(sys.argv[2]), wanted).words) == 2
    print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["text", "binary", "gzip"])
def test_a_large_file_is_not_held_in_memory(tmp_path, kind) -> None:
    values = np.random.default_rng(0).random(75, dtype=np.float32)
    tail = values.tobytes() if kind == "binary" else " ".join(f"{value:.6f}" for value in values).encode() + b"\n"
    number = 160_000 if kind == "binary" else 75_000
    entries = [f"word{n} ".encode() + tail for n in range(number)]
    for name, count in (("small", 10), ("large", number)):
        head = b"" if kind == "text" else b"%d 75\n" % count
        content = head + b"".join(entries[:count])
        (tmp_path / name).write_bytes(gzip.compress(content, 1) if kind == "gzip" else content)
    assert len(content) > 49_000_000
    command = [sys.executable, "-c", textwrap.dedent(MEASURE), str(tmp_path / "small"), str(tmp_path / "large")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(output) < 20_000  # KiB
