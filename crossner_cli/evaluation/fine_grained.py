"""Fine-grained analysis of taggers on the same sentences: scores, kinds of error, confusions and buckets.

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
from crossner_cli.data.tags import AnyScheme, illegal_positions, scheme_shown
from crossner_cli.evaluation import error_analysis as errors
from crossner_cli.evaluation.buckets import REASONS, Buckets, KnownText, find_in_raw_text
from crossner_cli.evaluation.scores import Mode, compute_shares, mean_and_deviation, read_entities
from crossner_cli.run.progress import Work

AT_START, AT_END = "(start)", "(end)"
MEASURES = ("precision", "recall", "f1")
SHARES = ("accuracy", "percent")  # of a count that may be 0


@dataclass(frozen=True)
class Tagging:
    """The output of one tagger.

    Args:
        label: The model as the user named it.
        seed: Its seed, ``-`` if it has none.
        tags: Tags of each sentence.
        scheme: Scheme of the tags; BIOES if any tag is an ``E-`` or ``S-``.
        is_shown: True for the seed whose errors are shown as examples; the first of several counts.
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
        record: ``seeds`` (the numbers of each), ``mean`` (the same, each as ``{"mean": …, "deviation": …}``),
            ``shown_seed``, and ``frequent_errors`` of that seed.
        entities: Entities of the shown seed, as ``tabulate_entities`` makes them.
    """

    record: dict[str, Any]
    entities: pd.DataFrame


@dataclass(frozen=True)
class FineGrainedAnalysis:
    """The analysis of several models on the same sentences.

    Args:
        sentences: The sentences.
        about: Facts about all models: ``type_parents``, ``left_out`` (missing bucketings and the reason) and
            ``illegal_tags_in_gold``.
        models: By label.
    """

    sentences: Sequence[Sentence]
    about: dict[str, Any]
    models: dict[str, ModelAnalysis]


def analyse_taggings(
    sentences: Sequence[Sentence],
    taggings: Sequence[Tagging],
    known: KnownText,
    *,
    mode: Mode = "conll",
    gold_scheme: AnyScheme = "bio",
    parents: Mapping[str, str],
) -> Work[FineGrainedAnalysis]:
    """Count and sort the errors of taggers.

    Args:
        sentences: Words with gold tags.
        taggings: Tags of the same words; a model has one or more of them, with different seeds.
        known: Text in which mentions may have been seen.
        mode: Reading of tags that cannot follow the one before them.
        gold_scheme: Scheme of the gold tags; BIOES if any tag is an ``E-`` or ``S-``.
        parents: Parent by child, for entity types that specialise another.
    """
    gold_tags = [sentence.tags or () for sentence in sentences]
    gold_scheme = _actual_scheme(gold_tags, gold_scheme)
    gold = read_entities(gold_tags, mode=mode, scheme=gold_scheme)
    tables = []
    for each in taggings:
        predicted = read_entities(each.tags, mode=mode, scheme=_actual_scheme(each.tags, each.scheme))
        tables.append(errors.tabulate_entities(sentences, gold, predicted))
    seen = None
    if known.raw_text is not None:
        seen = yield from find_in_raw_text(known.raw_text, {words for table in tables for words in table["words"]})
    buckets = Buckets(sentences, gold, known, seen)
    models: dict[str, ModelAnalysis] = {}
    for label in dict.fromkeys(each.label for each in taggings):
        seeds = {each.seed: (each, table) for each, table in zip(taggings, tables, strict=True) if each.label == label}
        types = sorted({name for _, table in seeds.values() for name in table["type"]})
        records = {seed: _count(table, each, types, buckets, parents) for seed, (each, table) in seeds.items()}
        shown = next((seed for seed, (each, _) in seeds.items() if each.is_shown), next(iter(seeds)))
        record = {
            "shown_seed": shown,
            "mean": average_records(list(records.values())),
            "frequent_errors": errors.find_frequent_errors(seeds[shown][1], sentences),
            "seeds": records,
        }
        models[label] = ModelAnalysis(record, seeds[shown][1])
    made = {name for model in models.values() for name in model.record["mean"]["buckets"]}
    about = {
        "type_parents": dict(parents),
        "left_out": {name: reason for name, reason in REASONS.items() if name not in made},
        "illegal_tags_in_gold": count_illegal_tags(gold_tags, gold_scheme),
    }
    return FineGrainedAnalysis(sentences, about, models)


def _actual_scheme(sentences: Sequence[Sequence[str]], scheme: AnyScheme) -> AnyScheme:
    return "bioes" if scheme_shown(sentences) == "bioes" else scheme


def _count(
    entities: pd.DataFrame, tagging: Tagging, types: Sequence[str], buckets: Buckets, parents: Mapping[str, str]
) -> dict[str, Any]:
    """Count everything about one tagger; ``types`` are those of gold or of any seed."""
    confusion = errors.count_confusions(entities, types)
    sorted_entities = buckets.sort(entities)
    return {
        "scores": score_types(entities),
        "span_detection": score_detection(entities),
        "typing": score_typing(entities),
        "errors": errors.count_kinds(entities, types),
        "confusion": confusion,
        "hierarchy": errors.count_relations(confusion, parents),
        "illegal_tags": count_illegal_tags(tagging.tags, _actual_scheme(tagging.tags, tagging.scheme)),
        "buckets": {name: _score_buckets(entities, column) for name, column in sorted_entities.items()},
    }


def _count_groups(
    entities: pd.DataFrame, groups: pd.Series, names: Iterable[str]
) -> Iterator[tuple[str, int, int, int]]:
    """Yield each group with its correct, predicted and gold entities."""
    found = Counter(zip(entities["side"], entities["kind"] == "correct", groups, strict=True))
    for name in names:
        correct = found[errors.GOLD, True, name]
        yield (
            name,
            correct,
            found[errors.PREDICTED, False, name] + found[errors.PREDICTED, True, name],
            found[errors.GOLD, False, name] + correct,
        )


def score_types(entities: pd.DataFrame) -> dict[str, Any]:
    """Score every type and all types together.

    Returns:
        ``micro``, ``macro`` and ``weighted`` (by gold entities) averages, the counts behind them, and ``per_type``:
        types found in gold or predicted tags.
    """
    per_type = {}
    types = sorted(set(entities["type"]))
    for name, correct, predicted, gold in _count_groups(entities, entities["type"], types):
        counts = {"support": gold, "predicted": predicted, "correct": correct}
        per_type[name] = {**asdict(compute_shares(correct, predicted, gold)), **counts}
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
    is_gold = entities["side"] == errors.GOLD
    gold, predicted = int(is_gold.sum()), int((~is_gold).sum())
    correct = int((is_gold & entities["kind"].isin(errors.SAME_WORDS)).sum())
    shares = compute_shares(correct, predicted, gold)
    return {**asdict(shares), "support": gold, "predicted": predicted, "correct": correct}


def score_typing(entities: pd.DataFrame) -> dict[str, Any]:
    """Compute how often the type is right if the words are, in percent, over all gold types and by each."""
    gold = errors.side_of(entities, errors.GOLD)
    right_words = gold[gold["kind"].isin(errors.SAME_WORDS)]
    spans = Counter(right_words["type"])
    right = Counter(right_words["type"][right_words["kind"] == "correct"])
    return {
        **_accuracy(right.total(), spans.total()),
        "per_type": {name: _accuracy(right[name], spans[name]) for name in sorted(spans)},
    }


def _accuracy(right: int, spans: int) -> dict[str, float | None]:
    return {"accuracy": 100 * right / spans if spans else None, "right_spans": spans, "right_types": right}


def _score_buckets(entities: pd.DataFrame, buckets: pd.Series) -> dict[str, Any]:
    """Score each bucket of a bucketing: ``n`` (gold entities), ``predicted``, ``correct``, precision, recall, F1."""
    found = {}
    for name, correct, predicted, gold in _count_groups(entities, buckets, buckets.cat.categories):
        counts = {"n": gold, "predicted": predicted, "correct": correct}
        found[name] = {**counts, **asdict(compute_shares(correct, predicted, gold))}
    return found


def count_illegal_tags(sentences: Sequence[Sequence[str]], scheme: AnyScheme) -> dict[str, Any]:
    """Count tags that cannot follow the one before them, by what stands there, as ``O I-person``."""
    found: Counter[str] = Counter()
    for tags in sentences:
        for place in illegal_positions(tags, scheme):
            before = tags[place - 1] if place else AT_START
            found[f"{before} {tags[place] if place < len(tags) else AT_END}"] += 1
    return {
        "count": found.total(),
        "sequences": dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))),
    }


def average_records(records: Sequence[Any]) -> Any:
    """Average records of the same form: each number becomes ``{"mean": …, "deviation": …}``; a missing one counts as 0.

    The deviation is that of a sample; None for one seed. The mean of a share of nothing (``SHARES``) is over the seeds
    that have one, None if none has.
    """
    first = next(record for record in records if record is not None)
    if isinstance(first, dict):
        names = dict.fromkeys(name for record in records for name in record or {})
        columns = {name: [(record or {}).get(name) for record in records] for name in names}
        return {
            name: _average_share(values) if _is_share(name, values) else average_records(values)
            for name, values in columns.items()
        }
    if isinstance(first, str):
        return first
    return mean_and_deviation([0.0 if record is None else float(record) for record in records])


def _is_share(name: str, values: Sequence[Any]) -> bool:
    """True if values are shares, and not records of an entity type of that name, as MUC's ``percent``."""
    return name in SHARES and not any(isinstance(value, dict) for value in values)


def _average_share(values: Sequence[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    return mean_and_deviation(known) if known else {"mean": None, "deviation": None}
