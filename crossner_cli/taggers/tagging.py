"""Sentences in, tags out; and the states of frozen models, read once for all epochs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from crossner_cli import figures
from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.raw_text import RawSentences, RawText
from crossner_cli.encoders.subwords import batches_by_length
from crossner_cli.encoders.word_encoder import WordEncoder
from crossner_cli.engine.devices import Engine
from crossner_cli.methods.contract import Tagger
from crossner_cli.run.progress import Notice, Progress, Work, exhaust

MOST_BYTES = 4 * 10**9
# The keys of ``count_unread``.
READING = ("unreadable_words", "shortened_words", "unknown_words", "discarded_sequences")


class Tagged(NamedTuple):
    """The tags of one sentence, one a word, and the probability that the tagger gives to each."""

    tags: tuple[str, ...]
    probabilities: tuple[float, ...]


def tag(
    tagger: Tagger, sentences: Sequence[Sentence], engine: Engine, *, batch_subwords: int | None = None
) -> list[Tagged]:
    """Tag sentences; gold tags are not read.

    Args:
        tagger: In any mode; the mode is restored.
        sentences: Every process is given the same ones and returns all of them.
        engine: Devices and processes, which share the work.
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
    """Tag sentences as ``tag`` does, with progress after each batch."""
    reader = get_reader(tagger)
    encoded = reader.encode(sentences)
    most = batch_subwords or engine.batch_subwords
    batches = list(batches_by_length(encoded, most))[engine.rank :: engine.world]
    total = sum(map(len, batches))
    names = tagger.tag_set.tags
    found: list[tuple[int, Tagged]] = []
    words, began = 0, time.perf_counter()
    for numbers in batches:
        with inference(tagger, engine):
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


def get_reader(tagger: Tagger) -> Any:
    """Return the reader of the tagger's encoder, with ``encode`` and ``collate`` as ``SubwordReader``."""
    return tagger.encoder.reader


def count_unread(tagger: Tagger, engine: Engine) -> dict[str, int]:
    """Count what could not be read or was left out since the tagger was made, over all processes."""
    reader = get_reader(tagger)
    return {
        "unreadable_words": reader.unreadable_words,
        "shortened_words": reader.shortened_words,
        "unknown_words": reader.unknown_words,
        "discarded_sequences": int(engine.sum([getattr(tagger, "discarded_sequences", 0)])[0]),
    }


@contextlib.contextmanager
def inference(tagger: Tagger, engine: Engine) -> Iterator[None]:
    """Evaluation mode without gradients; entered for each batch, since a generator may be left between two."""
    was_training = tagger.training
    tagger.eval()
    try:
        with torch.no_grad(), engine.autocast():
            yield
    finally:
        tagger.train(was_training)


def keep_frozen_states(
    tagger: Tagger, sentences: Sequence[Sentence], engine: Engine, task: str, raw: Iterable[RawText] = ()
) -> Work[None]:
    """Read sentences with the tagger's frozen models, if it has any, and let its reader keep the states.

    In batches of its own, so that an interrupted command that begins again reads the very same numbers.

    Args:
        tagger: Its encoder reads words, a frozen transformer or frozen language models of characters, or neither.
        sentences: The sentences that will be read again and again.
        engine: Devices and processes.
        task: Name for the progress.
        raw: Texts that will be, too. The states of the sentences, or of a text, are not kept if they would not fit
            into ``MOST_BYTES`` beside those kept before.
    """
    encoder = tagger.encoder
    if not isinstance(encoder, WordEncoder) or not encoder.frozen_size:
        return
    distinct: dict[tuple[str, ...], None] = {}
    free = MOST_BYTES
    labelled = dict.fromkeys(sentence.words for sentence in sentences)
    for text in (RawSentences(tuple(labelled)), *raw):
        size = 4 * encoder.frozen_size * sum(text.counts.values())
        if size > free:
            sizes = [figures.amount(number, None, "bytes") for number in (size, free, MOST_BYTES)]
            yield Notice(
                f"{task}: frozen models read {figures.count(len(text))} sentences again in each epoch: their states "
                f"take {sizes[0]}, and {sizes[1]} of {sizes[2]} are left"
            )
            continue
        free -= size
        distinct |= dict.fromkeys(text.sentences(range(len(text))))
    encoder.to(engine.device)  # the training loop comes later
    reader = encoder.reader
    encoded = reader.encode([Sentence(words) for words in distinct])
    done = 0
    for numbers in batches_by_length(encoded, engine.batch_subwords):
        rows = [encoded[number] for number in numbers]
        with inference(tagger, engine):
            states = encoder.read_frozen(reader.collate(rows).to(engine.device)).cpu()
        for row, of_sentence in zip(rows, states, strict=True):
            reader.frozen_states[row.words] = of_sentence[: len(row.words)].clone()  # not a view: padding goes
        done += len(rows)
        yield Progress(f"{task}: frozen models", done, len(encoded), "sentences", is_milestone=done == len(encoded))
