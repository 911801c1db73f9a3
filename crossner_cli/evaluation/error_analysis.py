"""Errors of a tagger: gold and predicted entities paired, each in one kind, with counts, confusions and examples.

A pair of a gold and a predicted entity is one event, so both get its kind. Entities of the same words are a pair:
``correct``, or ``type``. Of the others, those that overlap are paired one to one, the best pair first: the same type
before another, then the longer overlap, then the earlier place. For the same type, the error is ``boundary_left``
(the first word differs), ``boundary_right`` (the last one) or ``boundary_both``; for another type it is
``boundary_and_type``. A gold entity without a partner is ``missed``, a predicted one ``spurious``.

A confusion of two types is within the hierarchy of types if a parent was predicted for its child (``too_general``), a
child for its parent (``too_specific``), or one child of a parent for another (``sibling``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, Span
from crossner_cli.errors import CrossNERError

KINDS = (
    "correct",
    "missed",
    "spurious",
    "boundary_left",
    "boundary_right",
    "boundary_both",
    "type",
    "boundary_and_type",
)
ERRORS = KINDS[1:]
SAME_WORDS = ("correct", "type")
GOLD, PREDICTED = "gold", "predicted"
NO_PARTNER = -1
COLUMNS = ("side", "sentence", "start", "end", "type", "words", "kind", "partner")
NUMBERS = ("sentence", "start", "end", "partner")
FREQUENT = 50
CONTEXT_WORDS = 8

# The specialised types of CrossNER's five domains (Liu et al. 2021, Table 1) below the types of CoNLL-2003. Types that
# its "misc" may or may not cover, as song or award, have no parent here.
DEFAULT_PARENTS = {
    "politician": "person",
    "scientist": "person",
    "musicalartist": "person",
    "writer": "person",
    "researcher": "person",
    "politicalparty": "organisation",
    "university": "organisation",
    "band": "organisation",
    "country": "location",
}
RELATIONS = ("too_general", "too_specific", "sibling")
PARENTS_HINT = "Write child=parent,… as --type-parents politician=person,band=organisation; child=none takes one out."
NO_PARENT = "none"


def pair_entities(gold: Sequence[Span], predicted: Sequence[Span]) -> dict[int, int]:
    """Pair the entities of a sentence that share a word, one to one, the best pair first.

    Returns:
        By number of a gold entity the number of its predicted partner.
    """
    candidates = []
    for ours, one in enumerate(gold):
        for theirs, other in enumerate(predicted):
            overlap = min(one.end, other.end) - max(one.start, other.start)
            if overlap > 0:
                candidates.append((one[:2] != other[:2], one.type != other.type, -overlap, ours, theirs))
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for *_, ours, theirs in sorted(candidates):
        if ours not in pairs and theirs not in taken:
            pairs[ours] = theirs
            taken.add(theirs)
    return pairs


def pair_kind(gold: Span, predicted: Span) -> str:
    """The kind of a pair that shares at least a word."""
    same_start, same_end = gold.start == predicted.start, gold.end == predicted.end
    if gold.type != predicted.type:
        return "type" if same_start and same_end else "boundary_and_type"
    if same_start:
        return "correct" if same_end else "boundary_right"
    return "boundary_left" if same_end else "boundary_both"


def tabulate_entities(
    sentences: Sequence[Sentence], gold: Sequence[Sequence[Span]], predicted: Sequence[Sequence[Span]]
) -> pd.DataFrame:
    """Pair the entities of all sentences.

    Args:
        sentences: Words.
        gold: Gold entities of each sentence.
        predicted: Predicted entities of each sentence.

    Returns:
        A row an entity, the gold ones first, each side in order: ``side``, ``sentence``, ``start``, ``end``, ``type``,
        ``words``, ``kind``, and ``partner``, the row of the other side's entity or ``NO_PARTNER``.
    """
    gold_rows: list[tuple[Any, ...]] = []
    predicted_rows: list[tuple[Any, ...]] = []
    gold_count = sum(map(len, gold))
    for number, (sentence, ours, theirs) in enumerate(zip(sentences, gold, predicted, strict=True)):
        pairs = pair_entities(ours, theirs)
        first_gold, first_predicted = len(gold_rows), gold_count + len(predicted_rows)
        for place, span in enumerate(ours):
            kind, partner = "missed", NO_PARTNER
            if place in pairs:
                kind, partner = pair_kind(span, theirs[pairs[place]]), first_predicted + pairs[place]
            words = sentence.words[span.start : span.end]
            gold_rows.append((GOLD, number, *span, words, kind, partner))
        partners = {there: here for here, there in pairs.items()}
        for place, span in enumerate(theirs):
            kind, partner = "spurious", NO_PARTNER
            if place in partners:
                kind, partner = pair_kind(ours[partners[place]], span), first_gold + partners[place]
            words = sentence.words[span.start : span.end]
            predicted_rows.append((PREDICTED, number, *span, words, kind, partner))
    rows = [*gold_rows, *predicted_rows]
    # Text as plain objects, which are faster to read one by one than pandas' own strings.
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object).astype(dict.fromkeys(NUMBERS, int))


def side_of(entities: pd.DataFrame, side: str) -> pd.DataFrame:
    """The rows of one side."""
    return entities[entities["side"] == side]


def events_of(entities: pd.DataFrame) -> pd.DataFrame:
    """The pairs, missed and spurious entities, a row each, with the partner's columns as ``partner_…``."""
    events = entities[(entities["side"] == GOLD) | (entities["kind"] == "spurious")]
    return events.join(entities.drop(columns="partner").add_prefix("partner_"), on="partner")


