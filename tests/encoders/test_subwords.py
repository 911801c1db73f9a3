"""Words to subwords: every word gets a place, nothing is cut, and what could not be read is counted."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders import subwords as module
from crossner_cli.encoders.pretrained import read_tokenizer
from crossner_cli.encoders.subwords import EncodedSentence, SubwordReader, batches_by_length, cut_windows
from crossner_cli.errors import CrossNERError

TAG_SET = TagSet({"news": ("x",)})
WORDS = ["the", "London", "of", "anna", "x-ray", "acme", "3.14", "visited", "(a)", "Straße", "日本", "e.g."]
LIMIT = 64


@pytest.fixture(scope="module")
def reader(tiny_encoder_folder: Path) -> SubwordReader:
    return SubwordReader(read_tokenizer(tiny_encoder_folder), LIMIT)


def sentence_of(words: int, *, domain: str = "news", seed: int = 0) -> Sentence:
    generator = np.random.default_rng(seed)
    chosen = tuple(generator.choice(WORDS, words).tolist())
    return Sentence(chosen, tuple(generator.choice(["O", "B-x", "I-x"], words).tolist()), domain)


def first_ids(reader: SubwordReader, words: tuple[str, ...]) -> list[int]:
    return [
        reader.tokenizer([[word]], is_split_into_words=True, add_special_tokens=False)["input_ids"][0][0]
        for word in words
    ]


@st.composite
def long_sentences(draw: Any) -> tuple[list[int], int]:
    """Lengths of words in subwords, and the room of a window; no word is longer than that."""
    room = draw(st.integers(2, 12))
    lengths = draw(st.lists(st.integers(1, room), min_size=2, max_size=40).filter(lambda found: sum(found) > room))
    return lengths, room


@given(long_sentences())
def test_windows_cover_a_sentence_in_order_and_each_word_is_read_whole_where_it_has_most_context(case):
    lengths, room = case
    flat = np.arange(1000, 1000 + sum(lengths))  # a window tells where it was cut
    starts = np.cumsum(lengths) - np.array(lengths)
    windows, places = cut_windows(flat, starts, room)
    spans = [(int(window[0]) - 1000, int(window[-1]) - 999) for window in windows]
    assert all(1 <= len(window) <= room and (np.diff(window) == 1).all() for window in windows)

    borders = {*starts.tolist(), len(flat)}
    assert all(start in borders and end in borders for start, end in spans)
    assert spans[0][0] == 0 and spans[-1][1] == len(flat) and len(spans) <= len(lengths)
    for (start, end), (next_start, next_end) in itertools.pairwise(spans):
        assert start < next_start <= end <= next_end

    def context(number: int, start: int, end: int) -> float:
        first, last = spans[number]
        return min(start - first if first else np.inf, last - end if last < len(flat) else np.inf)

    for start, length, (number, position) in zip(starts.tolist(), lengths, places.tolist(), strict=True):
        end = start + length
        assert windows[number][position - 1 : position - 1 + length].tolist() == flat[start:end].tolist()
        having = [other for other, (first, last) in enumerate(spans) if first <= start and end <= last]
        assert context(number, start, end) == max(context(other, start, end) for other in having)


def test_words_without_subwords_and_words_beyond_a_window_are_counted_once(tiny_encoder_folder):
    reader = SubwordReader(read_tokenizer(tiny_encoder_folder), LIMIT)
    odd, long = "\u200b", "x" * 70
    encoded = reader.encode([Sentence(("the", odd, "of", long, "in")), Sentence((odd, long, "\x00", ""))])
    assert (reader.unreadable_words, reader.shortened_words) == (3, 1)
    assert [len(sentence.places) for sentence in encoded] == [5, 4]
    batch = reader.collate(encoded)
    read = batch.input_ids.flatten()[batch.word_places]
    unknown = reader.tokenizer.unk_token_id
    assert read[0].tolist()[1] == unknown and read[1, [0, 2, 3]].tolist() == [unknown] * 3
    assert max(sentence.longest_window for sentence in encoded) <= LIMIT
    reader.encode([Sentence((odd, long))])
    assert (reader.unreadable_words, reader.shortened_words) == (3, 1)


@given(lengths=st.lists(st.integers(1, 150), min_size=1, max_size=5), seed=st.integers(0, 9))
def test_a_batch_of_long_and_short_sentences_holds_each_as_it_is_alone(reader, lengths, seed):
    tag_set = TagSet({"news": ("x",)})
    sentences = [sentence_of(length, seed=seed + place) for place, length in enumerate(lengths)]
    encoded = reader.encode(sentences, tag_set)
    batch = reader.collate(encoded)
    assert len(batch) == len(lengths) and batch.words == sum(lengths)
    assert batch.word_mask.sum(dim=1).tolist() == lengths
    assert batch.word_mask.shape == batch.word_places.shape == batch.tags.shape == (len(lengths), max(lengths))
    assert not batch.word_places[~batch.word_mask].any() and not batch.tags[~batch.word_mask].any()
    read = batch.input_ids.flatten()[batch.word_places]
    for row, (sentence, one) in enumerate(zip(sentences, encoded, strict=True)):
        assert read[row, : lengths[row]].tolist() == first_ids(reader, sentence.words)
        assert tag_set.from_ids(batch.tags[row, : lengths[row]].tolist()) == list(sentence.tags)
        assert len(one.windows) >= 1
    rows = [window for one in encoded for window in one.windows]
    attention = torch.ones_like(batch.input_ids) if batch.attention_mask is None else batch.attention_mask
    assert attention.sum(dim=1).tolist() == [len(window) + 2 for window in rows]
    for row, window in enumerate(rows):
        end = len(window) + 1
        assert batch.input_ids[row, : end + 1].tolist() == [reader.first_id, *window, reader.last_id]
        assert (batch.input_ids[row, end + 1 :] == reader.pad_id).all()


def test_a_batch_has_tags_only_where_every_sentence_has_and_a_mask_only_where_there_is_padding(reader):
    tag_set = TAG_SET
    encoded = reader.encode([Sentence(("the",), ("B-x",)), Sentence(("of",))], tag_set)
    assert reader.collate(encoded).tags is reader.collate(encoded).attention_mask is None
    assert reader.collate(encoded[:1]).tags.tolist() == [[1]]
    assert reader.encode([Sentence(("the",), ("B-x",))])[0].tags is None
    with pytest.raises(CrossNERError, match="Tag 'B-y' is not among the types"):
        reader.encode([Sentence(("the",), ("B-y",))], tag_set)


@given(
    st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=3), max_size=30), st.sampled_from([1, 64, 200, 10**9])
)
def test_batches_by_length_hold_each_sentence_once_and_not_too_much(lengths, most):
    sentences = [
        EncodedSentence(tuple(np.zeros(length, np.int64) for length in one), np.zeros((1, 2), np.int64), None, "")
        for one in lengths
    ]
    groups = list(batches_by_length(sentences, most))
    assert sorted(number for group in groups for number in group) == list(range(len(sentences)))
    widths = []
    for group in groups:
        rows = sum(len(sentences[number].windows) for number in group)
        width = max(sentences[number].longest_window for number in group)
        assert rows * width <= most or len(group) == 1
        widths.append(width)
    assert widths == sorted(widths, reverse=True)
    if most == 10**9:
        assert len(groups) == min(1, len(sentences))


def test_a_text_without_end_is_read_in_bounded_memory(tiny_encoder_folder, monkeypatch):
    monkeypatch.setattr(module, "MOST_WORDS", 10)
    reader = SubwordReader(read_tokenizer(tiny_encoder_folder), LIMIT)
    for first in range(0, 100, 5):
        words = tuple(f"a{number}" for number in range(first, first + 5))
        assert len(reader.encode([Sentence(words)])[0].places) == 5
        assert len(reader._subwords) <= 15


TEXTS = st.lists(
    st.text(st.characters(exclude_categories=("Cs", "Z", "C")), min_size=1, max_size=8) | st.sampled_from(WORDS),
    min_size=1,
    max_size=12,
)


@given(TEXTS)
def test_reading_word_by_word_equals_the_tokenizers_own_reading(reader, words):
    tokenizer = reader.tokenizer
    reader = SubwordReader(tokenizer, 10_000)
    batch = reader.collate(reader.encode([Sentence(tuple(words))]))
    expected = tokenizer(words, is_split_into_words=True)
    if not reader.unreadable_words:
        assert batch.input_ids[0].tolist() == expected["input_ids"]
    first = {word: place for place, word in reversed(list(enumerate(expected.word_ids()))) if word is not None}
    read = batch.input_ids.flatten()[batch.word_places[0]].tolist()
    unknown = tokenizer.unk_token_id
    assert read == [expected["input_ids"][first[n]] if n in first else unknown for n in range(len(words))]
