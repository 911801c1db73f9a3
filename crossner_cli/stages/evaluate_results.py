"""The end of every ``evaluate``: comparisons, the analysis of errors, and the files of the stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import scheme_shown
from crossner_cli.engine.devices import Engine
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.comparison import CountedModel, check_same_sentences, compare_models
from crossner_cli.evaluation.fine_grained import Analysis, Tagging, analyse_taggings
from crossner_cli.evaluation.finished import Evaluation, list_models
from crossner_cli.evaluation.scores import PER_TYPE_COLUMNS, Mode
from crossner_cli.options import Evaluate
from crossner_cli.reports.error_page import write_reports
from crossner_cli.run.directory import Manifest
from crossner_cli.run.environment import installed_versions
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import EvaluateResult
from crossner_cli.run.stage import Stage
from crossner_cli.run.storage import write_csv, write_json


def count_opponents(
    compared: Sequence[Evaluation], sentences: Sequence[Sentence], place: str, mode: Mode
) -> list[CountedModel]:
    """Count the entities of the models to compare with.

    Raises:
        CrossNERError: They were scored on other sentences.
    """
    opponents = [CountedModel(model, mode) for each in compared for model in each.models()]
    mine = [(sentence.words, sentence.tags or ()) for sentence in sentences]
    for opponent in opponents:
        check_same_sentences(mine, opponent.sentences, place, opponent.model.place)
    return opponents


def finish_scored(
    stage: Stage,
    engine: Engine,
    options: Evaluate,
    result: EvaluateResult,
    sentences: Sequence[Sentence],
    taggings: Sequence[Tagging],
    known: KnownText | None,
    opponents: Sequence[CountedModel],
) -> Work[Manifest]:
    """Analyse and compare models whose predictions are written, and finish the stage.

    Args:
        stage: The stage.
        engine: Its processes.
        options: Those of the command.
        result: With the scores of all models.
        sentences: With gold tags.
        taggings: The tags of every tagger.
        known: Text in which entities may have been seen; None for no analysis.
        opponents: Models to compare with.
    """
    analyses = None
    if known is not None:
        gold_scheme = scheme_shown([sentence.tags or () for sentence in sentences])
        work = analyse_taggings(sentences, taggings, known, mode=options.mode, gold_scheme=gold_scheme)
        analyses = yield from engine.on_main_with_progress(work)
    if opponents:
        yield Notice(f"{stage.name}: comparing with {len(opponents)} evaluated model{'s' * (len(opponents) > 1)}.")

    def finish() -> Manifest:
        complete = replace(result, comparisons=_compare(stage, result, opponents, options))
        return finish_evaluation(stage, complete, sentences, analyses)

    return engine.on_main(finish)


def _compare(
    stage: Stage, result: EvaluateResult, opponents: Sequence[CountedModel], options: Evaluate
) -> list[dict[str, Any]]:
    """Compare each model with those of ``--against``, and the best one with the others."""
    models = list_models(stage.draft, result.models, stage.inputs, {})
    if not opponents and len(models) < 2:
        return []
    mine = [CountedModel(replace(model, place=str(stage.folder)), options.mode) for model in models]
    comparisons = [compare_models(one, other, seed=options.seed) for one in mine for other in opponents]
    best, *others = sorted(mine, key=lambda each: each.model.scores.f1.mean or 0.0, reverse=True)
    # The first is the comparison with the runner-up, which the verdict is about.
    within = (compare_models(best, other, seed=options.seed) for other in others)
    return [*comparisons, *({**each, "is_within": True} for each in within)]


def finish_evaluation(
    stage: Stage,
    result: EvaluateResult,
    sentences: Sequence[Sentence],
    analyses: Mapping[str, Analysis] | None,
    lineage: list[dict[str, Any]] | None = None,
) -> Manifest:
    """Write the scores and, with ``--fine-grained``, the analyses; finish the stage."""
    if analyses is not None:
        result = write_reports(stage.draft, result, sentences, analyses)
    write_json(stage.draft / "scores.json", {**asdict(result), "versions": installed_versions()})
    rows = [
        [label, seed, name, *(row[column] for column in PER_TYPE_COLUMNS)]
        for label, model in result.models.items()
        for seed, scores in model.seeds.items()
        for name, row in scores.per_type.items()
    ]
    write_csv(stage.draft / "per_type.csv", ("model", "seed", "type", *PER_TYPE_COLUMNS), rows)
    return stage.finish(asdict(result), lineage=lineage)
