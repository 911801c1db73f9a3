"""Tags of sentences, scores of entities, and probabilities fitted to the scores.

A tagger's own score of an entity is the lowest probability among the tags of its words. Taggers are surer than they are
right, so ``p = sigmoid(slope * log(score / (1 - score)) + intercept)`` is fitted to whether the entities predicted on
dev are right (Platt, 1999). A higher score remains higher. A Gaussian prior of unit width around slope 1 and intercept
0, which leave scores as they are, keeps few entities from saying much.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch

from crossner_cli import figures
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_spans
from crossner_cli.encoders.fast_layers import has_int8_kernels
from crossner_cli.encoders.subwords import batches_by_length
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger
from crossner_cli.methods.inputs import CountedText
from crossner_cli.run.progress import Notice, Progress, Work, exhaust
from crossner_cli.taggers.description import CALIBRATION, DESCRIPTION, read_description

MOST_BYTES = 4 * 10**9
# The keys of ``count_unread``.
READING = ("unreadable_words", "shortened_words", "unknown_words", "discarded_sequences")
CALIBRATION_METHOD = "logistic regression on the log-odds of the lowest tag probability of an entity, fitted on dev"
BINS = 10
FURTHEST = 1e-6  # for a score that is 0 or 1 in the number format it was computed in
LARGEST = 1e9  # the largest number of a calibration; NaN and infinities are refused
MOST_STEPS, SMALL_ENOUGH = 100, 1e-10


class Tagged(NamedTuple):
    """The tags of one sentence, one per word, and the tagger's probability of each."""

    tags: tuple[str, ...]
    probabilities: tuple[float, ...]


def tag(
    tagger: Tagger, sentences: Sequence[Sentence], engine: Engine, *, batch_subwords: int | None = None
) -> list[Tagged]:
    """Tag sentences, in the order given; gold tags are not read.

    Args:
        tagger: In any mode; the mode is restored.
        sentences: Every process is given the same ones and returns all of them.
        batch_subwords: Subwords read at once, padding included; a longer sentence is read alone, in parts of this size.
            None is the engine's.
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
    reader: Any = tagger.encoder.reader
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


def tag_in_int8(tagger: Tagger, sentences: Sequence[Sentence], engine: Engine) -> list[Tagged] | None:
    """Tag sentences as ``--precision int8`` would.

    None if no transformer was trained, on a GPU, in several processes, and without int8 kernels.
    """
    if not engine.on_cpu or engine.world > 1 or tagger.encoder.width is None or not has_int8_kernels():
        return None
    quick = copy.deepcopy(tagger)
    quick.encoder.prepare_for_inference("int8", on_cpu=True)
    return tag(quick, sentences, dataclasses.replace(engine, precision="int8"))


def count_unread(tagger: Tagger, engine: Engine) -> dict[str, int]:
    """Count what could not be read or was left out since the tagger was made, over all processes."""
    counts = {name: getattr(tagger.encoder.reader, name) for name in READING[:-1]}
    return {**counts, READING[-1]: int(engine.sum([getattr(tagger, READING[-1], 0)])[0])}


@contextlib.contextmanager
def inference(tagger: Tagger, engine: Engine) -> Iterator[None]:
    """Use evaluation mode without gradients; entered for each batch, since a generator may be left between two."""
    was_training = tagger.training
    tagger.eval()
    try:
        with torch.no_grad(), engine.autocast():
            yield
    finally:
        tagger.train(was_training)


def keep_frozen_states(
    tagger: Tagger,
    sentences: Sequence[Sentence],
    engine: Engine,
    task: str,
    raw: Iterable[CountedText] = (),
) -> Work[None]:
    """Read sentences with the tagger's frozen models, if it has any, and let its reader keep the states.

    They are read in separate batches, so that an interrupted command that begins again reads the same numbers.

    Args:
        raw: Texts that will be read again, too. The states of the sentences, or of a text, are not kept if they would
            not fit
            into ``MOST_BYTES`` beside those kept before; a text is read only if they do.
    """
    encoder = tagger.encoder
    if not encoder.frozen_size:
        return
    distinct: dict[tuple[str, ...], None] = {}
    free = MOST_BYTES
    labelled = dict.fromkeys(sentence.words for sentence in sentences)
    texts: list[tuple[Any, int]] = [(labelled, sum(map(len, labelled)))]
    texts += [(text, text.counts.total()) for text in raw]
    for text, words in texts:
        size = 4 * encoder.frozen_size * words
        if size > free:
            sizes = [figures.amount(number, None, "bytes") for number in (size, free, MOST_BYTES)]
            yield Notice(
                f"{task}: frozen models read {figures.count(len(text))} sentences again in each epoch: their states "
                f"take {sizes[0]}, and {sizes[1]} of {sizes[2]} are left"
            )
            continue
        free -= size
        distinct |= dict.fromkeys(text)
    encoder.to(engine.device)  # the training loop comes later
    reader = encoder.reader
    encoded = reader.encode([Sentence(words) for words in distinct])
    done = 0
    for numbers in batches_by_length(encoded, engine.batch_subwords):
        rows = [encoded[number] for number in numbers]
        with inference(tagger, engine):
            states = encoder.read_frozen(reader.collate(rows).to(engine.device)).cpu()
        for row, of_sentence in zip(rows, states, strict=True):
            reader.frozen_states[row.words] = of_sentence[: len(row.words)].clone()  # not a view: padding is freed
        done += len(rows)
        yield Progress(f"{task}: frozen models", done, len(encoded), "sentences", is_milestone=done == len(encoded))


class ScoredEntity(NamedTuple):
    """A predicted entity: its score, whether a gold entity has the same words and type, and its type."""

    score: float
    is_correct: bool
    type: str = ""


@dataclass(frozen=True)
class Calibration:
    """A map from scores to probabilities, with the numbers of predicted and correct entities it was fitted to.

    The slope of the log-odds is never negative.
    """

    slope: float
    intercept: float
    entities: int
    correct: int

    def __call__(self, score: float) -> float:
        """Return the probability that an entity of this score is right."""
        return 0.5 * (1.0 + math.tanh(0.5 * (self.slope * log_odds(score) + self.intercept)))

    def to_json(self) -> dict[str, Any]:
        """Make the record that ``read_calibration`` reads."""
        return {"method": CALIBRATION_METHOD, **dataclasses.asdict(self)}


def read_calibration(folder: Path) -> Calibration | None:
    """Read the calibration of a tagger's folder; None if the tagger was saved without one.

    Raises:
        CrossNERError: The folder holds no tagger, or the calibration's numbers are not finite.
    """
    record = read_description(folder).calibration
    if record is None:
        return None
    names = [field.name for field in dataclasses.fields(Calibration)]
    values: list[Any] = [record.get(name) for name in names] if isinstance(record, dict) else [None]
    if not all(type(value) in (int, float) and abs(value) <= LARGEST for value in values):
        raise CrossNERError(
            f"{folder / DESCRIPTION}: {CALIBRATION} must hold the numbers {', '.join(names)}.",
            hint="Train the tagger again.",
        )
    return Calibration(*values)


def score_entity(tagged: Tagged, span: Span) -> float:
    """Return the tagger's own score of an entity: the lowest probability among its tags."""
    return min(tagged.probabilities[span.start : span.end])


