"""Fine-grained analysis of taggers: every error has one kind, and every part of the entities has scores.

A pair of a gold and a predicted entity is one event. Entities of the same words are a pair: ``correct``, or ``type``.
Of the others, those that overlap are paired one to one, the best pair first: the same type before another, then the
longer overlap, then the earlier place. For the same type the error is ``boundary``, for another type
``boundary_and_type``. A gold entity without a partner is ``missed``, a predicted one ``spurious``.

All numbers are means over seeds.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Scheme, Span
from crossner_cli.evaluation.buckets import BY_TYPE, ORDER, Buckets, KnownText, find_in_raw_text
from crossner_cli.evaluation.scores import Mode, compute_shares, mean_and_deviation, read_entities
from crossner_cli.run.progress import Work
from crossner_cli.run.results import Record

ERRORS = ("missed", "spurious", "boundary", "type", "boundary_and_type")
COUNTS = ("entities", "predicted", "correct", *ERRORS)
MEASURES = ("precision", "recall", "f1")
ALL, WORDS_ALONE = ("all", "entities"), ("all", "words alone, any type")
FREQUENT = 50
Part = tuple[str, str]  # a property of entities, and one of its buckets


@dataclass(frozen=True)
class Tagging:
    """The output of one tagger.

    Args:
        label: The model as the user named it.
        seed: Its seed, or ``-``.
        is_shown: True for the seed whose sentences are shown.
    """

    label: str
    seed: str
    tags: Sequence[Sequence[str]]
    scheme: Scheme = "bio"
    is_shown: bool = True


@dataclass(frozen=True)
class Event:
    """A gold and a predicted entity that share a word, or one of them alone; its kind is ``correct`` or an error."""

    sentence: int
    kind: str
    gold: Span | None
    predicted: Span | None


@dataclass(frozen=True)
class Analysis:
    """The analysis of one model.

    Args:
        record: ``parts`` (scores and counts by bucket), ``confused_types``, ``frequent_errors`` and ``shown_seed``.
        events: Those of the shown seed.
    """

    record: Record
    events: Sequence[Event]


def analyse_taggings(
    sentences: Sequence[Sentence],
    taggings: Sequence[Tagging],
    known: KnownText,
    *,
    mode: Mode = "conll",
    gold_scheme: Scheme = "bio",
) -> Work[dict[str, Analysis]]:
    """Count and sort the errors of taggers.

    Args:
        taggings: Tags of the same words; a model has one or more of them, with different seeds.
        mode: Reading of tags that cannot follow the one before them.

    Returns:
        By label.
    """
    gold = read_entities([sentence.tags or () for sentence in sentences], mode=mode, scheme=gold_scheme)
    found = [find_events(gold, read_entities(each.tags, mode=mode, scheme=each.scheme)) for each in taggings]
    seen = None
    if known.raw_text is not None:
        mentions = {
            sentences[event.sentence].words[span.start : span.end]
            for events in found
            for event in events
            for span in (event.gold, event.predicted)
            if span is not None
        }
        seen = yield from find_in_raw_text(known.raw_text, mentions)
    buckets = Buckets(sentences, gold, known, seen)
    models: dict[str, Analysis] = {}
    for label in dict.fromkeys(each.label for each in taggings):
        seeds = [pair for pair in zip(taggings, found, strict=True) if pair[0].label == label]
        shown, events = next((pair for pair in seeds if pair[0].is_shown), seeds[0])
        record = {
            "shown_seed": shown.seed,
            "parts": average_parts([count_parts(each, buckets) for _, each in seeds]),
            **count_errors([each for _, each in seeds], sentences),
        }
        models[label] = Analysis(record, events)
    return models


def find_events(gold: Sequence[Sequence[Span]], predicted: Sequence[Sequence[Span]]) -> list[Event]:
    """Pair the gold and predicted entities of each sentence."""
    events = []
    for number, (ours, theirs) in enumerate(zip(gold, predicted, strict=True)):
        pairs = pair_entities(ours, theirs)
        events += [Event(number, _find_kind(span, pairs.get(span)), span, pairs.get(span)) for span in ours]
        partners = set(pairs.values())
        events += [Event(number, "spurious", None, span) for span in theirs if span not in partners]
    return events


def pair_entities(gold: Sequence[Span], predicted: Sequence[Span]) -> dict[Span, Span]:
    """Pair the entities of a sentence that share a word, one to one, the best pair first: gold to predicted."""
    candidates = []
    for one in gold:
        for other in predicted:
            overlap = min(one.end, other.end) - max(one.start, other.start)
            if overlap > 0:
                candidates.append((one[:2] != other[:2], one.type != other.type, -overlap, one, other))
    pairs: dict[Span, Span] = {}
    taken: set[Span] = set()
    for *_, one, other in sorted(candidates):
        if one not in pairs and other not in taken:
            pairs[one] = other
            taken.add(other)
    return pairs


def _find_kind(gold: Span, predicted: Span | None) -> str:
    if predicted is None:
        return "missed"
    if gold[:2] == predicted[:2]:
        return "correct" if gold.type == predicted.type else "type"
    return "boundary" if gold.type == predicted.type else "boundary_and_type"


def count_parts(events: Iterable[Event], buckets: Buckets) -> dict[Part, Counter[str]]:
    """Count ``COUNTS`` in each part: gold entities by kind, predicted ones, and those that are spurious."""
    parts: dict[Part, Counter[str]] = defaultdict(Counter)
    for event in events:
        for span, side in ((event.gold, "entities"), (event.predicted, "predicted")):
            if span is not None:
                has_kind = span is event.gold or event.gold is None
                for part in (ALL, *buckets.find(event.sentence, span).items()):
                    parts[part].update((side, event.kind) if has_kind else (side,))
    total = parts[ALL]
    parts[WORDS_ALONE] = total + Counter(correct=total["type"]) - Counter(type=total["type"])
    return parts


def average_parts(seeds: Sequence[Mapping[Part, Counter[str]]]) -> list[Record]:
    """Average the counts of each part, and the scores that follow from them, over seeds.

    Returns:
        A row per part: ``by``, ``part``, ``COUNTS``, ``precision``, ``recall``, ``f1`` and ``f1_deviation``, which is
        None for one seed. A part without entities is left out.
    """
    rows = []
    for by, part in dict.fromkeys(part for seed in seeds for part in seed):
        counts = [seed.get((by, part), Counter[str]()) for seed in seeds]
        shares = [compute_shares(each["correct"], each["predicted"], each["entities"]) for each in counts]
        row: Record = {"by": by, "part": part}
        row |= {name: statistics.fmean(each[name] for each in counts) for name in COUNTS}
        row |= {name: statistics.fmean(getattr(each, name) for each in shares) for name in MEASURES}
        rows.append({**row, "f1_deviation": mean_and_deviation([each.f1 for each in shares])["deviation"]})
    groups = ["all", *dict.fromkeys(row["by"] for row in rows)]

    def place(row: Record) -> tuple[int, float, str]:
        if row["by"] in (BY_TYPE, "all"):
            return groups.index(row["by"]), -row["entities"], row["part"]
        return groups.index(row["by"]), ORDER.index(row["part"]), ""

    return sorted(rows, key=place)


def count_errors(seeds: Sequence[Sequence[Event]], sentences: Sequence[Sentence]) -> Record:
    """Count confusions of types, and errors of the same words and types, the most frequent first.

    Returns:
        ``confused_types`` (``gold``, ``predicted`` and ``times``, the mean over seeds) and ``frequent_errors`` (the
        same, and ``kind``), at most ``FREQUENT``.
    """
    types: Counter[tuple[str, str]] = Counter()
    errors: Counter[tuple[str, str, str]] = Counter()
    for event in (event for events in seeds for event in events if event.kind != "correct"):
        gold, predicted = (
            "" if span is None else f"{' '.join(sentences[event.sentence].words[span.start : span.end])} [{span.type}]"
            for span in (event.gold, event.predicted)
        )
        errors[event.kind, gold, predicted] += 1
        if event.gold and event.predicted and event.gold.type != event.predicted.type:
            types[event.gold.type, event.predicted.type] += 1
    return {
        "confused_types": [
            {"gold": gold, "predicted": predicted, "times": times / len(seeds)}
            for (gold, predicted), times in types.most_common()
        ],
        "frequent_errors": [
            {"kind": kind, "gold": gold, "predicted": predicted, "times": times / len(seeds)}
            for (kind, gold, predicted), times in errors.most_common(FREQUENT)
        ],
    }
