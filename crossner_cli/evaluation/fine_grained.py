"""Everything ``evaluate --fine-grained`` counts: scores, kinds of error, confusions and buckets of taggers.

Numbers are counted for each seed, then averaged. What is shown as text (frequent errors, highlighted sentences) is of
one tagger a model: the seed that is best on dev.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, AnyScheme, types_of
from crossner_cli.evaluation.error_analysis import ErrorAnalysis, analyse_errors, confusion_name
from crossner_cli.evaluation.frequent_errors import frequent_errors
from crossner_cli.evaluation.scores import Mode, mean_and_deviation
from crossner_cli.evaluation.span_scores import score_detection, score_spans, score_typing
from crossner_cli.evaluation.spans import NO_TYPE, PREFIX_LETTERS, Layout, Tags, has_ends, read_tags
from crossner_cli.evaluation.surroundings import REASONS, Surroundings, Text, prepare_sorting
from crossner_cli.evaluation.type_parents import hierarchy_confusions
from crossner_cli.run.progress import Work

AT_START, AT_END = "(start)", "(end)"
SHARES = ("accuracy", "percent")  # of a count that may be 0


@dataclass(frozen=True)
class Tagging:
    """What one tagger says of the sentences.

    Args:
        label: The model, as the user named it.
        seed: Its seed, ``-`` where there is none.
        tags: Its tags of each sentence.
        scheme: Their scheme; BIOES wherever any tag is an ``E-`` or ``S-``.
        is_shown: Whether it is the one whose errors are shown as text; of several, the first.
    """

    label: str
    seed: str
    tags: Sequence[Sequence[str]]
    scheme: AnyScheme = "bio"
    is_shown: bool = True


@dataclass(frozen=True)
class ModelErrors:
    """One model taken apart.

    Args:
        record: ``seeds`` (the numbers of each), ``mean`` (the same, each as ``{"mean": …, "deviation": …}``),
            ``shown_seed``, and of that seed ``frequent_errors``.
        analysis: Entities of the shown seed, paired and sorted.
    """

    record: dict[str, Any]
    analysis: ErrorAnalysis


@dataclass(frozen=True)
class FineGrained:
    """Models taken apart on the same sentences.

    Args:
        sentences: The sentences.
        layout: Where they are.
        types: Entity types of them, of the predictions and of the surroundings.
        about: What holds for all models: ``type_parents``, ``left_out`` (bucketings that are not there, and why) and
            ``illegal_tags_in_gold``.
        models: By label.
    """

    sentences: Sequence[Sentence]
    layout: Layout
    types: tuple[str, ...]
    about: dict[str, Any]
    models: dict[str, ModelErrors]


def analyse(
    sentences: Sequence[Sentence],
    taggings: Sequence[Tagging],
    surroundings: Surroundings,
    *,
    mode: Mode = "conll",
    gold_scheme: AnyScheme = "bio",
    parents: Mapping[str, str],
) -> Work[FineGrained]:
    """Take taggers apart.

    Args:
        sentences: Words with gold tags.
        taggings: Tags of the same words; a model has one or more of them, with different seeds.
        surroundings: Where mentions may have been seen.
        mode: How tags that cannot follow the one before them are read.
        gold_scheme: Scheme of the gold tags; BIOES wherever any is an ``E-`` or ``S-``.
        parents: Parent by child, where an entity type specialises another.
    """
    gold_tags = [sentence.tags or () for sentence in sentences]
    known_tags = [[sentence.tags or () for sentence in side] for side in surroundings.labelled().values()]
    types = types_of(gold_tags, *(each.tags for each in taggings), *known_tags)
    text = Text.of(sentences, surroundings)
    gold, illegal_in_gold = _read(gold_tags, gold_scheme, mode, types, text.layout)
    analyses, scores, illegals = [], [], []
    for each in taggings:
        predicted, illegal = _read(each.tags, each.scheme, mode, types, text.layout)
        analyses.append(analyse_errors(gold, predicted))
        scores.append(score_spans(analyses[-1], types))
        illegals.append(illegal)
    types_of_label = _types_shown(taggings, scores)
    records = [
        {**_count(analysis, score, types_of_label[each.label], types, parents), "illegal_tags": illegal}
        for each, analysis, score, illegal in zip(taggings, analyses, scores, illegals, strict=True)
    ]
    sides = [gold, *(analysis.predicted for analysis in analyses)]
    sorting, (gold_forms, *all_forms) = yield from prepare_sorting(text, types, sides, surroundings)
    for record, analysis, forms in zip(records, analyses, all_forms, strict=True):
        record["buckets"] = sorting.buckets(analysis, gold_forms, forms)
    models = {}
    for label in dict.fromkeys(each.label for each in taggings):
        mine = [number for number, each in enumerate(taggings) if each.label == label]
        shown = next((number for number in mine if taggings[number].is_shown), mine[0])
        errors = frequent_errors(
            analyses[shown], (gold_forms, all_forms[shown]), sentences, text.layout, types
        )  # fmt: skip
        record = {
            "shown_seed": taggings[shown].seed,
            "mean": over_seeds([records[number] for number in mine]),
            "frequent_errors": errors,
            "seeds": {taggings[number].seed: records[number] for number in mine},
        }
        models[label] = ModelErrors(record, analyses[shown])
    made = {name for record in records for name in record["buckets"]}
    about = {
        "type_parents": dict(parents),
        "left_out": {name: reason for name, reason in REASONS.items() if name not in made},
        "illegal_tags_in_gold": illegal_in_gold,
    }
    return FineGrained(sentences, text.layout, types, about, models)


def _read(
    tags: Sequence[Sequence[str]], scheme: AnyScheme, mode: Mode, types: Sequence[str], layout: Layout
) -> tuple[Any, dict[str, Any]]:
    """The entities of tags, and the tags that had to be repaired for that."""
    read = read_tags(tags, types, layout)
    scheme = "bioes" if has_ends(read) else scheme
    return read.spans(mode, scheme), _illegal_sequences(read, scheme, types)


def _types_shown(taggings: Sequence[Tagging], scores: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Types that gold tags or those of any seed show, by label; others of the surroundings are of no interest."""
    shown: dict[str, set[str]] = {}
    for each, score in zip(taggings, scores, strict=True):
        shown.setdefault(each.label, set()).update(score["per_type"])
    return shown


