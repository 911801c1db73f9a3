from __future__ import annotations

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

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders import word_vectors
from crossner_cli.encoders.word_encoder import WordEncoder
from crossner_cli.encoders.word_reader import WordInputs, collect_vocabulary
from crossner_cli.encoders.word_vectors import WordVectors, character_ngrams, read_vectors, train_vectors
from crossner_cli.errors import CrossNERError

Table = dict[str, list[float]]
TABLE: Table = {"the": [0.5, -1.25, 3.0], "Paris": [1e-7, 2.5, -0.125], "münchen": [7.0, 0.0, -3.5]}


def _line(word: str, values: list[float]) -> bytes:
    return " ".join([word, *(f"{value:.9g}" for value in values)]).encode()


def glove(table: Table) -> bytes:
    return b"".join(_line(*entry) + b"\n" for entry in table.items())


def header(table: Table) -> bytes:
    return f"{len(table)} {len(next(iter(table.values())))}\n".encode()


def word2vec(table: Table) -> bytes:
    return header(table) + glove(table)


def fast_text(table: Table) -> bytes:
    return header(table) + b"".join(_line(*entry) + b" \n" for entry in table.items())


def windows(table: Table) -> bytes:
    return glove(table).replace(b"\n", b"\r\n")


def byte_order_mark(table: Table) -> bytes:
    return b"\xef\xbb\xbf" + glove(table)


def unfinished_line(table: Table) -> bytes:
    return glove(table).removesuffix(b"\n")


def binary(table: Table, line_end: bytes = b"") -> bytes:
    entries = [word.encode() + b" " + np.array(values, "<f4").tobytes() + line_end for word, values in table.items()]
    return header(table) + b"".join(entries)


def binary_lines(table: Table) -> bytes:
    return binary(table, b"\n")


def gzipped(write: Callable[[Table], bytes]) -> Callable[[Table], bytes]:
    return lambda table: gzip.compress(write(table), 1)


TEXTS = [glove, word2vec, fast_text, windows, byte_order_mark, unfinished_line]
FORMATS = {write.__name__: write for write in [*TEXTS, binary, binary_lines]}
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


def test_every_format_gives_the_same_vectors(write, read) -> None:
    vectors = read(write(TABLE), "münchen", "the", "nowhere", "Paris", "the")
    assert vectors.words == ("münchen", "the", "Paris") and vectors.size == 3
    assert vectors.rows.dtype == np.float32
    assert as_table(vectors) == {word: np.float32(TABLE[word]).tolist() for word in vectors.words}
    assert vectors.asked == 4 and vectors.entries == 3 and vectors.share == 0.75
    assert vectors.announced in (3, None) and vectors.repeated == vectors.undecodable == 0


def test_every_format_is_read_alike_in_blocks_of_any_size(write, read, monkeypatch) -> None:
    table = {f"{letter}{'x' * number}": [number, 1.5, -2] for number, letter in enumerate("aeiouäß" * 4)}
    expected = as_table(read(write(table), *table))
    assert len(expected) == 28
    # The head of a file must hold its first two lines.
    for size in (32, 33, 47, 100, 1024):
        monkeypatch.setattr(word_vectors, "BLOCK", size)
        assert as_table(read(write(table), *table)) == expected


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1).filter(
    lambda word: not word.startswith(("PK", "BZ"))
)
values = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=4, max_size=4)


@given(st.sampled_from(TEXTS), st.dictionaries(words, values))
@example(glove, {". . .": [1, 2, 3, 4], ".": [5, 6, 7, 8], "\u00a0": [1, 1, 1, 1], "a\u2028b\x85c": [2, 2, 2, 2]})
@example(
    word2vec, {" a": [1, 2, 3, 4], "a ": [5, 6, 7, 8], "a": [0, 0, 0, 1], "web 2.0": [1, 1, 1, 1], " ": [9, 9, 9, 9]}
)
@example(glove, {"x" * 200_000: [1, 2, 3, 4], "nan": [1, 2, 3, 4], "1e5": [4, 3, 2, 1], "\r": [1, 1, 1, 1]})
def test_odd_words_of_text_come_back(write, table) -> None:
    table = {"first": [1.0, 2.0, 3.0, 4.0], **table}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "vectors")
        path.write_bytes(write(table))
        assert as_table(read_vectors(path, table)) == table


