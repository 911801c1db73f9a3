"""Fine-grained analysis of taggers: every error in one kind, confusions, scores of parts, and examples.

A pair of a gold and a predicted entity is one event, so both get its kind. Entities of the same words are a pair:
``correct``, or ``type``. Of the others, those that overlap are paired one to one, the best pair first: the same type
before another, then the longer overlap, then the earlier place. For the same type, the error is ``boundary_left``
(the first word differs), ``boundary_right`` (the last one) or ``boundary_both``; for another type it is
``boundary_and_type``. A gold entity without a partner is ``missed``, a predicted one ``spurious``.

Numbers are counted for each seed, then averaged. Examples (frequent errors, highlighted sentences) are those of one
tagger a model: the seed that is best on dev.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, AnyScheme, Span, illegal_positions
from crossner_cli.evaluation.buckets import Buckets, KnownText, find_in_raw_text
from crossner_cli.evaluation.scores import Mode, compute_shares, mean_and_deviation, read_entities
from crossner_cli.run.progress import Work

BOUNDARIES = ("boundary_left", "boundary_right", "boundary_both")
KINDS = ("correct", "missed", "spurious", *BOUNDARIES, "type", "boundary_and_type")
SAME_WORDS = ("correct", "type")
GOLD, PREDICTED = "gold", "predicted"
NO_PARTNER = -1
COLUMNS = ("side", "sentence", "start", "end", "type", "words", "kind", "partner")
NUMBERS = ("sentence", "start", "end", "partner")
MEASURES = ("precision", "recall", "f1")
CASE = ("kind", "words", "type", "partner_words", "partner_type")  # what cases of one frequent error share
FREQUENT = 50
CONTEXT_WORDS = 8
AT_START, AT_END = "(start)", "(end)"
# The specialised types of CrossNER's five domains (Liu et al. 2021, Table 1) below the types of CoNLL-2003. Types that
# its "misc" may or may not cover, as song or award, have no parent here.
PARENTS = {
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


@dataclass(frozen=True)
class Tagging:
    """The output of one tagger.

    Args:
        label: The model as the user named it.
        seed: Its seed, ``-`` if it has none.
        tags: Tags of each sentence.
        scheme: Scheme of the tags.
        is_shown: True for the seed whose errors are shown as examples.
    """

    label: str
    seed: str
    tags: Sequence[Sequence[str]]
    scheme: AnyScheme = "bio"
    is_shown: bool = True


@dataclass(frozen=True)
class ModelAnalysis:
    """The analysis of one model.

    Args:
        record: ``mean`` (numbers, each as ``{"mean": …, "deviation": …}`` over seeds), ``shown_seed``, and
            ``frequent_errors`` of that seed.
        entities: Entities of the shown seed, as ``tabulate_entities`` makes them.
    """

    record: dict[str, Any]
    entities: pd.DataFrame


def analyse_taggings(
    sentences: Sequence[Sentence],
    taggings: Sequence[Tagging],
    known: KnownText,
    *,
    mode: Mode = "conll",
    gold_scheme: AnyScheme = "bio",
) -> Work[dict[str, ModelAnalysis]]:
    """Count and sort the errors of taggers.

    Args:
        sentences: Words with gold tags.
        taggings: Tags of the same words; a model has one or more of them, with different seeds.
        known: Text in which mentions may have been seen.
        mode: Reading of tags that cannot follow the one before them.
        gold_scheme: Scheme of the gold tags.

    Returns:
        By label.
    """
    gold = read_entities([sentence.tags or () for sentence in sentences], mode=mode, scheme=gold_scheme)
    tables = [
        tabulate_entities(sentences, gold, read_entities(each.tags, mode=mode, scheme=each.scheme)) for each in taggings
    ]
    seen = None
    if known.raw_text is not None:
        seen = yield from find_in_raw_text(known.raw_text, {words for table in tables for words in table["words"]})
    buckets = Buckets(sentences, gold, known, seen)
    models: dict[str, ModelAnalysis] = {}
    for label in dict.fromkeys(each.label for each in taggings):
        seeds = [pair for pair in zip(taggings, tables, strict=True) if pair[0].label == label]
        types = sorted({name for _, table in seeds for name in table["type"]})
        shown, entities = next((pair for pair in seeds if pair[0].is_shown), seeds[0])
        record = {
            "shown_seed": shown.seed,
            "mean": average_records([count_errors(table, each, types, buckets) for each, table in seeds]),
            "frequent_errors": find_frequent_errors(entities, sentences),
        }
        models[label] = ModelAnalysis(record, entities)
    return models


def count_errors(entities: pd.DataFrame, tagging: Tagging, types: Sequence[str], buckets: Buckets) -> dict[str, Any]:
    """Count everything about one tagger; ``types`` are those of gold or of any seed."""
    confusion = count_confusions(entities, types)
    return {
        "scores": score_types(entities),
        "span_detection": score_detection(entities),
        "typing": score_typing(entities, types),
        "errors": count_kinds(entities, types),
        "confusion": confusion,
        "hierarchy": count_relations(confusion),
        "illegal_tags": count_illegal_tags(tagging.tags, tagging.scheme),
        "buckets": {
            name: {
                bucket: _shares(*counts) for bucket, *counts in _count_groups(entities, column, column.cat.categories)
            }
            for name, column in buckets.sort(entities).items()
        },
    }


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
    """Pair the gold and predicted entities of each sentence.

    Returns:
        A row an entity, the gold ones first, each side in order: ``side``, ``sentence``, ``start``, ``end``, ``type``,
        ``words``, ``kind``, and ``partner``, the row of the other side's entity or ``NO_PARTNER``.
    """
    gold_rows: list[tuple[Any, ...]] = []
    predicted_rows: list[tuple[Any, ...]] = []
    gold_count = sum(map(len, gold))
    for number, (sentence, ours, theirs) in enumerate(zip(sentences, gold, predicted, strict=True)):
        pairs = pair_entities(ours, theirs)
        kinds = {place: pair_kind(ours[place], theirs[partner]) for place, partner in pairs.items()}
        first_gold, first_predicted = len(gold_rows), gold_count + len(predicted_rows)
        for place, span in enumerate(ours):
            partner = first_predicted + pairs[place] if place in pairs else NO_PARTNER
            words = sentence.words[span.start : span.end]
            gold_rows.append((GOLD, number, *span, words, kinds.get(place, "missed"), partner))
        partners = {there: here for here, there in pairs.items()}
        for place, span in enumerate(theirs):
            partner = first_gold + partners[place] if place in partners else NO_PARTNER
            kind = kinds[partners[place]] if place in partners else "spurious"
            words = sentence.words[span.start : span.end]
            predicted_rows.append((PREDICTED, number, *span, words, kind, partner))
    rows = [*gold_rows, *predicted_rows]
    # Text as plain objects, which are faster to read one by one than pandas' own strings.
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object).astype(dict.fromkeys(NUMBERS, int))


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
        By gold type, by predicted type; ``O`` is last. A type that is called ``O`` is ``B-O`` here. A row adds up to
        the gold entities of the type, a column to the predicted ones.
    """
    names = {name: f"B-{OUTSIDE}" if name == OUTSIDE else name for name in types}
    events = events_of(entities)
    found: Counter[tuple[str, str]] = Counter()
    for kind, name, partner in zip(events["kind"], events["type"], events["partner_type"], strict=True):
        if kind == "spurious":
            found[OUTSIDE, names[name]] += 1
        else:
            found[names[name], OUTSIDE if kind == "missed" else names[partner]] += 1
    every = [*names.values(), OUTSIDE]
    return {gold: {predicted: found[gold, predicted] for predicted in every} for gold in every}


