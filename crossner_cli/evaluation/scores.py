"""F1 and related scores: exact words and types, entities read by seqeval sentence by sentence.

There are two readings of tags that cannot follow the one before them: ``conll`` lets an ``I-`` that continues nothing
open an entity (the rule of the CoNLL script, used by most papers), ``strict`` drops tags that do not form a whole
entity. Either can give the higher score.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, IOBES, Entities

from crossner_cli.data.tags import OUTSIDE, Scheme, Span, illegal_positions, scheme_shown, split_tag
from crossner_cli.run.results import Average, ModelResult, OtherMode, SeedScores, TypeResult

if TYPE_CHECKING:
    from crossner_cli.taggers.tagging import ScoredEntity

Mode = Literal["conll", "strict"]
Floats = NDArray[np.floating]
SEQEVAL_SCHEMES = {"bio": IOB2, "bioes": IOBES}
REPAIR = {
    "conll": "an I- that continues nothing opens an entity (conlleval's rule, seqeval's default mode)",
    "strict": "tags that do not form a whole entity are dropped (seqeval's strict mode)",
}
# Fields of ``ModelResult``: means over seeds, and counts that are the same for every seed.
AVERAGED = ("f1", "precision", "recall", "macro_f1")
COUNTED_ONCE = ("unreadable_words", "shortened_words", "unknown_words")
PER_TYPE_COLUMNS = ("precision", "recall", "f1", "support", "predicted", "correct")


@dataclass(frozen=True)
class Shares:
    """Precision, recall and F1 in percent."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class TypeScores(Shares):
    """Scores of one entity type, in percent, and the numbers of entities; ``support`` counts gold ones."""

    support: int
    predicted: int
    correct: int


@dataclass(frozen=True)
class Scores(Shares):
    """Micro-averaged scores of a set of sentences, in percent.

    Args:
        macro_f1: Mean of the F1 of every type found in gold or predicted tags.
        per_type: Scores by entity type, in alphabetical order.
        repaired: Predicted tags that cannot follow the one before them, read as ``mode`` says.
    """

    macro_f1: float
    per_type: dict[str, TypeScores]
    support: int
    sentences: int
    repaired: int
    illegal_in_gold: int
    mode: Mode


@dataclass(frozen=True)
class Scored:
    """The scores of one tagger.

    Args:
        scores: Scores in the chosen mode.
        other: Scores in the other mode.
        counts: Words that the encoder could not read or had to shorten, and speed, by their names in ``SeedScores``.
        calibrated: The same with calibrated scores; None if the tagger has no calibration for this decoding.
    """

    scores: Scores
    other: Scores
    counts: Mapping[str, Any]
    scheme: Scheme = "bio"
    tags: Sequence[Sequence[str]] = ()
    entities: Sequence[ScoredEntity] = ()
    calibrated: Sequence[ScoredEntity] | None = None


def compute_shares(correct: int, predicted: int, gold: int) -> Shares:
    """Compute precision, recall and F1 from counts by the arithmetic of seqeval; a division by 0 gives 0."""
    precision = correct / predicted if predicted else 0.0
    recall = correct / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    return Shares(100 * precision, 100 * recall, 100 * f1)


def compute_f1(correct: NDArray[Any], predicted: NDArray[Any], gold: NDArray[Any]) -> Floats:
    """Compute the F1 of ``compute_shares`` for arrays of counts; counts may be sums of weighted sentences or means."""
    total = np.asarray(predicted + gold, dtype=np.float64)
    return np.divide(200.0 * correct, total, out=np.zeros(total.shape), where=total > 0)


def mean_and_deviation(values: Sequence[float]) -> dict[str, float | None]:
    """Compute mean and sample standard deviation; the deviation of one value is None."""
    return {"mean": statistics.fmean(values), "deviation": statistics.stdev(values) if len(values) > 1 else None}


def describe_mode(mode: Mode) -> dict[str, Any]:
    """Return the tool, the repair rule and the division rule of a mode."""
    return {"tool": f"seqeval {version('seqeval')}", "mode": mode, "repair": REPAIR[mode], "zero_division": 0}


def other_mode(mode: Mode) -> Mode:
    """Return the mode whose F1 is shown beside the chosen one."""
    return "strict" if mode == "conll" else "conll"