usual_values = st.lists(st.floats(-(2**19), 2**19, width=32), min_size=4, max_size=4)


@given(st.dictionaries(words.filter(lambda word: " " not in word), usual_values), st.booleans())
def test_odd_words_of_binary_come_back(table, line_ends) -> None:
    table = {"first": [1.0, 2.0, 3.0, 4.0], **table}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "vectors")
        path.write_bytes(binary(table, b"\n" if line_ends else b""))
        assert as_table(read_vectors(path, table)) == table


def test_a_word_is_not_taken_for_a_longer_one_that_begins_with_it(read) -> None:
    content = b"a 1 1\n. . . 2 2\nNew York 3 3\nwindows 95 5 5\nNew 4 4\nwindows 6 6\n"
    assert as_table(read(content, ".", "New", "windows")) == {"New": [4, 4], "windows": [6, 6]}


@pytest.mark.parametrize("order", [1, -1])
def test_forms_are_preferred_in_one_order_whatever_the_order_of_the_file(read, order) -> None:
    forms = ["MP3", "mp3", "MP0", "mp0"]
    for best, kind in enumerate(["exact", "lower_cased", "digits", "digits"]):
        table = {"other": [9.0, 9.0]} | {
            form: [float(number), 0.0] for number, form in enumerate(forms) if number >= best
        }
        vectors = read(glove(dict(list(table.items())[::order])), "MP3")
        assert as_table(vectors) == {"MP3": [best, 0]} and vectors.forms == (kind,)
    assert read(b"other 9 9\n", "MP3").counts["missing"] == 1


def test_other_forms_are_not_looked_up_where_they_are_not_wanted(read) -> None:
    content = glove({"mp3": [1.0, 1.0], "MP0": [2.0, 2.0], "mp0": [3.0, 3.0], "x": [4.0, 4.0]})
    assert read(content, "MP3", "x", exact_only=True).words == ("x",)


def test_words_that_share_a_form_all_get_its_vector(read) -> None:
    vectors = read(glove({"paris": [1.0, 2.0], "x": [0.0, 0.0]}), "PARIS", "Paris", "paris")
    assert vectors.counts == {"exact": 1, "lower_cased": 2, "digits": 0, "n_grams": 0, "missing": 0}
    assert vectors.rows.tolist() == [[1, 2]] * 3 and vectors.repeated == 0


def test_what_the_file_writes_in_the_place_of_words_becomes_words_of_the_same_vectors(read) -> None:
    content = glove({"paris": [1.0, 2.0], "0000": [3.0, 4.0], "Anna": [5.0, 6.0], "anna": [7.0, 8.0]})
    vectors = read(content, "Paris", "PARIS", "1998", "Anna", "nowhere")
    wider = vectors.include_written_forms()
    assert as_table(wider) == as_table(vectors) | {"paris": [1, 2], "0000": [3, 4]}
    assert wider.words[: len(vectors.words)] == vectors.words and len(wider.forms) == len(wider.words)
    assert wider.counts == vectors.counts | {"exact": 3} and as_table(wider.include_written_forms()) == as_table(wider)


def test_nothing_is_called_complete_that_is_not(read) -> None:
    words = [f"w{number}" for number in range(5000)]
    content = b"".join(word.encode() + b" 1 1\n" for word in words)
    assert "5,000 of 5,001 words found (99.9 %)" in read(content, *words, "nowhere").describe()
    assert "5,000 of 5,000 words found (100.0 %)" in read(content, *words).describe()


@pytest.mark.parametrize("content", [b"2 9\nthe 1 1\na 2 2\n", b"2 2 9\nthe 1.0 1 1\na 2.0 2 2\n"])
def test_a_first_line_of_another_width_than_all_others_is_named(content, read) -> None:
    with pytest.raises(CrossNERError, match="'the' has") as caught:
        read(content, "the")
    assert caught.value.hint is not None and "The first line of the file tells of" in caught.value.hint


def test_the_description_tells_what_was_found_and_what_was_odd(read) -> None:
    content = b"9 2\nthe 1 1\nthe 2 2\np\xff 3 3\nparis 4 4\n00 5 5\n"
    vectors = read(content, "the", "Paris", "47", "nowhere")
    assert vectors.describe() == (
        "vectors: 2 values, 3 of 4 words found (75.0 %): 1 as they are, 1 lower-cased, 1 with digits as 0; "
        "9 vectors announced, 5 there; 1 repeated (the first counts); 1 not UTF-8 (skipped)"
    )
    assert vectors.rows[vectors.index["the"]].tolist() == [1, 1]
    assert read(b"the 1 1\n").describe() == "vectors: 2 values, 0 of 0 words found (0.0 %)"
    assert read(b"the 1 1\n", "x").rows.shape == (0, 2)