def _count(
    analysis: ErrorAnalysis, scores: Mapping[str, Any], shown: set[str], types: Sequence[str],
    parents: Mapping[str, str],
) -> dict[str, Any]:  # fmt: skip
    """All numbers of one tagger but for its buckets."""
    errors, confusion = analysis.counts(types), analysis.confusion(types)
    confused = {*map(confusion_name, shown), OUTSIDE}
    confusion = {
        gold: {predicted: number for predicted, number in row.items() if predicted in confused}
        for gold, row in confusion.items() if gold in confused
    }  # fmt: skip
    return {
        "scores": scores,
        "span_detection": score_detection(analysis),
        "typing": score_typing(analysis, types),
        "errors": {
            side: counts if side == "all" else {name: row for name, row in counts.items() if name in shown}
            for side, counts in errors.items()
        },
        "confusion": confusion,
        "hierarchy": hierarchy_confusions(confusion, parents),
    }


def _illegal_sequences(tags: Tags, scheme: AnyScheme, types: Sequence[str]) -> dict[str, Any]:
    """Tags that cannot follow the one before them: how many, and which, as ``O I-person``."""
    places, layout = tags.illegal(scheme), tags.layout
    sentences = layout.sentence_of(places)
    is_first, is_end = places == layout.first[sentences], places == layout.first[sentences + 1] - 1

    def name(place: int) -> str:
        kind = int(tags.types[place])
        return OUTSIDE if kind == NO_TYPE else f"{PREFIX_LETTERS[tags.prefixes[place]]}-{types[kind]}"

    found = Counter(
        f"{AT_START if first else name(place - 1)} {AT_END if end else name(place)}"
        for place, first, end in zip(places.tolist(), is_first.tolist(), is_end.tolist(), strict=True)
    )
    return {"count": len(places), "sequences": dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))}


def over_seeds(records: Sequence[Any]) -> Any:
    """Records of the same form as one whose numbers are ``{"mean": …, "deviation": …}``; what a seed lacks is 0.

    The deviation is that of a sample; None for one seed. A share of nothing (``SHARES``) is no number: its mean is over
    the seeds that have one, None where none has.
    """
    first = next(record for record in records if record is not None)
    if isinstance(first, dict):
        names = dict.fromkeys(name for record in records for name in record or {})
        found = {name: [(record or {}).get(name) for record in records] for name in names}
        return {
            name: _share(values) if _is_share(name, values) else over_seeds(values) for name, values in found.items()
        }
    if isinstance(first, str):
        return first
    values = [0.0 if record is None else float(record) for record in records]
    return mean_and_deviation(values)


def _is_share(name: str, values: Sequence[Any]) -> bool:
    """Whether values are shares, and not records of an entity type of that name, as MUC's ``percent``."""
    return name in SHARES and not any(isinstance(value, dict) for value in values)


def _share(values: Sequence[float | None]) -> dict[str, float | None]:
    there = [value for value in values if value is not None]
    return mean_and_deviation(there) if there else {"mean": None, "deviation": None}
