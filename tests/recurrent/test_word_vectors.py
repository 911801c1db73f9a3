"""Word vectors: their description, character n-grams, and training on raw text."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crossner_cli.errors import CrossNERError
from crossner_cli.recurrent import word_vectors
from crossner_cli.recurrent.vector_files import read_vectors
from crossner_cli.recurrent.word_vectors import WordVectors, character_ngrams, train_vectors


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., WordVectors]:
    def read(content: bytes, *words: str) -> WordVectors:
        path = tmp_path / "vectors"
        path.write_bytes(content)
        return read_vectors(path, words)

    return read


def as_table(vectors: WordVectors) -> dict[str, list[float]]:
    return {word: vectors.rows[row].tolist() for word, row in vectors.index.items()}


def test_what_the_file_writes_in_the_place_of_words_becomes_words_of_the_same_vectors(read) -> None:
    vectors = read(b"paris 1 2\n0000 3 4\nAnna 5 6\nanna 7 8\n", "Paris", "PARIS", "1998", "Anna", "nowhere")
    wider = vectors.include_written_forms()
    assert as_table(wider) == as_table(vectors) | {"paris": [1, 2], "0000": [3, 4]}
    assert wider.words[: len(vectors.words)] == vectors.words
    assert as_table(wider.include_written_forms()) == as_table(wider)


def test_keys_are_the_grams_of_begin_characters_and_end() -> None:
    pairs, triples = ["2gram-#BEGIN#a", "2gram-ab", "2gram-b#END#"], ["3gram-#BEGIN#ab", "3gram-ab#END#"]
    assert character_ngrams("ab") == [*pairs, *triples, "4gram-#BEGIN#ab#END#"]
    assert character_ngrams("c") == ["2gram-#BEGIN#c", "2gram-c#END#", "3gram-#BEGIN#c#END#"]
    assert character_ngrams("") == ["2gram-#BEGIN##END#"]


def test_training_without_gensim_tells_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(CrossNERError, match="gensim") as caught:
        train_vectors([["a"]], size=8, seed=0, epochs=1, minimum_count=1, words=["a"])
    assert caught.value.hint == 'pip install "crossner[vectors]"'


SENTENCES = [["the", "cat", "sat", "on", "a", "mat"], ["a", "dog", "sat", "there"], ["once"]] * 30 + [["rare", "the"]]


def train(sentences=SENTENCES, *, seed=1, minimum_count=2, words=None) -> WordVectors:
    pytest.importorskip("gensim.models")
    wanted = sorted({word for sentence in sentences for word in sentence} - {"rare"}) if words is None else words
    return train_vectors(sentences, size=8, seed=seed, epochs=2, minimum_count=minimum_count, words=wanted)


@pytest.fixture(autouse=True)
def few_buckets(monkeypatch) -> None:
    monkeypatch.setattr(word_vectors, "BUCKETS", 500)


def test_training_gives_the_vectors_of_skip_gram_the_same_for_the_same_seed_only() -> None:
    first, again, other = train(), train(), train(seed=2)
    assert first.words == again.words and set(first.words) == {word for s in SENTENCES for word in s} - {"rare"}
    assert np.array_equal(first.rows, again.rows) and not np.array_equal(first.rows, other.rows)
    assert first.rows.shape == (9, 8) and first.rows.dtype == np.float32 and np.isfinite(first.rows).all()
    model = pytest.importorskip("gensim.models").FastText(
        SENTENCES, vector_size=8, sg=1, min_count=2, bucket=500, seed=1, workers=1, epochs=2, min_n=3, max_n=6
    )
    assert np.array_equal(first.rows, np.stack([model.wv[word] for word in first.words]))


def test_long_sentences_are_learnt_to_their_end() -> None:
    long, short = (train([["a"] * 10_000 + ["z", "y"] * number]) for number in (50, 2))
    assert not np.allclose(long.rows[long.index["z"]], short.rows[short.index["z"]])


def test_words_that_were_not_learnt_get_the_vector_of_their_n_grams() -> None:
    vectors = train(words=["cat", "cats", "rare", "", "cat"])
    assert vectors.words == ("cat", "cats", "rare")
    assert vectors.describe() == ("fastText: 8 values, 3 of 4 words found (75.0 %)")
    assert np.abs(vectors.rows).sum(axis=1).min() > 0


@pytest.mark.parametrize("sentences", [[], [[]], [["a"]]])
def test_text_without_a_frequent_word_is_refused(sentences) -> None:
    with pytest.raises(CrossNERError, match="No word of the text occurs 2 times"):
        train(sentences)