def count_kinds(entities: pd.DataFrame, types: Sequence[str]) -> dict[str, Any]:
    """Count entities of each kind: ``all`` (a pair counts once), ``gold_by_type`` and ``predicted_by_type``."""
    found = Counter(zip(entities["side"], entities["type"], entities["kind"], strict=True))
    events = Counter(events_of(entities)["kind"])
    of_gold = [kind for kind in KINDS if kind != "spurious"]
    of_predicted = [kind for kind in KINDS if kind != "missed"]
    return {
        "all": {kind: events[kind] for kind in KINDS},
        "gold_by_type": {name: {kind: found[GOLD, name, kind] for kind in of_gold} for name in types},
        "predicted_by_type": {name: {kind: found[PREDICTED, name, kind] for kind in of_predicted} for name in types},
    }


def count_confusions(entities: pd.DataFrame, types: Sequence[str]) -> dict[str, dict[str, int]]:
    """Count which predicted type each gold type was given: pairs, missed (to ``O``) and spurious (from ``O``).

    Returns:
        By gold type, by predicted type, each by its ``confusion_name``; ``O`` is last. A row adds up to the gold
        entities of the type, a column to the predicted ones.
    """
    events = events_of(entities)
    found: Counter[tuple[str, str]] = Counter()
    for kind, name, partner in zip(events["kind"], events["type"], events["partner_type"], strict=True):
        if kind == "spurious":
            found[OUTSIDE, confusion_name(name)] += 1
        else:
            found[confusion_name(name), OUTSIDE if kind == "missed" else confusion_name(partner)] += 1
    names = [*map(confusion_name, types), OUTSIDE]
    return {gold: {predicted: found[gold, predicted] for predicted in names} for gold in names}


def confusion_name(entity_type: str) -> str:
    """The name of a type among confusions, in which ``O`` stands for no entity: ``B-O`` for a type called ``O``."""
    return f"B-{OUTSIDE}" if entity_type == OUTSIDE else entity_type


def find_frequent_errors(
    entities: pd.DataFrame, sentences: Sequence[Sentence], *, limit: int = FREQUENT
) -> list[dict[str, Any]]:
    """Group errors of the same kind, words and types.

    Returns:
        The most frequent first: ``kind``, ``count``, ``gold`` and ``predicted`` (``text`` and ``type``, None if there
        is no such entity), and of the first case ``sentence`` (from 1) and ``context``.
    """
    events = events_of(entities)
    cases: dict[tuple[Any, ...], list[Any]] = {}
    for event in events[events["kind"] != "correct"].itertuples():
        has_partner = event.partner != NO_PARTNER
        key = (event.kind, event.words, event.type, *((event.partner_words, event.partner_type) if has_partner else ()))
        cases.setdefault(key, []).append(event)
    most_frequent = sorted(cases.values(), key=len, reverse=True)[:limit]
    return [_describe_error(found[0], len(found), sentences) for found in most_frequent]


