"""Scores of predicted tags against gold tags: exact spans and types, counted by seqeval sentence by sentence.

Two readings of tags that cannot follow the one before them: ``conll`` lets an ``I-`` that continues nothing open an
entity (the CoNLL script's rule, used by most papers), ``strict`` drops what is no whole entity. Both can give the
higher score.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

from seqeval.metrics.sequence_labeling import get_entities
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as conll_scores
from seqeval.metrics.v1 import precision_recall_fscore_support as strict_scores
from seqeval.scheme import IOB2, IOBES, Entities

from crossner_cli.data.tags import OUTSIDE, Scheme, illegal_positions, scheme_shown, split_tag
from crossner_cli.errors import CrossNERError

Mode = Literal["conll", "strict"]
Percents = tuple[float, float, float]  # precision, recall, F1
Entity = tuple[str, int, int]  # type, start, end, as seqeval counts words
SEQEVAL_SCHEMES = {"bio": IOB2, "bioes": IOBES}
REPAIR = {
    "conll": "an I- that continues nothing opens an entity (conlleval's rule, seqeval's default mode)",
    "strict": "tags that form no whole entity are dropped (seqeval's strict mode)",
}


@dataclass(frozen=True)
class TypeScores:
    """Scores of one entity type, in percent, and the counts behind them.

    Args:
        precision: Correct of predicted.
        recall: Correct of gold.
        f1: Their harmonic mean.
        support: Gold entities.
        predicted: Predicted entities.
        correct: Predicted entities that are gold ones.
    """

    precision: float
    recall: float
    f1: float
    support: int
    predicted: int
    correct: int


@dataclass(frozen=True)
class Scores:
    """Scores of a set of sentences, in percent; what cannot be divided is 0.

    Args:
        precision: Micro-averaged.
        recall: Micro-averaged.
        f1: Micro-averaged.
        macro_f1: Mean of the F1 of every type found in gold or predicted tags.
        per_type: Scores by entity type, in alphabetical order.
        support: Gold entities.
        sentences: How many were scored.
        repaired: Predicted tags that cannot follow the one before them, read as ``mode`` says.
        illegal_in_gold: Gold tags of that kind, read likewise.
        mode: ``conll`` or ``strict``.
    """

    precision: float
    recall: float
    f1: float
    macro_f1: float
    per_type: dict[str, TypeScores]
    support: int
    sentences: int
    repaired: int
    illegal_in_gold: int
    mode: Mode

    def to_json(self) -> dict[str, Any]:
        """Every number, with the tool and the rule that made it."""
        return {**dataclasses.asdict(self), **describe_mode(self.mode)}


def mean_and_deviation(values: Sequence[float]) -> dict[str, float | None]:
    """Mean and sample standard deviation; no deviation of one value."""
    return {"mean": statistics.fmean(values), "deviation": statistics.stdev(values) if len(values) > 1 else None}


def describe_mode(mode: Mode) -> dict[str, Any]:
    """Tool, repair and division rule behind the scores of a mode."""
    return {"tool": f"seqeval {version('seqeval')}", "mode": mode, "repair": REPAIR[mode], "zero_division": 0}


def score(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, mode: Mode = "conll",
    scheme: Scheme | None = None,
) -> Scores:  # fmt: skip
    """Score sentences of predicted tags against gold ones.

    Args:
        gold: Tags of each sentence, in BIO or BIOES.
        predicted: Tags of the same words.
        mode: How tags that cannot follow the one before them are read.
        scheme: Scheme of the tags; BIOES wherever any tag is an ``E-`` or ``S-``.

    Raises:
        CrossNERError: The two differ in sentences or words, or hold what is no tag.
    """
    _check(gold, predicted)
    names = sorted({entity_type for tags in (*gold, *predicted) for tag in set(tags) if (entity_type := _type(tag))})
    # seqeval strips hyphens off the ends of types and reserves names: it gets plain numbers, in alphabetical order.
    numbers = {name: f"{number:06}" for number, name in enumerate(names)}
    gold_tags = [[_numbered(tag, numbers) for tag in tags] for tags in gold]
    predicted_tags = [[_numbered(tag, numbers) for tag in tags] for tags in predicted]
    if scheme_shown((*gold_tags, *predicted_tags)) == "bioes":
        scheme = "bioes"
    scheme = scheme or "bio"
    micro, rows, counts = _count(gold_tags, predicted_tags, mode, scheme)
    per_type = {names[int(number)]: TypeScores(*rows[number], *counts[number]) for number in rows}
    precision, recall, f1 = micro
    return Scores(
        precision=precision,
        recall=recall,
        f1=f1,
        macro_f1=sum(each.f1 for each in per_type.values()) / max(1, len(per_type)),
        per_type=per_type,
        support=sum(each.support for each in per_type.values()),
        sentences=len(gold),
        repaired=sum(len(illegal_positions(tags, scheme)) for tags in predicted_tags),
        illegal_in_gold=sum(len(illegal_positions(tags, scheme)) for tags in gold_tags),
        mode=mode,
    )


def sentence_entities(sentences: Sequence[Sequence[str]], *, mode: Mode, scheme: Scheme) -> list[set[Entity]]:
    """The entities of each sentence as ``score`` reads them.

    Args:
        sentences: Tags of each sentence.
        mode: How tags that cannot follow the one before them are read.
        scheme: Scheme of the tags.
    """
    names = sorted({_type(tag) or "" for tags in sentences for tag in set(tags)})
    numbers = {name: f"{number:06}" for number, name in enumerate(names)}
    found: list[set[Entity]] = []
    for tags in sentences:
        numbered = [] if set(tags) == {OUTSIDE} else [_numbered(tag, numbers) for tag in tags]
        entities = _entities([numbered], mode, scheme) if numbered else set()
        found.append({(names[int(number)], start, end) for number, start, end, _ in entities})
    return found


def whole_entities(tags: Sequence[str], scheme: Scheme) -> list[str]:
    """The tags of a sentence without those that ``strict`` drops."""
    numbers = {name: str(number) for number, name in enumerate({_type(tag) or "" for tag in tags})}
    kept = [OUTSIDE] * len(tags)
    for entity in Entities([[_numbered(tag, numbers) for tag in tags]], SEQEVAL_SCHEMES[scheme]).entities[0]:
        kept[entity.start : entity.end] = tags[entity.start : entity.end]
    return kept


def _count(
    gold: list[list[str]], predicted: list[list[str]], mode: Mode, scheme: Scheme
) -> tuple[Percents, dict[str, Percents], dict[str, tuple[int, int, int]]]:
    """Ask seqeval.

    Returns:
        Precision, recall and F1 over all types; the same by type; gold, predicted and correct entities by type.
    """
    # Sentences without a tagged word hold no entity on either side; most of a file is such.
    pairs = [(tags, others) for tags, others in zip(gold, predicted, strict=True) if {*tags, *others} - {OUTSIDE}]
    if not pairs:
        return (0.0, 0.0, 0.0), {}, {}
    gold, predicted = [tags for tags, _ in pairs], [others for _, others in pairs]
    entities = [_entities(side, mode, scheme) for side in (gold, predicted)]
    supports, found = (Counter(entity[0] for entity in side) for side in entities)
    correct = Counter(entity[0] for entity in entities[0] & entities[1])
    names = sorted({*supports, *found})
    shared: dict[str, Any] = {"zero_division": 0}
    if mode == "strict":
        shared |= {"scheme": SEQEVAL_SCHEMES[scheme]}
    ask = strict_scores if mode == "strict" else conll_scores
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        *micro, _ = ask(gold, predicted, average="micro", **shared)
        *columns, _ = ask(gold, predicted, average=None, **shared)
    rows = {name: _percents(row) for name, row in zip(names, zip(*columns, strict=True), strict=True)}
    counts = {name: (supports[name], found[name], correct[name]) for name in names}
    return _percents(micro), rows, counts


def _percents(shares: Sequence[float]) -> Percents:
    precision, recall, f1 = (100 * float(share) for share in shares)
    return precision, recall, f1


def _entities(side: list[list[str]], mode: Mode, scheme: Scheme) -> set[tuple[str, int, int, int]]:
    """The entities of all sentences as seqeval reads them: type, start, end and sentence."""
    if mode == "conll":
        return {(name, start, end, 0) for name, start, end in get_entities(side)}
    found = Entities(side, SEQEVAL_SCHEMES[scheme]).entities
    return {(entity.tag, entity.start, entity.end, entity.sent_id) for entities in found for entity in entities}


def _check(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
    if len(gold) != len(predicted):
        raise CrossNERError(
            f"There are {len(gold)} gold sentences and {len(predicted)} predicted ones.",
            hint="Score the predictions of the very same sentences.",
        )
    for number, (tags, others) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(tags) != len(others):
            raise CrossNERError(
                f"Sentence {number} has {len(tags)} gold tags and {len(others)} predicted ones.",
                hint="Every word needs one gold and one predicted tag.",
            )
        for tag in {*tags, *others}:
            if _type(tag) is None:
                raise CrossNERError(
                    f"Sentence {number} holds {tag!r}, which is no tag.", hint="A tag is O or prefix-type, as B-person."
                )


@functools.lru_cache(maxsize=4096)
def _type(tag: str) -> str | None:
    """Entity type of a tag, empty for ``O``; None for what is no tag."""
    try:
        return split_tag(tag)[1]
    except ValueError:
        return None


def _numbered(tag: str, numbers: dict[str, str]) -> str:
    if tag == OUTSIDE:
        return OUTSIDE
    prefix, entity_type = split_tag(tag)
    return f"{prefix}-{numbers[entity_type]}"
