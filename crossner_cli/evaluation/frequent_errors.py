"""The errors that happen most often, as text: the same words and types again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.sentences import Sentence
from crossner_cli.evaluation.error_analysis import CORRECT, KINDS, NO_PARTNER, SPURIOUS, ErrorAnalysis
from crossner_cli.evaluation.spans import Layout, Numbers, Spans

FREQUENT = 50
CONTEXT_WORDS = 8
NOTHING = -1


def frequent_errors(
    analysis: ErrorAnalysis, forms: tuple[Numbers, Numbers], sentences: Sequence[Sentence], layout: Layout,
    types: Sequence[str], *, limit: int = FREQUENT,
) -> list[dict[str, Any]]:  # fmt: skip
    """Group errors of the same kind, words and types.

    Args:
        analysis: The errors.
        forms: Surface form of each gold entity, and of each predicted one.
        sentences: The words.
        layout: Where they are.
        types: Entity types.
        limit: Groups given.

    Returns:
        The most frequent first: ``kind``, ``count``, ``gold`` and ``predicted`` (``text`` and ``type``, None for what
        is not there), and of the first case ``sentence`` (from 1) and ``context``.
    """
    gold, predicted = _pairs(analysis)
    kinds = np.where(gold == NOTHING, SPURIOUS, analysis.gold_kind[gold] if len(analysis.gold) else SPURIOUS)
    columns = [
        kinds,
        _column(forms[0], gold), _column(analysis.gold.type, gold),
        _column(forms[1], predicted), _column(analysis.predicted.type, predicted),
    ]  # fmt: skip
    group = np.zeros(len(kinds), np.int64)
    for column in columns:  # one column after the other, so that no key grows too large for a number
        _, group = np.unique(group * (int(column.max(initial=0)) + 2) + column + 1, return_inverse=True)
    _, first, counts = np.unique(group, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))[:limit]
    return [
        {
            "kind": KINDS[int(kinds[place])],
            "count": int(count),
            "gold": _describe(analysis.gold, int(gold[place]), sentences, layout, types),
            "predicted": _describe(analysis.predicted, int(predicted[place]), sentences, layout, types),
            **_case(analysis, int(gold[place]), int(predicted[place]), sentences, layout),
        }
        for place, count in zip(first[order], counts[order], strict=True)
    ]


def _pairs(analysis: ErrorAnalysis) -> tuple[Numbers, Numbers]:
    """Number of the gold and of the predicted entity of each error, ``NOTHING`` where there is none."""
    wrong = np.flatnonzero(analysis.gold_kind != CORRECT)
    spurious = np.flatnonzero(analysis.predicted_partner == NO_PARTNER)
    gold = np.concatenate([wrong, np.full(len(spurious), NOTHING)])
    return gold, np.concatenate([analysis.gold_partner[wrong], spurious])


def _column(values: NDArray[Any], numbers: Numbers) -> Numbers:
    """The value of each number, ``NOTHING`` where there is none."""
    return np.append(values, NOTHING).astype(np.int64)[numbers]


def _describe(
    spans: Spans, number: int, sentences: Sequence[Sentence], layout: Layout, types: Sequence[str]
) -> dict[str, str] | None:
    if number == NOTHING:
        return None
    sentence, start, end = _place(spans, number, layout)
    return {"text": " ".join(sentences[sentence].words[start:end]), "type": types[int(spans.type[number])]}


def _case(
    analysis: ErrorAnalysis, gold: int, predicted: int, sentences: Sequence[Sentence], layout: Layout
) -> dict[str, Any]:
    """The sentence of an error, and what stands around it."""
    found = [_place(spans, number, layout) for spans, number in ((analysis.gold, gold), (analysis.predicted, predicted))
             if number != NOTHING]  # fmt: skip
    words = sentences[found[0][0]].words
    start = max(0, min(place[1] for place in found) - CONTEXT_WORDS)
    end = min(len(words), max(place[2] for place in found) + CONTEXT_WORDS)
    text = " ".join(words[start:end])
    dots = ("… " if start else "", " …" if end < len(words) else "")
    return {"sentence": found[0][0] + 1, "context": text.join(dots)}


def _place(spans: Spans, number: int, layout: Layout) -> tuple[int, int, int]:
    """Sentence of an entity, and its words in it."""
    sentence = int(layout.sentence_of(spans.start[number : number + 1])[0])
    first = int(layout.first[sentence])
    return sentence, int(spans.start[number]) - first, int(spans.end[number]) - first