def _describe_error(event: Any, count: int, sentences: Sequence[Sentence]) -> dict[str, Any]:
    own = {"text": " ".join(event.words), "type": event.type}
    places, partner = [(event.start, event.end)], None
    if event.partner != NO_PARTNER:
        partner = {"text": " ".join(event.partner_words), "type": event.partner_type}
        places.append((int(event.partner_start), int(event.partner_end)))
    words = sentences[event.sentence].words
    start = max(0, min(place[0] for place in places) - CONTEXT_WORDS)
    end = min(len(words), max(place[1] for place in places) + CONTEXT_WORDS)
    context = " ".join(words[start:end])
    return {
        "kind": event.kind,
        "count": count,
        "gold": own if event.side == GOLD else None,
        "predicted": own if event.side == PREDICTED else partner,
        "sentence": event.sentence + 1,
        "context": ("… " if start else "") + context + (" …" if end < len(words) else ""),
    }


def read_parents(text: str | None, types: Collection[str]) -> dict[str, str]:
    """The parents of types: the default table, changed by ``--type-parents``.

    Args:
        text: ``child=parent,…``; None changes nothing.
        types: The known entity types.

    Raises:
        CrossNERError: The text has another form, names a child twice or one that is no type, or makes a circle.
    """
    given: dict[str, str] = {}
    for part in [] if text is None else text.split(","):
        child, _, parent = (piece.strip() for piece in part.partition("="))
        if not (child and parent) or "=" in parent:
            raise CrossNERError(f"--type-parents: {part!r} is not of the form child=parent.", hint=PARENTS_HINT)
        if child in given:
            raise CrossNERError(f"--type-parents gives {child!r} twice.", hint="Each type has one parent.")
        if child not in types:
            raise CrossNERError(
                f"--type-parents: {child!r} is none of the entity types: {', '.join(sorted(types)) or 'none'}.",
                hint=PARENTS_HINT,
            )
        given[child] = parent
    known = {child: parent for child, parent in DEFAULT_PARENTS.items() if child in types}
    parents = {child: parent for child, parent in (known | given).items() if parent != NO_PARENT}
    for child in parents:
        if child in ancestors_of(child, parents):
            raise CrossNERError(
                f"--type-parents goes in a circle: {child!r} is above itself.", hint="Take one of the pairs out."
            )
    return parents


def ancestors_of(child: str, parents: Mapping[str, str]) -> list[str]:
    """The types above a type, the nearest first; each once."""
    found: list[str] = []
    while child in parents and parents[child] not in found:
        child = parents[child]
        found.append(child)
    return found


def type_relation(gold: str, predicted: str, parents: Mapping[str, str]) -> str | None:
    """The relation of two confused types within the hierarchy, one of ``RELATIONS``; None if there is none."""
    if predicted in ancestors_of(gold, parents):
        return "too_general"
    if gold in ancestors_of(predicted, parents):
        return "too_specific"
    return "sibling" if gold in parents and parents[gold] == parents.get(predicted) else None


def count_relations(confusion: Mapping[str, Mapping[str, int]], parents: Mapping[str, str]) -> dict[str, Any]:
    """Count the confusions of types within the hierarchy.

    Args:
        confusion: Counts by gold type, by predicted type; those of ``O`` are left out.
        parents: Parent by child.

    Returns:
        ``type_errors`` (pairs of different types, whatever their words), a count for each of ``RELATIONS``, their share
        in percent (None without errors), and ``pairs``, as ``politician -> person``.
    """
    counts, pairs, wrong = dict.fromkeys(RELATIONS, 0), {}, 0
    for gold, predicted, number in _type_errors(confusion):
        wrong += number
        kind = type_relation(gold, predicted, parents)
        if kind:
            counts[kind] += number
            pairs[f"{gold} -> {predicted}"] = {"kind": kind, "count": number}
    share = 100 * sum(counts.values()) / wrong if wrong else None
    return {"type_errors": wrong, **counts, "percent": share, "pairs": pairs}


def _type_errors(confusion: Mapping[str, Mapping[str, int]]) -> Iterable[tuple[str, str, int]]:
    for gold, row in confusion.items():
        for predicted, number in row.items():
            if gold != predicted and OUTSIDE not in (gold, predicted) and number:
                yield gold, predicted, number
