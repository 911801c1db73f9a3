"""Sentences in, tags out: the one place where a tagger reads what it was not trained on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.subwords import batches_by_length
from crossner_cli.engine.devices import Engine
from crossner_cli.methods.contract import Tagger
from crossner_cli.run.progress import Progress, Work, exhaust

# What ``reading_counts`` counts.
READING = ("unreadable_words", "shortened_words", "unknown_words", "discarded_sequences")


class Tagged(NamedTuple):
    """What a tagger says of one sentence: one tag a word, and the probability it gives to each."""

    tags: tuple[str, ...]
    probabilities: tuple[float, ...]


def tag(
    tagger: Tagger, sentences: Sequence[Sentence], engine: Engine, *, batch_subwords: int | None = None
) -> list[Tagged]:
    """Tag sentences; gold tags are not read.

    Args:
        tagger: In any mode; the mode is restored.
        sentences: Every process is given the same ones and returns all of them.
        engine: Where. Several processes share the work.
        batch_subwords: Subwords read at once, padding included; a longer sentence is read alone, so many of them at a
            time. None is the engine's.

    Returns:
        One result a sentence, in the order given.
    """
    return exhaust(tag_with_progress(tagger, sentences, engine, batch_subwords=batch_subwords))


def tag_with_progress(
    tagger: Tagger,
    sentences: Sequence[Sentence],
    engine: Engine,
    *,
    batch_subwords: int | None = None,
    task: str = "tag",
) -> Work[list[Tagged]]:
    """Same as ``tag``, telling after each batch how far it is."""
    reader = reader_of(tagger)
    encoded = reader.encode(sentences)
    most = batch_subwords or engine.batch_subwords
    batches = list(batches_by_length(encoded, most))[engine.rank :: engine.world]
    total = sum(map(len, batches))
    names = tagger.tag_set.tags
    found: list[tuple[int, Tagged]] = []
    words, began = 0, time.perf_counter()
    for numbers in batches:
        with reading(tagger, engine):
            batch = reader.collate([encoded[number] for number in numbers])
            batch.most_subwords = most
            decoded = tagger.decode(batch.to(engine.device))
        for number, ids, probabilities in zip(numbers, decoded.tags, decoded.probabilities, strict=True):
            found.append((number, Tagged(tuple([names[tag_id] for tag_id in ids]), tuple(probabilities))))
        words += batch.words
        rate = words / max(1e-9, time.perf_counter() - began)
        yield Progress(task, len(found), total, "sentences", {"words/s": rate * engine.world})
    found = engine.gather(found)
    found.sort(key=lambda pair: pair[0])
    return [tagged for _, tagged in found]


def reader_of(tagger: Tagger) -> Any:
    """What turns sentences into batches for this tagger's encoder: ``encode`` and ``collate``, as ``SubwordReader``."""
    return tagger.encoder.reader


def reading_counts(tagger: Tagger, engine: Engine) -> dict[str, int]:
    """What could not be read or was left out since the tagger was made, over all processes."""
    reader = reader_of(tagger)
    return {
        "unreadable_words": reader.unreadable_words,
        "shortened_words": reader.shortened_words,
        "unknown_words": reader.unknown_words,
        "discarded_sequences": int(engine.sum([tagger.discarded_sequences])[0]),
    }


@contextlib.contextmanager
def reading(tagger: Tagger, engine: Engine) -> Iterator[None]:
    """Evaluation mode without gradients; entered for each batch, since a generator may be left between two."""
    was_training = tagger.training
    tagger.eval()
    try:
        with torch.no_grad(), engine.autocast():
            yield
    finally:
        tagger.train(was_training)
