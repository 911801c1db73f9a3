"""Streams of batches: each sentence as often as it should, of about one length, one domain spread over another."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builders.taggers import make_tagger, some_sentences
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import EncodedSentence
from crossner_cli.recurrent.word_reader import Vocabulary, WordInputs, WordReader
from crossner_cli.training.plan import Plan
from crossner_cli.training.streams import Batching, SentenceStream, compute_paces, make_streams

TAG_SET = TagSet({"songs": ("artist", "song"), "news": ("person",)})
READER: Any = WordReader(Vocabulary(("Anna", "sang", "Abba")), WordInputs(characters="none"), None)
TAGGER: Any = SimpleNamespace(encoder=SimpleNamespace(reader=READER), tag_set=TAG_SET)
MIXED: Any = SimpleNamespace(mixes=True)
APART: Any = SimpleNamespace(mixes=False, make_raw_streams=lambda *_: [])


def sentences(lengths: list[int]) -> list[EncodedSentence]:
    return [
        EncodedSentence((np.zeros(length, np.int64),), np.zeros((length, 2), np.int64), None, "") for length in lengths
    ]


def test_each_sentence_counts_as_often_as_it_should_in_every_epoch() -> None:
    stream = SentenceStream(sentences([3] * 7), READER, 4, 1, [5, 5, 1, 1, 1, 1, 1])
    for epoch in range(3):
        counts = np.bincount([item for batch in stream.epoch(epoch) for item in batch])
        assert counts.tolist() == [5, 5, 1, 1, 1, 1, 1]
        assert all(len(batch) <= 4 for batch in stream.epoch(epoch))


def test_a_sentence_that_counts_in_part_is_read_in_that_share_of_the_epochs() -> None:
    stream = SentenceStream(sentences([3] * 40), READER, 4, 1, [1.0] * 10 + [0.25] * 20 + [1.5] * 10)
    counts = [
        np.bincount([item for batch in stream.epoch(epoch) for item in batch], minlength=40) for epoch in range(80)
    ]
    mean = np.mean(counts, 0)
    assert (mean[:10] == 1).all()
    assert mean[10:30].mean() == pytest.approx(0.25, abs=0.03) and mean[30:].mean() == pytest.approx(1.5, abs=0.05)
    assert sum(map(len, SentenceStream(sentences([3] * 3), READER, 4, 1, [1e-9] * 3).epoch(0))) == 1


@pytest.mark.parametrize(("target", "source", "upsample"), [(24, 60, 50), (33, 90, 3), (100, 14041, 50)])
def test_the_pace_that_is_told_is_the_one_read_however_small_the_domains(
    target: int, source: int, upsample: int
) -> None:
    paces = compute_paces({"target": target, "source": source}, Batching(upsample=upsample, batch_size=32))
    pace, updates = paces["target"], -(-source // 32)
    stream = SentenceStream(sentences([3] * target), READER, pace.batch_size, 1, [pace.repeats] * target)
    epochs = [stream.epoch(number) for number in range(updates)]
    read = sum(len(batch) for batches in epochs for batch in batches) * updates / sum(map(len, epochs))
    assert read / target == pytest.approx(pace.readings)


@pytest.mark.parametrize(("count", "most_padding"), [(200, 1.6), (1000, 1.3), (5000, 1.1)])
def test_batches_hold_sentences_of_about_one_length(count: int, most_padding: float) -> None:
    lengths = np.random.default_rng(0).integers(1, 60, count).tolist()
    stream = SentenceStream(sentences(lengths), READER, 16, 1, None)
    padded = sum(max(lengths[item] for item in batch) * len(batch) for batch in stream.epoch(0))
    assert padded < most_padding * sum(lengths)
    # ... and no two epochs make the same batches.
    assert not {frozenset(batch) for batch in stream.epoch(0)} & {frozenset(batch) for batch in stream.epoch(1)}


def test_target_sentences_are_repeated_in_an_order_that_follows_from_seed_and_epoch_alone(
    tiny_encoder_folder: Path,
) -> None:
    tagger = make_tagger(tiny_encoder_folder, "linear")
    labelled = {"target": some_sentences(3), "source": some_sentences(40, seed=2)}
    for upsample, expected in ((4, [4] * 3 + [1] * 40), (1, [1] * 43)):
        batching = Batching(batch_size=8, upsample=upsample)
        first, second, again = (make_streams(tagger, MIXED, labelled, batching, seed)[0] for seed in (1, 2, 1))
        assert np.bincount([item for batch in first.epoch(4) for item in batch]).tolist() == expected
        assert first.epoch(4) == again.epoch(4) != second.epoch(4)
        assert first.epoch(4) != first.epoch(5)


@given(target=st.integers(1, 60), source=st.integers(1, 200), upsample=st.integers(1, 50), size=st.integers(1, 16))
def test_the_smaller_domain_is_spread_over_the_updates_of_the_larger(target, source, upsample, size):
    labelled = {
        "target": [Sentence(("Anna",), ("O",), "songs")] * target,
        "source": [Sentence(("Abba", "sang"), ("O", "O"), "news")] * source,
    }
    batching = Batching(batch_size=size, upsample=upsample)
    streams: list[Any] = make_streams(TAGGER, APART, labelled, batching, 1)
    larger, smaller = streams
    updates = math.ceil(max(target, source) / size)
    assert len(larger.epoch(0)) == updates
    assert len(larger.sentences) == max(target, source) and len(smaller.sentences) == min(target, source)
    order = smaller.epoch(0)
    often, rest = divmod(sum(map(len, order)), len(smaller.sentences))
    most = min(upsample, updates * size // target) if target < source else 1  # what the updates of an epoch can hold
    assert rest == 0 and often == max(1, most)
    assert all(len(items) <= size for items in order)
    assert len(order) <= updates, "nothing of the smaller domain is left out of an epoch"


@pytest.mark.parametrize(("epochs", "max_steps", "updates"), [(1, None, 2), (2, None, 4), (9, 1, 1)])
def test_the_updates_of_a_training_are_those_of_the_larger_domain(epochs, max_steps, updates):
    assert Batching(batch_size=5).count_updates([10, 3], Plan(epochs=epochs, max_steps=max_steps)) == updates
