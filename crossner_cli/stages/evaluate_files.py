"""``crossner evaluate --gold --predictions``: score two files; and the files that every evaluation writes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import AnyScheme, to_spans, to_tags, types_of
from crossner_cli.data.warnings import WITHOUT_ENTITIES
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.error_analysis import read_parents
from crossner_cli.evaluation.fine_grained import FineGrainedAnalysis, Tagging, analyse_taggings
from crossner_cli.evaluation.finished import COMMAND, NO_SEED, prediction_file_names, write_predictions
from crossner_cli.evaluation.model_scores import Scored, summarise, write_per_type
from crossner_cli.evaluation.scored_files import ScoredFiles, score_files
from crossner_cli.evaluation.scores import describe_mode
from crossner_cli.options import Evaluate
from crossner_cli.reports.fine_grained_files import add_fine_grained, write_reports
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.environment import installed_versions
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import EvaluateResult
from crossner_cli.run.stage import Stage, open_stage
from crossner_cli.run.storage import digest_file, write_json


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
            "Scoring files takes --gold and --predictions, both, and neither --model nor --against.",
            hint="crossner evaluate --gold test.txt --predictions predictions.jsonl",
        )
    for path in (gold, predictions):
        if not path.is_file():
            raise CrossNERError(f"{path} is no file.", hint="Give a file of words with tags, in columns or JSONL.")
    inputs = {"gold": digest_file(gold), "predictions": digest_file(predictions)}
    if options.fine_grained:
        return (yield from _analyse_files(gold, predictions, options, run, inputs))
    began = time.perf_counter()
    refuse_parents(options)
    files = score_files(gold, predictions, mode=options.mode)
    result = _files_result(gold, predictions, files)
    yield from map(Notice, _reading_notes(gold, predictions, files))
    yield from map(Notice, result.warnings)
    return {
        "stage": COMMAND,
        "name": options.name or COMMAND,
        "options": options.record(),
        "inputs": inputs,
        "result": asdict(result),
        "versions": installed_versions(),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _analyse_files(
    gold: Path, predictions: Path, options: Evaluate, run: RunDirectory, inputs: dict[str, str]
) -> Work[Manifest]:
    """Score two files and analyse the errors, as a stage."""
    with open_stage(run, options.stage_request(COMMAND, inputs)) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        files = score_files(gold, predictions, mode=options.mode)
        result = _files_result(gold, predictions, files)
        yield from map(Notice, _reading_notes(gold, predictions, files))
        yield from map(Notice, result.warnings)
        sentences, predicted = files.sentences
        parents = read_parents(options.type_parents, _types(sentences) | _types(predicted))
        tags = [each.tags or () for each in predicted]
        analysis = yield from analyse_taggings(
            sentences,
            [Tagging(str(predictions), NO_SEED, tags, files.schemes[1])],
            KnownText(),
            mode=options.mode,
            gold_scheme=files.schemes[0],
            parents=parents,
        )
        gold_tags, predicted_tags = map(_without_iob1, files.sentences, files.schemes)
        stored = [Sentence(each.words, tuple(tags)) for each, tags in zip(sentences, gold_tags, strict=True)]
        write_predictions(stage.draft / prediction_file_names([("", NO_SEED)])[0], stored, predicted_tags)
        manifest = finish_evaluation(stage, result, analysis)
        yield page_notice(stage)
        return manifest


def _without_iob1(sentences: Sequence[Sentence], scheme: AnyScheme) -> list[Sequence[str]]:
    """The tags of sentences; IOB1, which no stage writes, as BIO."""
    tags = [sentence.tags or () for sentence in sentences]
    return [to_tags(to_spans(each), len(each)) for each in tags] if scheme == "iob1" else list(tags)


def _reading_notes(gold: Path, predictions: Path, files: ScoredFiles) -> list[str]:
    """Repairs made while reading the two files."""
    return [
        f"{path}: {kind}: {count} (first: {repairs.examples[kind][0]})"
        for path, repairs in zip((gold, predictions), files.reading, strict=True)
        for kind, count in repairs.counts.items()
    ]


def _files_result(gold: Path, predictions: Path, files: ScoredFiles) -> EvaluateResult:
    gold_types, predicted_types = map(_types, files.sentences)
    scheme = "bio" if files.schemes[1] == "iob1" else files.schemes[1]
    scored = Scored(files.scores, files.other, {}, scheme=scheme)
    model = summarise({NO_SEED: scored}, extra_types=sorted(predicted_types - gold_types))
    if gold_types:
        folded = {name.casefold(): name for name in sorted(gold_types)}
        warnings = [
            f"The type {name!r} of {predictions} and {folded[name.casefold()]!r} of {gold} differ by case only: two"
            " types."
            for name in model.extra_types
            if name.casefold() in folded
        ]
    else:
        warnings = [f"{gold} has no entity: every tag is O, so {WITHOUT_ENTITIES['test']}."]
    return EvaluateResult(
        domain=str(gold),
        split=None,
        **describe_mode(files.scores.mode),
        sentences=files.scores.sentences,
        words=files.words,
        warnings=warnings,
        models={str(predictions): model},
        gold_scheme=files.schemes[0],
        predictions_scheme=files.schemes[1],
    )


def _types(sentences: Sequence[Sentence]) -> set[str]:
    return set(types_of([sentence.tags or () for sentence in sentences]))


def finish_evaluation(stage: Stage, result: EvaluateResult, analysis: FineGrainedAnalysis | None) -> Manifest:
    """Write the scores and, with ``--fine-grained``, the analysis; finish the stage."""
    complete = result
    if analysis is not None:
        write_reports(stage.draft, result, analysis)
        complete = add_fine_grained(result, analysis, has_seeds=True)
        result = add_fine_grained(result, analysis)
    write_json(stage.draft / "scores.json", {**asdict(complete), "versions": installed_versions()})
    write_per_type(stage.draft / "per_type.csv", result.models)
    return stage.finish(asdict(result))


def page_notice(stage: Stage) -> Notice:
    """Name the page with all errors."""
    return Notice(f"Every sentence with its errors, to be opened in a browser: {stage.folder / 'errors.html'}")


def refuse_parents(options: Evaluate) -> None:
    """Refuse ``--type-parents`` without ``--fine-grained``.

    Raises:
        CrossNERError: It was given.
    """
    if options.type_parents is not None:
        raise CrossNERError("--type-parents has no effect without --fine-grained.", hint="Add --fine-grained.")
