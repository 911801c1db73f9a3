"""A word cut alone equals the word cut inside a text, whatever the layout of the tokenizer."""

from pathlib import Path
from typing import Any

import pytest
from builders.tokenizers import LAYOUTS, TEXT, save_tokenizer, train_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers
from transformers import AutoTokenizer

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.pretrained import read_tokenizer
from crossner_cli.encoders.subwords import SubwordReader

# The mark of a space in two layouts is no part of a word.
LETTERS = st.characters(exclude_categories=("Cs", "Z", "C"), exclude_characters="▁")
WORDS = st.lists(
    st.sampled_from(" ".join(TEXT).split()) | st.text(LETTERS, min_size=1, max_size=8), min_size=1, max_size=9
)


@pytest.fixture(scope="module", params=LAYOUTS)
def made(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, Path]:
    """A tokenizer as trained, and its folder."""
    trained = train_tokenizer(request.param)
    return trained, save_tokenizer(trained, tmp_path_factory.mktemp(request.param))


def cut(reader: SubwordReader, words: list[str]) -> list[int]:
    (encoded,) = reader.encode([Sentence(tuple(words))])
    return [int(number) for number in encoded.windows[0]]


@given(words=WORDS)
def test_words_cut_alone_are_those_of_the_text(made: tuple[Tokenizer, Path], words: list[str]) -> None:
    trained, folder = made
    reader = SubwordReader(read_tokenizer(folder), 10_000)
    assert reader.differently_cut == []
    if all(trained.encode(f" {word}").ids for word in words):  # a word without subwords is read as an unknown one
        assert cut(reader, words) == trained.encode("".join(f" {word}" for word in words)).ids


def test_a_saved_tokenizer_cuts_so_too_wherever_it_is_read(made: tuple[Tokenizer, Path], tmp_path: Path) -> None:
    words = TEXT[0].split()
    tokenizer = read_tokenizer(made[1])
    expected = cut(SubwordReader(tokenizer, 100), words)
    tokenizer.save_pretrained(tmp_path)
    assert cut(SubwordReader(read_tokenizer(tmp_path), 100), words) == expected
    elsewhere = AutoTokenizer.from_pretrained(tmp_path)
    assert elsewhere(words, is_split_into_words=True, add_special_tokens=False)["input_ids"] == expected
    assert elsewhere(" ".join(words), add_special_tokens=False)["input_ids"] == expected


def test_what_no_space_puts_right_is_named_and_the_tokenizer_left_as_it_was(tmp_path: Path) -> None:
    trained = train_tokenizer("replace-split")
    trained.normalizer = normalizers.Sequence([normalizers.Strip(), trained.normalizer])
    tokenizer = read_tokenizer(save_tokenizer(trained, tmp_path))
    assert len(SubwordReader(tokenizer, 100).differently_cut) == 5
    assert "Prepend" not in repr(tokenizer.backend_tokenizer.normalizer)