def score_entities(gold: Sequence[Sequence[str]], tagged: Sequence[Tagged]) -> list[ScoredEntity]:
    """Score every predicted entity of some sentences; a tag that continues nothing opens one, as in conlleval."""
    found: list[ScoredEntity] = []
    for gold_tags, each in zip(gold, tagged, strict=True):
        right = set(to_spans(gold_tags))
        found += [ScoredEntity(score_entity(each, span), span in right, span.type) for span in to_spans(each.tags)]
    return found


def fit_calibration(entities: Sequence[ScoredEntity]) -> Calibration:
    """Find the likeliest slope and intercept under the prior, by Newton's method with halved steps.

    The function is convex, so there is one answer; without entities, scores stay as they are.
    """
    inputs = numpy.array([[log_odds(entity.score), 1.0] for entity in entities]).reshape(-1, 2)
    targets = numpy.array([float(entity.is_correct) for entity in entities])
    prior = numpy.array([1.0, 0.0])

    def loss(weights: Any) -> float:
        odds = inputs @ weights
        penalty = ((weights - prior) ** 2).sum() / 2
        return float(numpy.logaddexp(0.0, odds).sum() - (targets * odds).sum() + penalty)

    weights = prior.copy()
    for _ in range(MOST_STEPS):
        found = 0.5 * (1.0 + numpy.tanh(0.5 * (inputs @ weights)))
        gradient = inputs.T @ (found - targets) + (weights - prior)
        curvature = (inputs * (found * (1.0 - found))[:, None]).T @ inputs + numpy.eye(2)
        step = numpy.linalg.solve(curvature, gradient)
        while abs(step).max() > SMALL_ENOUGH and loss(weights - step) > loss(weights):
            step = step / 2
        weights = weights - step
        if abs(step).max() < SMALL_ENOUGH:
            break
    slope, intercept = (float(weight) for weight in weights)
    correct = sum(entity.is_correct for entity in entities)
    if slope < 0:  # uninformative scores: every entity gets the share that is right
        slope, intercept = 0.0, math.log((correct + 1) / (len(entities) - correct + 1))
    return Calibration(slope, intercept, len(entities), correct)


def measure_reliability(entities: Sequence[ScoredEntity]) -> dict[str, Any]:
    """Measure how far scores can be believed: in ten bins of equal width, mean score and share that is right.

    Returns:
        ``bins``, and ``ece``, the expected calibration error: the mean over entities of the distance between the mean
        score of their bin and the share of it that is right; None without entities.
    """
    bins: list[dict[str, Any]] = []
    distance = 0.0
    for number in range(BINS):
        inside = [entity for entity in entities if min(int(entity.score * BINS), BINS - 1) == number]
        size = len(inside)
        score = sum(entity.score for entity in inside) / size if inside else None
        correct = sum(entity.is_correct for entity in inside) / size if inside else None
        edges = {"from": number / BINS, "to": (number + 1) / BINS}
        bins.append({**edges, "entities": size, "mean_score": score, "share_correct": correct})
        if score is not None and correct is not None:
            distance += size * abs(score - correct)
    return {"ece": distance / len(entities) if entities else None, "bins": bins}


def calibrate(entities: Sequence[ScoredEntity], calibration: Calibration) -> list[ScoredEntity]:
    """Replace the scores of entities by probabilities."""
    return [entity._replace(score=calibration(entity.score)) for entity in entities]


def log_odds(score: float) -> float:
    """Return ``log(score / (1 - score))`` of a score that is kept from 0 and 1."""
    kept = min(max(score, FURTHEST), 1.0 - FURTHEST)
    return math.log(kept / (1.0 - kept))
