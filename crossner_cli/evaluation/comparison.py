"""Comparisons of two models on the same sentences: difference and its significance, by type, sentences won and lost.

Significance is tested for a difference in micro F1, by paired bootstrap and approximate randomisation. Both work on
counts of entities by sentence, so that a resample is a weighted sum and needs no tagger. A resample draws the same
sentences for both sides, which pairs them.

Seeds. With one run per side, the statements are about these two trained taggers, and only the sentences vary. With
several runs, they are about the two ways of training, and seeds vary too: sentences are drawn again, the same for all
runs, but seeds are not drawn again out of the few there are. Drawing three of three with replacement makes their
variance a third too small and its tails too short, and counts the effect of sentences on single runs twice. Instead the
variance of seeds is estimated: the variance between the runs of a side, less the part that resampled sentences contain
already (the mean over resamples of the variance between runs of the changes by resampling). A t variable of this
variance, divided by the number of runs, with the Welch-Satterthwaite degrees of freedom of both sides, is added to each
resampled difference. A side of one run is taken to vary as the other side does, with nothing taken off, since a
variance that happens to be small would count in full for it. If both sides are the same taggers, the variance is that
of the differences, seed by seed. Without any difference, 1 to 5 of 100 simulated comparisons of two to ten runs per
side have p < 0.05, whether seeds matter or not (``benchmarks/comparison_speed.py --nulls 1000``); with seeds drawn
again it is 0 to 10.

A bootstrap on few differing sentences is too sure: if three differ, all for one side, only resamples without any of
them are not for that side. Swapping them gives p = 0.25. The reported p is the larger of the two.

Papers: Koehn (2004), Berg-Kirkpatrick et al. (2012) for the bootstrap; Noreen (1989), Yeh (2000) for randomisation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.tags import Scheme, Span, scheme_shown, to_spans
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import EvaluatedModel
from crossner_cli.evaluation.scores import Floats, Mode, compute_f1, mean_and_deviation, read_entities
from crossner_cli.run.results import Record

RESAMPLES, CONFIDENCE = 10_000, 0.95
CELLS_AT_ONCE = 2**20  # resamples times sentences; more takes more memory and is not faster
LARGEST_EXACT = 2**24  # whole numbers below are exact in 32 bits, and half the time
ROUNDING = 1e-9  # two ways to the same F1 may differ by less, and so may means over runs
TaggedSentences = Sequence[tuple[Sequence[str], Sequence[str]]]  # words and gold tags


@dataclass(frozen=True)
class EntityCounts:
    """Entities of one side by run, sentence and column; the first column is for all types, each other for one.

    Args:
        correct: (runs, sentences, columns).
        predicted: (runs, sentences, columns).
        gold: (sentences, columns).
    """

    correct: NDArray[np.integer]
    predicted: NDArray[np.integer]
    gold: NDArray[np.integer]

    @property
    def runs(self) -> int:
        """The number of trained taggers."""
        return len(self.correct)

    def f1(self) -> Floats:
        """The micro F1 in percent, (runs, columns)."""
        return compute_f1(self.correct.sum(axis=1), self.predicted.sum(axis=1), self.gold.sum(axis=0))

    def errors(self) -> Floats:
        """The missed and wrong entities of each sentence, mean over runs, (sentences,)."""
        errors = self.predicted[:, :, 0] + self.gold[None, :, 0] - 2 * self.correct[:, :, 0]
        return np.asarray(errors.mean(axis=0))


@dataclass(frozen=True)
class Interval:
    """The interval of a difference, and the two-sided p of a difference this large by chance; all (columns,)."""

    low: Floats
    high: Floats
    p: Floats

    def column(self, number: int) -> dict[str, float]:
        """The interval and p of one column."""
        return {name: float(values[number]) for name, values in vars(self).items()}


@dataclass(frozen=True)
class Significance:
    """A comparison of two sides, in points of F1: the first less the second. All arrays are (columns,).

    Args:
        difference: Difference of the means over runs.
        interval: With varying sentences and, if a side has several, varying runs; its p is at least ``randomisation``.
        of_these: With varying sentences only: about these trained taggers.
        randomisation: p of approximate randomisation, sentences swapped: about these trained taggers.
    """

    difference: Floats
    interval: Interval
    of_these: Interval
    randomisation: Floats


def compare_counts(
    one: EntityCounts,
    other: EntityCounts,
    *,
    is_paired: bool = False,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 1,
) -> Significance:
    """Compare two sides that were counted on the same sentences; the first is better if the difference is positive.

    Args:
        is_paired: The runs of both sides are the same taggers in the same order, decoded in two ways, so that seeds
            vary for both together.
    """
    random = np.random.default_rng(seed)
    difference = one.f1().mean(axis=0) - other.f1().mean(axis=0)
    drawn = resample_f1((one, other), resamples, random)
    of_sentences = drawn[0].mean(axis=1) - drawn[1].mean(axis=1)
    of_both = _with_seeds(of_sentences, (one, other), drawn, is_paired, random)
    swapped = swap_sentences(one, other, resamples, random)
    interval = _interval(of_both, confidence)
    interval = replace(interval, p=np.maximum(interval.p, swapped))
    return Significance(difference, interval, _interval(of_sentences, confidence), swapped)


def sentence_weights(sentences: int, resamples: int, random: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield the times that each resample draws each sentence, (part of the resamples, sentences), part by part."""
    most = max(1, CELLS_AT_ONCE // sentences)
    for first in range(0, resamples, most):
        rows = min(most, resamples - first)
        places = random.integers(0, sentences, size=(rows, sentences))
        places += np.arange(0, rows * sentences, sentences)[:, None]
        yield np.bincount(places.ravel(), minlength=rows * sentences).reshape(rows, sentences)


def resample_f1(
    sides: tuple[EntityCounts, EntityCounts], resamples: int, random: np.random.Generator
) -> tuple[Floats, Floats]:
    """Compute F1 of every run of both sides on the same resampled sentences, (resamples, runs, columns) each."""
    gold = sides[0].gold
    sentences, columns = gold.shape
    parts = [part for side in sides for part in (side.correct, side.predicted)]
    cells = [gold, *(np.moveaxis(part, 1, 0).reshape(sentences, -1) for part in parts)]
    table = np.concatenate(cells, axis=1)
    kind = np.float32 if table.max(initial=0) * sentences < LARGEST_EXACT else np.float64
    table, borders = table.astype(kind), np.cumsum([cell.shape[1] for cell in cells])[:-1]
    found: tuple[list[Floats], list[Floats]] = ([], [])
    for weights in sentence_weights(sentences, resamples, random):
        of_gold, *sums = np.split(weights.astype(kind) @ table, borders, axis=1)
        for side, correct, predicted in zip(found, sums[::2], sums[1::2], strict=True):
            shape = (len(weights), -1, columns)
            side.append(compute_f1(correct.reshape(shape), predicted.reshape(shape), of_gold[:, None, :]))
    return np.concatenate(found[0]), np.concatenate(found[1])


def swap_sentences(one: EntityCounts, other: EntityCounts, resamples: int, random: np.random.Generator) -> Floats:
    """Test by approximate randomisation: p of the difference if each sentence's outputs may belong to either side.

    A sentence's outputs are swapped for all runs at once, since the runs of a side are not independent on it; F1 is
    that of the mean counts over runs. With one run per side this is the test of Yeh (2000).
    """
    sentences, columns = one.gold.shape
    gold = one.gold.sum(axis=0)
    mine, theirs = (np.stack([side.correct.mean(axis=0), side.predicted.mean(axis=0)]) for side in (one, other))
    total, surplus = (mine + theirs).sum(axis=1), mine - theirs  # (2, columns), (2, sentences, columns)
    table = np.moveaxis(surplus, 1, 0).reshape(sentences, -1)

    def difference(of_one: Floats) -> Floats:
        of_other = total - of_one
        return compute_f1(of_one[..., 0, :], of_one[..., 1, :], gold) - compute_f1(
            of_other[..., 0, :], of_other[..., 1, :], gold
        )

    observed = np.abs(difference(mine.sum(axis=1))) - ROUNDING
    as_far = np.zeros(columns)
    most = max(1, CELLS_AT_ONCE // sentences)
    for first in range(0, resamples, most):
        rows = min(most, resamples - first)
        bits = np.frombuffer(random.bytes(math.ceil(rows * sentences / 8)), dtype=np.uint8)
        kept = np.unpackbits(bits, count=rows * sentences).reshape(rows, sentences).astype(float)
        drawn = theirs.sum(axis=1) + (kept @ table).reshape(rows, 2, columns)
        as_far += (np.abs(difference(drawn)) >= observed).sum(axis=0)
    return np.asarray((as_far + 1) / (resamples + 1))


def adjust_for_many(p: Floats) -> Floats:
    """Adjust p values by Holm: with all below 0.05 trusted, any of them is wrong in at most a twentieth of cases."""
    order = np.argsort(p)
    stepped = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(stepped)) if len(p) else stepped
    return adjusted


def _with_seeds(
    draws: Floats,
    sides: tuple[EntityCounts, EntityCounts],
    drawn: tuple[Floats, Floats],
    is_paired: bool,
    random: np.random.Generator,
) -> Floats:
    """Add the variance of seeds to resampled differences, (resamples, columns)."""
    scores, runs = [side.f1() for side in sides], [side.runs for side in sides]
    several = [pair for pair in zip(scores, drawn, strict=True) if len(pair[0]) > 1]
    if is_paired and several:
        known = [_variance_of_seeds(scores[0] - scores[1], drawn[0] - drawn[1])]
    elif len(several) == 1:
        known = [several[0][0].var(axis=0, ddof=1)]
    else:
        known = [_variance_of_seeds(*pair) for pair in several]
    if not known:
        return draws
    parts = [variance / count for variance, count in zip(known * 2 if len(known) == 1 else known, runs, strict=True)]
    total = parts[0] if is_paired else parts[0] + parts[1]
    freedom = np.full_like(total, max(runs) - 1)
    if len(known) == 2:
        shares = sum(part**2 / (count - 1) for part, count in zip(parts, runs, strict=True))
        freedom = np.divide(total**2, shares, out=freedom, where=shares > 0)
    return np.asarray(draws + np.sqrt(total) * random.standard_t(freedom, size=draws.shape))


def _variance_of_seeds(scores: Floats, drawn: Floats) -> Floats:
    """Estimate the variance between runs beyond that from the choice of sentences, (columns,)."""
    of_sentences = (drawn - scores).var(axis=1, ddof=1).mean(axis=0)
    return np.asarray(np.maximum(0.0, scores.var(axis=0, ddof=1) - of_sentences))


def _interval(draws: Floats, confidence: float) -> Interval:
    outside = 50 * (1 - confidence)
    # Two seeds leave Student's t one degree of freedom: it exceeds every possible difference of F1.
    low, high = np.clip(np.percentile(draws, [outside, 100 - outside], axis=0), -100, 100)
    beyond = np.minimum((draws <= 0).sum(axis=0), (draws >= 0).sum(axis=0))
    return Interval(low, high, np.minimum(1.0, 2 * (beyond + 1) / (len(draws) + 1)))


class CountedModel:
    """The entities of a model's predictions, by sentence and run.

    Raises:
        CrossNERError: A file of predictions is missing or was changed, or two seeds were scored on other sentences.
    """

    def __init__(self, model: EvaluatedModel, mode: Mode) -> None:
        self.model, self.mode = model, mode
        found = list(model.read().values())
        self.sentences, *others = ([(each["words"], each["gold"]) for each in sentences] for sentences in found)
        for path, sentences in zip(list(model.files.values())[1:], others, strict=True):
            check_same_sentences(self.sentences, sentences, model.place, str(path))
        gold = [tags for _, tags in self.sentences]
        # Each side separately, since a tagger of another run may use another scheme than the gold tags.
        self.gold = read_entities(gold, mode=mode, scheme=scheme_shown(gold))
        scheme: Scheme = "bioes" if model.scores.scheme == "bioes" else "bio"
        self.predicted = [
            read_entities([each["tags"] for each in sentences], mode=mode, scheme=scheme) for sentences in found
        ]

    def types(self) -> set[str]:
        """Entity types found in gold or predicted tags."""
        return {span.type for side in (self.gold, *self.predicted) for spans in side for span in spans}

    def count(self, types: Sequence[str]) -> EntityCounts:
        """Count its entities by run, sentence and column: all types, then each of ``types``."""
        return count_entities(self.gold, self.predicted, types)


def count_entities(
    gold: Sequence[Sequence[Span]], predicted: Sequence[Sequence[Sequence[Span]]], types: Sequence[str]
) -> EntityCounts:
    """Count the entities of each run by sentence and column: all types, then each of ``types``."""
    correct = [
        [[span for span in spans if span in right] for spans, right in zip(side, gold, strict=True)]
        for side in predicted
    ]
    return EntityCounts(
        np.stack([_count_types(side, types) for side in correct]),
        np.stack([_count_types(side, types) for side in predicted]),
        _count_types(gold, types),
    )


def _count_types(sentences: Sequence[Sequence[Span]], types: Sequence[str]) -> NDArray[np.int32]:
    """Count the entities of each sentence: all of them, then by type, (sentences, 1 + types)."""
    columns = {name: number for number, name in enumerate(types, start=1)}
    counts = np.zeros((len(sentences), 1 + len(types)), dtype=np.int32)
    for row, spans in zip(counts, sentences, strict=True):
        row[0] = len(spans)
        for span in spans:
            row[columns[span.type]] += 1
    return counts


def check_same_sentences(one: TaggedSentences, other: TaggedSentences, place: str, other_place: str) -> None:
    """Refuse to compare scores of other sentences or against other gold entities."""
    for number, (mine, theirs) in enumerate(zip_longest(one, other, fillvalue=((), ())), start=1):
        is_same = list(mine[0]) == list(theirs[0])
        if not is_same or to_spans(mine[1]) != to_spans(theirs[1]):
            raise CrossNERError(
                f"Sentence {number} has other {'gold tags' if is_same else 'words'} in {other_place} than in {place}.",
                hint="Score both on the same test sentences: prepare-data with the same options, then evaluate.",
            )


def compare_models(one: CountedModel, other: CountedModel, *, seed: int = 1) -> Record:
    """Compare a model with another; a positive difference means that the first is better.

    Returns:
        Record: ``model`` and ``against`` with their F1, ``difference`` with interval and p, the result of each single
        test, sentences won and lost, and the same by type.

    Raises:
        CrossNERError: The models were scored on different sentences, or on none.
    """
    check_same_sentences(one.sentences, other.sentences, one.model.place, other.model.place)
    if not one.sentences:
        raise CrossNERError(f"{one.model.place} holds no sentences to compare on.", hint="Evaluate again with --force.")
    types = sorted(one.types() | other.types())
    counts = one.count(types), other.count(types)
    is_paired = "" != one.model.tagger == other.model.tagger and list(one.model.files) == list(other.model.files)
    found = compare_counts(*counts, is_paired=is_paired, seed=seed)
    errors = counts[0].errors() - counts[1].errors()
    scores = [side.f1() for side in counts]

    def column(number: int) -> Record:
        return {"difference": float(found.difference[number]), **found.interval.column(number)}

    adjusted = adjust_for_many(found.interval.p[1:])
    supports = counts[0].gold.sum(axis=0)
    per_type = [
        {
            "type": name,
            "support": int(supports[number]),
            "f1": float(scores[0][:, number].mean()),
            "against_f1": float(scores[1][:, number].mean()),
            **column(number),
            "adjusted_p": float(adjusted[number - 1]),
        }
        for number, name in enumerate(types, start=1)
    ]
    return {
        "model": one.model.label,
        "against": other.model.label,
        "against_place": other.model.place,
        "mode": one.mode,
        "f1": mean_and_deviation(scores[0][:, 0].tolist()),
        "against_f1": mean_and_deviation(scores[1][:, 0].tolist()),
        "runs": [side.runs for side in counts],
        "is_paired": is_paired,
        **column(0),
        "of_these_taggers": {**found.of_these.column(0), "randomisation_p": float(found.randomisation[0])},
        "sentences": {
            "all": len(errors),
            "won": int((errors < -ROUNDING).sum()),
            "lost": int((errors > ROUNDING).sum()),
            "tied": int((np.abs(errors) <= ROUNDING).sum()),
        },
        "per_type": sorted(per_type, key=lambda row: (-row["support"], row["type"])),
        "resamples": RESAMPLES,
        "confidence": CONFIDENCE,
        "seed": seed,
    }