def score(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    mode: Mode = "conll",
    scheme: Scheme | None = None,
    gold_scheme: Scheme | None = None,
) -> Scores:
    """Score sentences of predicted tags against gold ones.

    Args:
        gold: Tags of each sentence.
        predicted: Tags of the same words.
        mode: Reading of tags that cannot follow the one before them.
        scheme: Scheme of the predicted tags; default: BIOES if any tag of either side is an ``E-`` or ``S-``, else BIO.
        gold_scheme: Scheme of the gold tags; default: that of the predicted tags.

    Raises:
        ValueError: The two differ in sentences or words, or a text is not a tag.
    """
    if list(map(len, gold)) != list(map(len, predicted)):
        raise ValueError("Gold and predicted tags must be those of the same words.")
    scheme = scheme or scheme_shown((*gold, *predicted))
    gold_scheme = gold_scheme or scheme
    right = read_entities(gold, mode=mode, scheme=gold_scheme)
    given = read_entities(predicted, mode=mode, scheme=scheme)
    supports, found, correct = (
        Counter(span.type for sentence in side for span in sentence)
        for side in (right, given, [{*one} & {*other} for one, other in zip(right, given, strict=True)])
    )
    per_type = {}
    for name in sorted({*supports, *found}):
        counts = supports[name], found[name], correct[name]
        shares = compute_shares(correct[name], found[name], supports[name])
        per_type[name] = TypeScores(**vars(shares), support=counts[0], predicted=counts[1], correct=counts[2])
    micro = compute_shares(correct.total(), found.total(), supports.total())
    return Scores(
        **vars(micro),
        macro_f1=sum(each.f1 for each in per_type.values()) / max(1, len(per_type)),
        per_type=per_type,
        support=supports.total(),
        sentences=len(gold),
        repaired=sum(len(illegal_positions(tags, scheme)) for tags in predicted),
        illegal_in_gold=sum(len(illegal_positions(tags, gold_scheme)) for tags in gold),
        mode=mode,
    )


def read_entities(sentences: Sequence[Sequence[str]], *, mode: Mode, scheme: Scheme) -> list[list[Span]]:
    """Read the entities of each sentence with seqeval, in order.

    Raises:
        ValueError: A text is not a tag.
    """
    parts = {tag: split_tag(tag) for tag in {tag for tags in sentences for tag in tags} - {OUTSIDE}}
    names = sorted({name for _, name in parts.values()})
    # seqeval strips hyphens off the ends of types, so it is given numbers instead of names.
    numbers = {name: number for number, name in enumerate(names)}
    numbered = {OUTSIDE: OUTSIDE, **{tag: f"{prefix}-{numbers[name]}" for tag, (prefix, name) in parts.items()}}
    found: list[list[Span]] = []
    for tags in sentences:
        if set(tags) <= {OUTSIDE}:  # most sentences of many data sets
            found.append([])
        elif mode == "strict":
            (entities,) = Entities([[numbered[tag] for tag in tags]], SEQEVAL_SCHEMES[scheme]).entities
            found.append([Span(each.start, each.end, names[int(each.tag)]) for each in entities])
        else:
            chunks = get_entities([numbered[tag] for tag in tags])
            found.append([Span(first, last + 1, names[int(number)]) for number, first, last in chunks])
    return found


def summarise(
    scored: Mapping[str, Scored],
    *,
    reliability: dict[str, Any] | None = None,
    unknown_types: Sequence[str] = (),
    extra_types: Sequence[str] = (),
) -> ModelResult:
    """Average the scores of a model over its seeds.

    Args:
        unknown_types: Gold types that the model does not know.
        extra_types: Types of the model or of its predictions that the gold tags lack.
    """
    every = list(scored.values())
    first = every[0]
    averages: dict[str, Any] = {name: _average([getattr(each.scores, name) for each in every]) for name in AVERAGED}
    counts: dict[str, Any] = {name: int(first.counts.get(name, 0)) for name in COUNTED_ONCE}
    rates = [each.counts["words_per_second"] for each in every if "words_per_second" in each.counts]
    return ModelResult(
        **averages,
        other_mode=OtherMode(first.other.mode, _average([each.other.f1 for each in every])),
        scheme=first.scheme,
        support=first.scores.support,
        repaired=sum(each.scores.repaired for each in every),
        illegal_in_gold=first.scores.illegal_in_gold,
        **counts,
        discarded_sequences=int(sum(each.counts.get("discarded_sequences", 0) for each in every)),
        seconds=round(sum(each.counts.get("seconds", 0.0) for each in every), 2),
        words_per_second=round(statistics.fmean(rates)) if rates else None,
        reliability=reliability,
        per_type=_average_types([each.scores for each in every]),
        seeds={
            seed: SeedScores(**asdict(each.scores), other_mode_f1=each.other.f1, **each.counts)
            for seed, each in scored.items()
        },
        unknown_types=list(unknown_types),
        extra_types=list(extra_types),
    )


def _average(values: Sequence[float]) -> Average:
    return Average(**mean_and_deviation(values))


def _average_types(scores: Sequence[Scores]) -> list[TypeResult]:
    """Average scores by type over seeds; a seed without a type counts as 0."""
    rows = []
    for name in sorted({name for each in scores for name in each.per_type}):
        found = [asdict(each.per_type[name]) if name in each.per_type else {} for each in scores]
        columns = {column: [row.get(column, 0) for row in found] for column in PER_TYPE_COLUMNS}
        means = {column: statistics.fmean(values) for column, values in columns.items() if column != "support"}
        deviation = mean_and_deviation(columns["f1"])["deviation"]
        rows.append(TypeResult(name, **means, support=max(columns["support"]), f1_deviation=deviation))
    return rows