def count_relations(confusion: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Count the confusions of types within the hierarchy of types (``PARENTS``).

    Returns:
        ``type_errors`` (pairs of different types, whatever their words); of these ``too_general`` (a parent was
        predicted for its child), ``too_specific`` (a child for its parent) and ``sibling`` (two of one parent); and
        their share in percent, None without errors.
    """
    counts: Counter[str] = Counter()
    for gold, row in confusion.items():
        for predicted, number in row.items():
            if gold == predicted or OUTSIDE in (gold, predicted):
                continue
            counts["type_errors"] += number
            counts["too_general"] += number * (PARENTS.get(gold) == predicted)
            counts["too_specific"] += number * (PARENTS.get(predicted) == gold)
            counts["sibling"] += number * (PARENTS.get(gold, "") == PARENTS.get(predicted))
    relations = {name: counts[name] for name in ("too_general", "too_specific", "sibling")}
    wrong = counts["type_errors"]
    percent = 100 * sum(relations.values()) / wrong if wrong else None
    return {"type_errors": wrong, **relations, "percent": percent}


def find_frequent_errors(
    entities: pd.DataFrame, sentences: Sequence[Sentence], *, limit: int = FREQUENT
) -> list[dict[str, Any]]:
    """Group errors of the same kind, words and types.

    Returns:
        The most frequent first: ``kind``, ``count``, ``gold`` and ``predicted`` (``text`` and ``type``, None if there
        is no such entity), and of the first case ``sentence`` (from 1) and ``context``.
    """
    events = events_of(entities)
    wrong = events[events["kind"] != "correct"]
    cases = pd.Series(
        list(zip(*(wrong[name].fillna("") for name in CASE), strict=True)), index=wrong.index, dtype=object
    )
    first = wrong.assign(times=cases.map(Counter(cases)))[~cases.duplicated()]
    frequent = first.sort_values("times", ascending=False, kind="stable").head(limit)
    return [_describe_error(event, sentences) for event in frequent.itertuples()]


def _describe_error(event: Any, sentences: Sequence[Sentence]) -> dict[str, Any]:
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
        "count": event.times,
        "gold": own if event.side == GOLD else None,
        "predicted": own if event.side == PREDICTED else partner,
        "sentence": event.sentence + 1,
        "context": ("… " if start else "") + context + (" …" if end < len(words) else ""),
    }


def _count_groups(
    entities: pd.DataFrame, groups: pd.Series, names: Iterable[str]
) -> Iterator[tuple[str, int, int, int]]:
    """Yield each group with its correct, predicted and gold entities."""
    found = Counter(zip(entities["side"], entities["kind"] == "correct", groups, strict=True))
    for name in names:
        correct = found[GOLD, True, name]
        predicted = found[PREDICTED, False, name] + found[PREDICTED, True, name]
        yield name, correct, predicted, found[GOLD, False, name] + correct


def _shares(correct: int, predicted: int, gold: int) -> dict[str, Any]:
    shares = compute_shares(correct, predicted, gold)
    return {**asdict(shares), "support": gold, "predicted": predicted, "correct": correct}


def score_types(entities: pd.DataFrame) -> dict[str, Any]:
    """Score every type and all types together.

    Returns:
        ``micro``, ``macro`` and ``weighted`` (by gold entities) averages, the counts behind them, and ``per_type``:
        types found in gold or predicted tags.
    """
    types = sorted(set(entities["type"]))
    per_type = {name: _shares(*counts) for name, *counts in _count_groups(entities, entities["type"], types)}
    totals = {name: sum(row[name] for row in per_type.values()) for name in ("support", "predicted", "correct")}
    return {
        "micro": asdict(compute_shares(totals["correct"], totals["predicted"], totals["support"])),
        "macro": _average(per_type, [1] * len(per_type)),
        "weighted": _average(per_type, [row["support"] for row in per_type.values()]),
        **totals,
        "per_type": per_type,
    }


def _average(per_type: Mapping[str, Any], weights: Sequence[float]) -> dict[str, float]:
    total = sum(weights) or 1
    rows = list(zip(weights, per_type.values(), strict=True))
    return {name: sum((weight * row[name] for weight, row in rows), 0.0) / total for name in MEASURES}


def score_detection(entities: pd.DataFrame) -> dict[str, float]:
    """Score the entities' words alone, whatever their types."""
    is_gold = entities["side"] == GOLD
    gold, predicted = int(is_gold.sum()), int((~is_gold).sum())
    correct = int((is_gold & entities["kind"].isin(SAME_WORDS)).sum())
    return _shares(correct, predicted, gold)


def score_typing(entities: pd.DataFrame, types: Sequence[str]) -> dict[str, Any]:
    """Compute how often the type is right if the words are, in percent, over all gold types and by each."""
    right_words = entities[(entities["side"] == GOLD) & entities["kind"].isin(SAME_WORDS)]
    spans = Counter(right_words["type"])
    right = Counter(right_words["type"][right_words["kind"] == "correct"])
    return {
        **_accuracy(right.total(), spans.total()),
        "per_type": {name: _accuracy(right[name], spans[name]) for name in types},
    }


def _accuracy(right: int, spans: int) -> dict[str, float | None]:
    return {"accuracy": 100 * right / spans if spans else None, "right_spans": spans, "right_types": right}


def count_illegal_tags(sentences: Sequence[Sequence[str]], scheme: AnyScheme) -> dict[str, Any]:
    """Count tags that cannot follow the one before them, by what stands there, as ``O I-person``."""
    found: Counter[str] = Counter()
    for tags in sentences:
        for place in illegal_positions(tags, scheme):
            before = tags[place - 1] if place else AT_START
            found[f"{before} {tags[place] if place < len(tags) else AT_END}"] += 1
    sequences = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return {"count": found.total(), "sequences": dict(sequences)}


def average_records(records: Sequence[Any]) -> Any:
    """Average records of the same form: each number becomes ``{"mean": …, "deviation": …}``.

    A missing number counts as 0. None, a share of nothing, is left out; the mean is None where nothing is left. The
    deviation is that of a sample; None for one seed.
    """
    if any(isinstance(record, dict) for record in records):
        names = dict.fromkeys(name for record in records for name in record or {})
        return {name: average_records([(record or {}).get(name, 0) for record in records]) for name in names}
    known = [float(record) for record in records if record is not None]
    return mean_and_deviation(known) if known else {"mean": None, "deviation": None}
