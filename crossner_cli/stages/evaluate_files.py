"""``crossner evaluate --gold --predictions``: score a file of tags against another, each in its own tag scheme."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby, zip_longest
from pathlib import Path

from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.spans import JOINED_SENTENCE, Located
from crossner_cli.data.labelled import read_labelled
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.statistics import WITHOUT_ENTITIES
from crossner_cli.data.tags import AnyScheme, Scheme, detect_scheme, to_spans, to_tags, types_of
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.fine_grained import Tagging, analyse_taggings
from crossner_cli.evaluation.finished import (
    COMMAND,
    NO_SEED,
    name_evaluation,
    prediction_file_names,
    write_predictions,
)
from crossner_cli.evaluation.scores import Mode, Scored, describe_mode, other_mode, score, summarise
from crossner_cli.options import Evaluate
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.environment import make_record
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import EvaluateResult
from crossner_cli.run.stage import open_stage
from crossner_cli.run.storage import digest_file
from crossner_cli.stages.evaluate_results import finish_evaluation


@dataclass(frozen=True)
class ScoredFiles:
    """The sentences of a gold file and of a file of predictions, in BIO or BIOES, and their scores.

    The schemes are those of the files, gold first; ``notes`` are repairs in reading.
    """

    gold: list[Sentence]
    predicted: list[Sentence]
    schemes: tuple[AnyScheme, AnyScheme]
    scored: Scored
    notes: list[str]


def score_two_files(options: Evaluate, run: RunDirectory) -> Work[Manifest]:
    """Score a file of predictions against a gold file; only ``--fine-grained`` makes a stage of it.

    Returns:
        The stage's manifest; without ``--fine-grained`` a record of the same form that is not stored.

    Raises:
        CrossNERError: A file is missing or malformed, or the two differ in their words.
    """
    gold, predictions = options.gold, options.predictions
    if gold is None or predictions is None or options.model or options.against:
        raise CrossNERError(
            "Scoring files needs both --gold and --predictions, and takes neither --model nor --against.",
            hint="crossner evaluate --gold test.txt --predictions predictions.jsonl",
        )
    for path in (gold, predictions):
        if not path.is_file():
            raise CrossNERError(f"{path} is not a file.", hint="Give a file of words with tags, in columns or JSONL.")
    inputs = {"gold": digest_file(gold), "predictions": digest_file(predictions)}
    if not options.fine_grained:
        began = time.perf_counter()
        _, result = yield from _score(gold, predictions, options)
        return make_record(COMMAND, options.record(), inputs, asdict(result), began)
    name = options.name or name_evaluation([predictions.stem], "test")
    with open_stage(run, replace(options, name=name).stage_request(inputs)) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        files, result = yield from _score(gold, predictions, options)
        tags = files.scored.tags
        tagging = Tagging(str(predictions), NO_SEED, tags, files.scored.scheme)
        gold_scheme = _as_written(files.schemes[0])
        analyses = yield from analyse_taggings(
            files.gold, [tagging], KnownText(), mode=options.mode, gold_scheme=gold_scheme
        )
        write_predictions(stage.draft / prediction_file_names([("", NO_SEED)])[0], files.gold, tags)
        return finish_evaluation(stage, result, files.gold, analyses)


def _score(gold: Path, predictions: Path, options: Evaluate) -> Work[tuple[ScoredFiles, EvaluateResult]]:
    files = score_files(gold, predictions, mode=options.mode)
    result = _describe_files(gold, predictions, files)
    yield from map(Notice, (*files.notes, *result.warnings))
    return files, result


def _as_written(scheme: AnyScheme) -> Scheme:
    """Return the scheme in which tags are kept: BIO for IOB1, which no stage writes."""
    return "bio" if scheme == "iob1" else scheme


def _read_sentences(side: Iterable[Located], scheme: AnyScheme) -> list[Sentence]:
    sentences = [located.sentence for located in side]
    if scheme == "iob1":
        return [Sentence(each.words, tuple(to_tags(to_spans(each.tags or ()), len(each.words)))) for each in sentences]
    return sentences


def score_files(gold: Path, predictions: Path, *, mode: Mode) -> ScoredFiles:
    """Score a file of predictions.

    Each file is read in its own scheme. Predictions without ``E-`` and ``S-`` are read in the scheme of a BIO gold
    file, so that few or broken tags do not look like IOB1.

    Raises:
        CrossNERError: A file cannot be read or holds no sentences, or the two differ in sentences or words.
    """
    repairs = (Repairs(), Repairs())
    sides = [list(read_labelled(path, of_path)) for path, of_path in zip((gold, predictions), repairs, strict=True)]
    for path, side in zip((gold, predictions), sides, strict=True):
        if not side:
            raise CrossNERError(
                f"{path} holds no sentences.", hint="Give a file of words with tags, in columns or JSONL."
            )
    golds, others = ([located.sentence.words for located in side] for side in sides)
    if repairs[0].counts[JOINED_SENTENCE] and golds != others:
        # A gold entity crosses the end of a sentence, which a tagger cannot know.
        sides = [list(_join_lines(side)) for side in sides]
    _check_same_words(gold, predictions, *sides)
    gold_scheme, scheme = (detect_scheme([located.sentence.tags or () for located in side]) for side in sides)
    if gold_scheme == "bio" and scheme == "iob1":
        scheme = "bio"
    right, given = (_read_sentences(*side) for side in zip(sides, (gold_scheme, scheme), strict=True))
    gold_tags, tags = ([sentence.tags or () for sentence in side] for side in (right, given))
    kept = _as_written(scheme)
    scores, other = (
        score(gold_tags, tags, mode=each, scheme=kept, gold_scheme=_as_written(gold_scheme))
        for each in (mode, other_mode(mode))
    )
    notes = []
    for path, found in zip((gold, predictions), repairs, strict=True):
        notes += found.warnings
        notes += [f"{path}: {kind}: {count} (first: {found.examples[kind][0]})" for kind, count in found.counts.items()]
    return ScoredFiles(right, given, (gold_scheme, scheme), Scored(scores, other, {}, kept, tags), notes)


def _join_lines(side: Iterable[Located]) -> Iterator[Located]:
    """Join the sentences of each line; entities do not cross their borders."""
    for _, pieces in groupby(side, key=lambda located: located.lines[0]):
        words: list[str] = []
        tags: list[str] = []
        lines: list[int] = []
        for located in pieces:
            its = list(located.sentence.tags or ())
            if tags and its[0].startswith("I-"):
                its[0] = f"B-{its[0][2:]}"
            words, tags, lines = [*words, *located.sentence.words], [*tags, *its], [*lines, *located.lines]
        yield Located(Sentence(tuple(words), tuple(tags)), lines)


def _check_same_words(gold: Path, predictions: Path, golds: list[Located], others: list[Located]) -> None:
    """Refuse files of different words; name the first difference."""
    nothing = Located(Sentence(()), ())
    for number, pair in enumerate(zip_longest(golds, others, fillvalue=nothing), start=1):
        words = [located.sentence.words for located in pair]
        if words[0] == words[1]:
            continue
        place = next(place for place, (one, other) in enumerate(zip_longest(*words)) if one != other)
        found = [
            f"{path}:{located.lines[place]} has {located.sentence.words[place]!r}"
            if place < len(located.lines)
            else f"{path} has no more words in it"
            for path, located in zip((gold, predictions), pair, strict=True)
        ]
        raise CrossNERError(
            f"The files differ in sentence {number}, word {place + 1}: {found[0]}, {found[1]}.",
            hint="The two files must hold the same words in the same sentences and order; nothing may be cut.",
        )


def _describe_files(gold: Path, predictions: Path, files: ScoredFiles) -> EvaluateResult:
    gold_types, predicted_types = (
        set(types_of([sentence.tags or () for sentence in side])) for side in (files.gold, files.predicted)
    )
    scores = files.scored.scores
    warnings = [] if gold_types else [f"{gold} has no entities: every tag is O, so {WITHOUT_ENTITIES['test']}."]
    if gold_types and files.gold == files.predicted:
        warnings.append(
            f"Every tag of {predictions} equals that of {gold}. If it has a column of gold tags beside its predictions,"
            " the one with most entities was read: cut -f1,3 FILE keeps the first column and the third."
        )
    folded = {name.casefold(): name for name in sorted(gold_types)}
    warnings += [
        f"The type {name!r} of {predictions} and {folded[name.casefold()]!r} of {gold} differ by case only: two types."
        for name in sorted(predicted_types - gold_types)
        if name.casefold() in folded
    ]
    return EvaluateResult(
        domain=str(gold),
        split=None,
        **describe_mode(scores.mode),
        sentences=scores.sentences,
        words=sum(len(sentence.words) for sentence in files.gold),
        warnings=warnings,
        models={str(predictions): summarise({NO_SEED: files.scored}, extra_types=sorted(predicted_types - gold_types))},
        gold_scheme=files.schemes[0],
        predictions_scheme=files.schemes[1],
    )
