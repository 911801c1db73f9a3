"""Streams of batches that a training reads: labelled sentences of all domains, or a stream for each task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from crossner_cli.data.sentences import SILVER, Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import Batch, EncodedSentence, SubwordReader
from crossner_cli.methods.contract import Tagger
from crossner_cli.methods.inputs import Labelled, TrainingInputs
from crossner_cli.training.mentions import Mentions, collect_mentions
from crossner_cli.training.plan import Plan

# Sentences of about one length are batched together, out of this many shuffled batches at a time.
POOLED_BATCHES = 50
# Lengths are blurred by this many over the number of sentences, at most by a quarter.
BLURRED_SENTENCES = 80


class Stream(Protocol):
    """Sentences or blocks to train on, in an order that depends on the epoch alone."""

    def epoch(self, number: int) -> Sequence[list[int]]:
        """Return the updates of an epoch: the items of each."""

    def batch(self, items: Sequence[int], epoch: int) -> Any:
        """Return items as the model reads them, with ``to(device)`` and ``words``."""


@dataclass(frozen=True)
class SentenceStream:
    """Encoded sentences, shuffled, in batches of about one length."""

    sentences: Sequence[EncodedSentence]
    reader: SubwordReader
    batch_size: int  # most sentences of an update
    seed: int
    repeats: Sequence[float] | None = None  # how often each sentence counts in an epoch, on average

    def epoch(self, number: int) -> list[list[int]]:
        """Shuffle, sort pools of batches roughly by length, shuffle the batches."""
        random = np.random.default_rng([self.seed, number])
        items = np.arange(len(self.sentences))
        order = random.permutation(items if self.repeats is None else np.repeat(items, self._draw_repeats(number)))
        lengths = np.fromiter((sentence.longest_window for sentence in self.sentences), float, len(self.sentences))
        # Blurred lengths, so that a small data set does not make the same batches each epoch; a large one has enough
        # sentences of each length to shuffle, and every blur costs padding.
        blur = 1 + min(0.25, BLURRED_SENTENCES / len(order))
        blurred = lengths[order] * random.uniform(1 / blur, blur, len(order))
        pool = self.batch_size * POOLED_BATCHES
        batches: list[list[int]] = []
        for first in range(0, len(order), pool):
            part = order[first : first + pool][np.argsort(blurred[first : first + pool], kind="stable")]
            batches += [piece.tolist() for piece in np.array_split(part, math.ceil(len(part) / self.batch_size))]
        return [batches[place] for place in random.permutation(len(batches))]

    def _draw_repeats(self, number: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Draw how often each sentence counts in an epoch: one of 0.3 times counts in three epochs of ten."""
        repeats = np.asarray(self.repeats, float)
        whole = np.floor(repeats)
        drawn = np.random.default_rng([self.seed, number, 1]).random(len(repeats)) < repeats - whole
        counts: np.ndarray[Any, np.dtype[np.int64]] = (whole + drawn).astype(np.int64)
        counts[0] += not counts.any()  # an update needs a sentence
        return counts

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Pad the sentences."""
        return self.reader.collate([self.sentences[item] for item in items])

    def relative_length(self, items: Sequence[int]) -> float:
        """Return the mean words of these sentences, over those of all that an epoch reads."""
        return float(self._words[items].mean() / self._mean_words)

    @cached_property
    def _words(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.fromiter((len(sentence.places) for sentence in self.sentences), float, len(self.sentences))

    @cached_property
    def _mean_words(self) -> float:
        return float(np.average(self._words, weights=self.repeats))


@dataclass(frozen=True, kw_only=True)
class ReplacingStream(SentenceStream):
    """Sentences in some of which other mentions of the same type replace gold ones, drawn again in each epoch."""

    texts: Sequence[Sentence | None]  # None for a sentence that stays as it is
    mentions: Mentions
    tag_set: TagSet

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Replace mentions and pad the sentences."""
        random = np.random.default_rng([self.seed, epoch, *items])
        found: list[EncodedSentence] = []
        for item in items:
            text = self.texts[item]
            if text is None:
                found.append(self.sentences[item])
            else:
                found += self.reader.encode([self.mentions.replace_in(text, random)], self.tag_set)
        return self.reader.collate(found)


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Batch sizes of an update."""

    batch_size: int  # most labelled sentences
    upsample: int = 1  # times that a labelled sentence of the target counts in an epoch
    silver_weight: float = 1.0  # times that one labelled by a teacher does
    replace_mentions: float = 0.0  # share of the target's mentions that others replace in an epoch

    def times_read(self, role: str) -> float:
        """Return how often a labelled sentence of a role counts in an epoch."""
        return {"target": self.upsample, SILVER: self.silver_weight}.get(role, 1)

    def updates_per_epoch(self, counts: Iterable[int]) -> int:
        """Return the updates that read the largest domain, given how many labelled sentences each has."""
        return max(1, math.ceil(max(counts) / self.batch_size))

    def count_updates(self, counts: Iterable[int], plan: Plan) -> int:
        """Count the updates of a training, given how many labelled sentences each domain has."""
        updates = plan.epochs * self.updates_per_epoch(counts)
        return min(updates, plan.max_steps or updates)


class Pace(NamedTuple):
    """The pace at which the labelled sentences of a domain are read."""

    batch_size: int  # sentences of an update
    repeats: int  # times that each is shuffled into what an epoch reads from
    readings: float  # times that an epoch reads each, on average


def compute_paces(counts: Mapping[str, int], batching: Batching) -> dict[str, Pace]:
    """Compute the pace of each domain whose labels are learnt, given its number of sentences; the largest comes first.

    The largest decides how many updates an epoch has. The smaller is spread over them, its sentences counted
    ``upsample`` times if it is the target, as far as batches of the same size hold them, and begins again at its end.
    """
    labelled = sorted(counts, key=lambda role: -counts[role])
    updates = batching.updates_per_epoch([counts[labelled[0]]])
    found = {}
    for role in labelled:
        often = batching.upsample if role == "target" and role != labelled[0] else 1
        size = min(batching.batch_size, math.ceil(often * counts[role] / updates))
        # Sentences shuffled in more often than an epoch reads them would be read by chance, some often, some never.
        repeats = max(1, min(often, math.floor(updates * size / max(1, counts[role]))))
        batches = math.ceil(repeats * counts[role] / size) if size else 1  # of sizes as even as can be
        found[role] = Pace(size, repeats, updates * repeats / max(1, batches))
    return found


def make_streams(
    tagger: Tagger,
    inputs: TrainingInputs,
    labelled: Labelled,
    batching: Batching,
    seed: int,
) -> list[Stream]:
    """Make one stream of all labelled sentences, or one a domain and one a raw text."""
    reader, tag_set = tagger.encoder.reader, tagger.tag_set

    def make(roles: Iterable[str], batch_size: int, repeats: Sequence[float]) -> SentenceStream:
        sentences = [(role, sentence) for role in roles for sentence in labelled[role]]
        encoded = reader.encode([sentence for _, sentence in sentences], tag_set)
        if not batching.replace_mentions or "target" not in roles:
            return SentenceStream(encoded, reader, batch_size, seed, repeats)
        texts = [sentence if role == "target" else None for role, sentence in sentences]
        mentions = collect_mentions(labelled["target"], batching.replace_mentions, tag_set.scheme)
        return ReplacingStream(
            encoded, reader, batch_size, seed, repeats, texts=texts, mentions=mentions, tag_set=tag_set
        )

    if inputs.mixes:
        repeats = [batching.times_read(role) for role, sentences in labelled.items() for _ in sentences]
        return [make(labelled, batching.batch_size, repeats)]
    streams: list[Stream] = []
    counts = {role: len(sentences) for role, sentences in labelled.items()}
    for role, pace in compute_paces(counts, batching).items():
        streams.append(make([role], pace.batch_size, [pace.repeats] * len(labelled[role])))
    return [*streams, *inputs.make_raw_streams(reader, tag_set, seed)]
