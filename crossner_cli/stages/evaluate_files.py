"""Scores of a file of predictions against a gold file, and what every evaluation leaves in its folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import AnyScheme, Scheme, to_spans, to_tags, types_of
from crossner_cli.data.warnings import WITHOUT_ENTITIES
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.fine_grained import FineGrained, Tagging, analyse
from crossner_cli.evaluation.finished import ONE_SEED, prediction_file_names, write_predictions
from crossner_cli.evaluation.model_scores import Scored, summarise, write_per_type
from crossner_cli.evaluation.scored_files import ScoredFiles, score_files
from crossner_cli.evaluation.scores import describe_mode
from crossner_cli.evaluation.surroundings import Surroundings
from crossner_cli.evaluation.type_parents import read_parents
from crossner_cli.options import Evaluate
from crossner_cli.reports.fine_grained_files import with_fine_grained, write_reports
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.environment import installed_versions
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.stage import Stage, open_stage
from crossner_cli.run.storage import digest_file, write_json

COMMAND = "evaluate"


def score_two_files(options: Evaluate, run: RunDirectory) -> Work[Manifest]:
    """Score a file of predictions against a gold file; only what ``--fine-grained`` writes makes a stage of it.

    Returns:
        The stage's manifest; without ``--fine-grained`` a record of the same form that is stored nowhere.

    Raises:
        CrossNERError: A file is missing or malformed, or the two differ in their words.
    """
    if options.gold is None or options.predictions is None or options.model or options.against:
        raise CrossNERError(
            "Scoring files takes --gold and --predictions, both, and neither --model nor --against.",
            hint="crossner evaluate --gold test.txt --predictions predictions.jsonl",
        )
    began = time.perf_counter()
    if options.fine_grained:
        return (yield from _take_files_apart(options, run))
    refuse_parents(options)
    found = yield from _compare_files(options)
    return {
        "stage": COMMAND,
        "name": options.name or COMMAND,
        "options": options.record(),
        "inputs": _file_inputs(options),
        "result": _files_result(options, found),
        "versions": installed_versions(),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _take_files_apart(options: Evaluate, run: RunDirectory) -> Work[Manifest]:
    for path in (options.gold, options.predictions):
        if path is not None and not path.is_file():
            raise CrossNERError(f"{path} is no file.", hint="Give a file of words with tags, in columns or JSONL.")
    with open_stage(run, options.stage_request(COMMAND, _file_inputs(options))) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        found = yield from _compare_files(options)
        types = set().union(*map(_types, found.sentences))
        gold, predicted = found.sentences
        taken_apart = yield from analyse(
            gold,
            [Tagging(str(options.predictions), ONE_SEED, [each.tags or () for each in predicted], found.schemes[1])],
            Surroundings(),
            mode=options.mode, gold_scheme=found.schemes[0], parents=read_parents(options.type_parents, types),
        )  # fmt: skip
        gold_tags, predicted_tags = map(_as_written, found.sentences, found.schemes)
        scored = [Sentence(one.words, tuple(tags)) for one, tags in zip(gold, gold_tags, strict=True)]
        write_predictions(stage.draft / prediction_file_names([("", ONE_SEED)])[0], scored, predicted_tags)
        manifest = store(stage, _files_result(options, found), taken_apart)
        yield where(stage)
        return manifest


def _as_written(sentences: Sequence[Sentence], scheme: AnyScheme) -> list[list[str]]:
    """Tags as other stages know them: those of their file, IOB1, which no stage writes, as BIO."""
    tags = [list(sentence.tags or ()) for sentence in sentences]
    return tags if _scheme_written(scheme) == scheme else [to_tags(to_spans(each), len(each)) for each in tags]


def _scheme_written(scheme: AnyScheme) -> Scheme:
    return "bio" if scheme == "iob1" else scheme


def _compare_files(options: Evaluate) -> Work[ScoredFiles]:
    """Score the two files and tell what reading them repaired."""
    assert options.gold is not None and options.predictions is not None
    found = score_files(options.gold, options.predictions, mode=options.mode)
    for path, repairs in zip((options.gold, options.predictions), found.reading, strict=True):
        for kind, count in repairs.counts.items():
            yield Notice(f"{path}: {kind}: {count} (first: {repairs.examples[kind][0]})")
    for warning in _warnings(options, found):
        yield Notice(warning)
    return found


def _warnings(options: Evaluate, found: ScoredFiles) -> list[str]:
    """Gold without an entity, and types of the two files that are likely meant to be one: they share none."""
    gold, predicted = map(_types, found.sentences)
    if not gold:
        return [f"{options.gold} has no entity: every tag is O, so {WITHOUT_ENTITIES['test']}."]
    folded = {name.casefold(): name for name in sorted(gold)}
    return [
        f"The type {name!r} of {options.predictions} and {folded[name.casefold()]!r} of {options.gold} differ by case"
        " only: two types."
        for name in sorted(predicted - gold)
        if name.casefold() in folded
    ]


def _types(sentences: Sequence[Sentence]) -> set[str]:
    return set(types_of([sentence.tags or () for sentence in sentences]))


def _file_inputs(options: Evaluate) -> dict[str, str]:
    assert options.gold is not None and options.predictions is not None
    return {"gold": digest_file(options.gold), "predictions": digest_file(options.predictions)}


def _files_result(options: Evaluate, found: ScoredFiles) -> dict[str, Any]:
    gold, predicted = map(_types, found.sentences)
    return {
        "domain": str(options.gold), "split": None, **describe_mode(options.mode),
        "sentences": found.scores.sentences, "words": found.words, "warnings": _warnings(options, found),
        "gold_scheme": found.schemes[0], "predictions_scheme": found.schemes[1],
        "models": {str(options.predictions): {
            **summarise({ONE_SEED: Scored(found.scores, found.other, {}, scheme=_scheme_written(found.schemes[1]))}),
            "unknown_types": [], "extra_types": sorted(predicted - gold),
        }},
    }  # fmt: skip


def store(stage: Stage, result: dict[str, Any], found: FineGrained | None) -> Manifest:
    """Write the scores, and what taking the models apart found, where that was asked for; finish the stage."""
    if found is not None:
        write_reports(stage.draft, result, found)
    complete = result if found is None else with_fine_grained(result, found, has_seeds=True)
    write_json(stage.draft / "scores.json", {**complete, "versions": installed_versions()})
    write_per_type(stage.draft / "per_type.csv", result["models"])
    return stage.finish(result if found is None else with_fine_grained(result, found))


def where(stage: Stage) -> Notice:
    """Tell where the page is."""
    return Notice(f"Every sentence with its errors, to be opened in a browser: {stage.folder / 'errors.html'}")


def refuse_parents(options: Evaluate) -> dict[str, str]:
    """Refuse ``--type-parents`` where nothing reads it.

    Raises:
        CrossNERError: It was given.
    """
    if options.type_parents is not None:
        raise CrossNERError("--type-parents is read with --fine-grained only.", hint="Add --fine-grained.")
    return {}