def test_words_that_no_file_can_hold_are_missing(read) -> None:
    content = b"the 1 1\n 2 2\n\n\xed\xa0\x80 3 3\n"
    vectors = read(content, "", "\ud800", "a\nb", "the")
    assert vectors.words == ("the",) and vectors.undecodable == 1 and vectors.entries == 3


def test_binary_counts_repeated_and_undecodable_words(read) -> None:
    value = np.float32([1, 2]).tobytes()
    vectors = read(b"7 2\nthe " + value + b"the " + value[::-1] + b"\xff\xfe " + value, "the")
    assert as_table(vectors) == {"the": [1, 2]}
    assert (vectors.repeated, vectors.undecodable, vectors.entries, vectors.announced) == (1, 1, 3, 7)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"\n\n", "no word with its vector"),
        (b"some text that is no vector\n", "'some text that is no vector'"),
        (b"the\t0.1\t0.2\n", "no word with its vector"),
        (b"the 23135851162\nof 13151942776\n", "no word with its vector"),
        (b"3 0\n", "no word with its vector"),
        (b"3 99999999999\nthe 1 2\n", "no word with its vector"),
        (b"\x00\xff\x80" * 100, "no word with its vector"),
        (b"3 2\n", "holds no vectors"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"\xba\x16\x4f\x2f\x0c\x00", "fastText model"),
        (b"3 4\n" + b"\xff" * 70_000, "byte 4: no word ends"),
    ],
)  # fmt: skip
def test_other_files_are_refused(refusal, content, problem) -> None:
    assert problem in refusal(content, "the")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"paris 0.1 0.2", ":3: 'paris' has 2 values, expected 3"),
        (b"paris", ":3: 'paris' has 0 values"),
        (b"paris 0.1 0.2 0.3 0.4", ":3: 'paris' has 4 values"),
        (b"paris 0.1 0.2 0.3 x 0.1 0.2 0.3", ":3: 'paris' has 7 values"),
        (b"paris 0.1 abc 0.3", "abc"),
        (b"paris 0.1 0.2\xff 0.3", ":3: vector of 'paris'"),
        (b"paris 0.1 nan 0.3", ":3: 'paris' has the value nan"),
        (b"paris 0.1 0.2 -inf", ":3: 'paris' has the value -inf"),
        (b"paris 0.1 1e60 0.3", ":3: 'paris' has the value inf"),
    ],
)  # fmt: skip
def test_wrong_lines_are_refused_if_their_word_is_wanted(refusal, read, line, problem) -> None:
    content = b"the 1 2 3\nof 1 2 3\n" + line + b"\nafter 1 2 3\n"
    assert problem in refusal(content, "Paris")
    assert read(content, "after").words == ("after",)
    assert problem.replace(":3:", ":4:") in refusal(b"4 3\n" + content, "Paris")


def test_a_wrong_first_line_behind_a_header_is_told_as_text(refusal) -> None:
    assert "'the' has 2 values, expected 3" in refusal(b"2 3\nthe 1 2\nof 1 2 3\n", "the")
    assert "could not convert string to float: b'x'" in refusal(b"2 3\nthe 1 2 x\nof 1 2 3\n", "the")


def test_binary_values_that_are_not_finite_are_refused(refusal) -> None:
    content = binary({"the": [1.0, 2.0], "of": [1.0, float("nan")]})
    assert "byte 16: 'of' has the value nan" in refusal(content, "of")


def test_letters_of_a_word_behind_its_space_are_not_taken_for_values_in_binary(refusal, read) -> None:
    content = binary({"New York": [1.0, 2.0], "of": [3.0, 4.0], "the": [5.0, 6.0]})
    assert "byte 4: 'New' has the value 2.93e+26, which no vector has" in refusal(content, "New")
    assert as_table(read(content, "the")) == {"the": [5, 6]}


