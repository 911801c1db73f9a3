"""Labels that are probably wrong, by taggers that have not seen them.

The score of an entity is one less the probability of its gold tag at its worst word: Wang and Mueller (2022), Detecting
Label Errors in Token Classification Data, section 3. Probabilities are means over seeds and calibrated by a temperature
(Guo et al. 2017, On Calibration of Modern Neural Networks, section 4.2) that is fitted out of fold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crossner_cli.data.inconsistencies import Suspect
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_spans
from crossner_cli.evaluation.folds import FoldPrediction
from crossner_cli.evaluation.scores import Floats

FLOOR = 1e-4  # of the probabilities, since those near zero were left out
TEMPERATURES = np.geomspace(0.5, 8.0, 49)
SUSPICIOUS = 0.5  # the score of an entity that is listed although the taggers give it, too


def find_suspects(sentences: Sequence[Sentence], runs: Sequence[Sequence[FoldPrediction]]) -> list[Suspect]:
    """Find the entities that the taggers label otherwise or doubt, and those that only they find; the worst first.

    Args:
        sentences: With gold tags.
        runs: The predictions of each seed, with the probabilities of all tags.
    """
    names = sorted({tag for run in runs for each in run for word in each.shares or () for tag in word})
    names = sorted({*names, *(tag for sentence in sentences for tag in sentence.tags or ())})
    column = {tag: number for number, tag in enumerate(names)}
    probabilities = _read_probabilities(runs, column)
    gold = np.array([column[tag] for sentence in sentences for tag in sentence.tags or ()])
    probabilities = _calibrate(probabilities, gold)
    of_gold, likeliest = probabilities[np.arange(len(gold)), gold], probabilities.argmax(axis=1)
    suspects: list[Suspect] = []
    first = 0
    for number, sentence in enumerate(sentences):
        last = first + len(sentence.words)
        sure, others = of_gold[first:last], to_spans([names[tag] for tag in likeliest[first:last]])
        spans = to_spans(sentence.tags or ())
        for span in spans:
            overlaps = [(_overlap(span, each), each) for each in others if _overlap(span, each)]
            found = max(overlaps, key=lambda pair: pair[0])[1] if overlaps else None
            score = 1 - float(sure[span.start : span.end].min())
            if found != span or score > SUSPICIOUS:
                suspects.append(Suspect(number, span, found, _find_kind(span, found), score))
        for span in others:
            if not any(_overlap(span, each) for each in spans):
                suspects.append(Suspect(number, None, span, "missing", 1 - float(sure[span.start : span.end].min())))
        first = last
    return sorted(suspects, key=lambda each: -each.score)


def _read_probabilities(runs: Sequence[Sequence[FoldPrediction]], column: dict[str, int]) -> Floats:
    """The mean over seeds of the probabilities of all words, (words, tags); each row sums to one."""
    means = []
    for run in runs:
        rows = [word for each in run for word in each.shares or ()]
        table = np.full((len(rows), len(column)), FLOOR)
        for row, word in zip(table, rows, strict=True):
            for tag, share in word.items():
                row[column[tag]] = max(FLOOR, share)
        means.append(table / table.sum(axis=1, keepdims=True))
    return np.asarray(np.mean(means, axis=0))


def _calibrate(probabilities: Floats, gold: Floats) -> Floats:
    """Apply the temperature under which the gold tags are likeliest."""

    def apply(temperature: float) -> Floats:
        raised = probabilities ** (1 / temperature)
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    places = np.arange(len(gold))
    return apply(max(TEMPERATURES, key=lambda each: float(np.log(apply(each)[places, gold]).mean())))


def _overlap(one: Span, other: Span) -> int:
    """Number of words that two spans share."""
    return max(0, min(one.end, other.end) - max(one.start, other.start))


def _find_kind(gold: Span, found: Span | None) -> str:
    """Name what the taggers doubt of a label."""
    if found is None:
        return "no entity"
    parts = ["type"] * (gold.type != found.type) + ["border"] * (gold[:2] != found[:2])
    return " and ".join(parts) or "unsure"