def test_a_binary_file_cut_off_anywhere_is_refused_or_told(refusal, read) -> None:
    content = binary(TABLE)
    whole = {len(binary(dict(list(TABLE.items())[:count]))): count for count in (1, 2, 3)}
    for end in range(len(header(TABLE)) + 1, len(content)):
        if end in whole:
            vectors = read(content[:end], "the")
            assert vectors.entries == whole[end] != vectors.announced
        else:
            assert "ends within this entry" in refusal(content[:end], "nowhere")


def test_a_binary_file_of_more_values_than_its_first_line_tells_is_not_called_cut_off(read) -> None:
    table = {f"word{number}": [1.0 + number, 2.0, 3.0] for number in range(20)}
    content = binary(table).replace(b"20 3", b"20 2", 1)
    with pytest.raises(CrossNERError, match="21 of 20") as caught:
        read(content, "nowhere")
    assert caught.value.hint == "Its first line tells of 2 values a vector, and there are more."


def test_a_gzip_file_cut_off_or_damaged_is_refused(refusal) -> None:
    table = {f"word{number}": np.random.default_rng(number).random(5).tolist() for number in range(50)}
    content = gzip.compress(glove(table))
    for end in range(3, len(content), 97):
        assert "cannot be read behind byte 0" in refusal(content[:end], "word1")
    for position in range(12, len(content), 211):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        refusal(bytes(damaged), "nowhere")


def test_what_is_no_file_is_refused(tmp_path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(CrossNERError, match="cannot be read"):
            read_vectors(path, ["the"])


def test_a_line_without_end_is_refused_before_it_fills_the_memory(refusal, monkeypatch) -> None:
    monkeypatch.setattr(word_vectors, "LONGEST_LINE", 5_000)
    monkeypatch.setattr(word_vectors, "BLOCK", 1_000)
    assert "line of more than 5,000 bytes" in refusal(b"the 1 2\n" + b"x" * 10_000, "the")


def test_a_pipe_is_read(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", f"open({str(pipe)!r}, 'wb').write({gzip.compress(glove(TABLE))!r})"]):
        assert read_vectors(pipe, ["the"]).rows.tolist() == [TABLE["the"]]


MEASURE = """
    import re, sys
    from pathlib import Path
    from crossner_cli.encoders.word_vectors import read_vectors

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
    head = b"" if kind == "text" else b"%d 75\n" % number
    for name, count in (("small", 10), ("large", number)):
        content = head + b"".join(entries[:count])
        (tmp_path / name).write_bytes(gzip.compress(content, 1) if kind == "gzip" else content)
    assert len(content) > 49_000_000
    command = [sys.executable, "-c", textwrap.dedent(MEASURE), str(tmp_path / "small"), str(tmp_path / "large")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(output) < 20_000  # KiB


def test_keys_are_the_grams_of_begin_characters_and_end() -> None:
    assert character_ngrams("ab") == [
        "2gram-#BEGIN#a", "2gram-ab", "2gram-b#END#", "3gram-#BEGIN#ab", "3gram-ab#END#", "4gram-#BEGIN#ab#END#",
    ]  # fmt: skip
    assert character_ngrams("c") == ["2gram-#BEGIN#c", "2gram-c#END#", "3gram-#BEGIN#c#END#"]
    assert character_ngrams("") == ["2gram-#BEGIN##END#"]


@given(st.text())
def test_a_word_of_n_characters_has_three_n_keys(word) -> None:
    # n + 2 symbols: n + 1 pairs, n triples and n - 1 quadruples.
    keys = character_ngrams(word)
    assert len(keys) == (3 * len(word) if word else 1)
    assert keys == sorted(keys, key=lambda key: key[0])


def character_vector(word: str, vectors: WordVectors) -> np.ndarray:
    """What an encoder of words makes of a word that has nothing but published vectors of n-grams."""
    inputs = WordInputs(words="none", characters="ngrams", input_dropout=0.0)
    encoder = WordEncoder(collect_vocabulary([], inputs, ngram_vectors=vectors), inputs, ngram_vectors=vectors).eval()
    batch = encoder.reader.collate(encoder.reader.encode([Sentence((word,))]))
    return encoder(batch)[0, 0].detach().numpy()


def test_the_vector_of_a_word_is_the_mean_of_its_known_grams_each_as_often_as_it_occurs(read) -> None:
    table = {
        "2gram-aa": [1.0, 4.0],
        "3gram-#BEGIN#aa": [4.0, -2.0],
        "4gram-zzzz": [100.0, 100.0],
        "2gram-AA": [9.0, 9.0],
    }
    keys = character_ngrams("aaa")
    vectors = read(glove(table), *keys, exact_only=True)
    assert keys.count("2gram-aa") == 2
    assert character_vector("aaa", vectors).tolist() == [2, 2]


def test_a_word_without_known_grams_gets_zeros(read) -> None:
    vectors = read(glove({"2gram-ab": [1.0, 2.0, 3.0]}), "2gram-ab", exact_only=True)
    for word in ("東京", "b", ""):
        vector = character_vector(word, vectors)
        assert vector.tolist() == [0, 0, 0] and vector.dtype == np.float32


def test_training_without_gensim_tells_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(CrossNERError, match="gensim") as caught:
        train_vectors([["a"]], seed=0, epochs=1, minimum_count=1, workers=1)
    assert caught.value.hint == 'pip install "crossner[vectors]"'


SENTENCES = [["the", "cat", "sat", "on", "a", "mat"], ["a", "dog", "sat", "there"], ["once"]] * 30 + [["rare", "the"]]


def train(sentences=SENTENCES, *, seed=1, minimum_count=2, words=None) -> WordVectors:
    pytest.importorskip("gensim.models")
    return train_vectors(sentences, size=8, seed=seed, epochs=2, minimum_count=minimum_count, workers=1, words=words)


@pytest.fixture(autouse=True)
def few_buckets(monkeypatch) -> None:
    monkeypatch.setattr(word_vectors, "BUCKETS", 500)


def test_training_gives_the_same_vectors_for_the_same_seed_only() -> None:
    first, again, other = train(), train(iter(SENTENCES)), train(seed=2)
    assert first.words == again.words and set(first.words) == {word for s in SENTENCES for word in s} - {"rare"}
    assert np.array_equal(first.rows, again.rows) and not np.array_equal(first.rows, other.rows)
    assert first.rows.shape == (9, 8) and first.rows.dtype == np.float32 and np.isfinite(first.rows).all()


def test_vectors_are_those_of_skip_gram() -> None:
    models = pytest.importorskip("gensim.models")
    model = models.FastText(
        SENTENCES, vector_size=8, sg=1, min_count=2, bucket=500, seed=1, workers=1, epochs=2, min_n=3, max_n=6
    )
    vectors = train()
    assert np.array_equal(vectors.rows, np.stack([model.wv[word] for word in vectors.words]))


def test_words_that_were_not_learnt_get_the_vector_of_their_n_grams() -> None:
    vectors = train(words=["cat", "cats", "rare", "", "cat"])
    assert vectors.words == ("cat", "cats", "rare") and vectors.forms == ("exact", "n_grams", "n_grams")
    assert vectors.describe() == (
        "fastText: 8 values, 3 of 4 words found (75.0 %): 1 as they are, 2 from their character n-grams"
    )
    assert np.abs(vectors.rows).sum(axis=1).min() > 0


def test_long_sentences_are_learnt_to_their_end() -> None:
    vectors = train([["a"] * 10_000 + ["z", "y"] * 50], words=None)
    untrained = train([["a"] * 10_000 + ["z", "y"] * 2], words=None)
    assert not np.allclose(vectors.rows[vectors.index["z"]], untrained.rows[untrained.index["z"]])


@pytest.mark.parametrize("sentences", [[], [[]], [["a"]]])
def test_text_without_a_frequent_word_is_refused(sentences) -> None:
    with pytest.raises(CrossNERError, match="No word of the text occurs 2 times"):
        train(sentences)


@pytest.mark.parametrize("separator", [b"\t", b",", b";"])
def test_values_behind_a_header_that_no_spaces_separate_are_told_as_such_and_not_as_a_damaged_file(
    refusal, separator
) -> None:
    content = b"2 3\n" + b"the 1 2 3\nof 1 2 3\n".replace(b" ", separator)
    assert "separates values by something else than spaces: 'the" in refusal(content, "the")


def test_blank_lines_behind_a_header_do_not_make_text_binary(read) -> None:
    for end in (b"\n", b"\r\n"):
        lines = [b"2 3", b"", b"the 1 2 3", b"of 4 5 6", b""]
        assert as_table(read(end.join(lines), "the", "of")) == {"the": [1, 2, 3], "of": [4, 5, 6]}
