"""``crossner evaluate``: score taggers on the target's dev or test sentences. Nothing else reads the test split."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crossner_cli import figures
from crossner_cli.data.sentences import PreparedData, PreparedDomain, Sentence
from crossner_cli.data.statistics import score_warnings
from crossner_cli.data.tags import Scheme, scheme_shown, types_of
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.fine_grained import Tagging
from crossner_cli.evaluation.finished import (
    COMMAND,
    NO_SEED,
    find_evaluation,
    find_folds,
    name_evaluation,
    prediction_file_names,
    write_predictions,
)
from crossner_cli.evaluation.scores import Scored, describe_mode, other_mode, score, summarise
from crossner_cli.options import Evaluate
from crossner_cli.run.directory import PREPARED, Manifest, RunDirectory, digest_model
from crossner_cli.run.progress import Notice, Progress, Work
from crossner_cli.run.records import read_result
from crossner_cli.run.results import EvaluateResult, PrepareDataResult
from crossner_cli.stages.evaluate_files import score_two_files
from crossner_cli.stages.evaluate_folds import score_folds
from crossner_cli.stages.evaluate_results import count_opponents, finish_scored
from crossner_cli.taggers.description import read_description
from crossner_cli.taggers.ensemble import Ensemble
from crossner_cli.taggers.folder import load_tagger, resolve_decoding
from crossner_cli.taggers.sources import TrainedTagger, best_on_dev, find_taggers, notes_on_taggers
from crossner_cli.taggers.tagging import (
    Tagged,
    calibrate,
    count_unread,
    measure_reliability,
    read_calibration,
    score_entities,
    tag_with_progress,
)
from crossner_cli.taggers.thresholds import measure_by_score

ENSEMBLE = "ensemble"  # the name of the mean of all taggers
SENTENCES_AT_ONCE = 512


def run(run: RunDirectory, options: Evaluate, engine: Engine | None = None) -> Work[Manifest]:
    """Score taggers, or with ``--gold`` and ``--predictions`` two files, which need no run.

    Returns:
        The stage's manifest; for two files a record of the same form that is not stored.

    Raises:
        CrossNERError: There is no such split or tagger, a stage has the name of the ensemble, or the models to compare
            were scored on other words.
    """
    if options.gold is not None or options.predictions is not None:
        return (yield from score_two_files(options, run))
    assert engine is not None
    if folds := find_folds(run, options.model):
        return (yield from score_folds(run, options, engine, folds))
    prepared = PreparedData.load(run, wanted_by=COMMAND)
    target = prepared.domain("target", wanted_by=COMMAND)
    data = read_result(run.manifest(PREPARED, wanted_by=COMMAND), PrepareDataResult)
    taggers = _find_taggers(run, options)
    compared = [find_evaluation(path) for path in options.against]
    inputs = {
        **prepared.inputs(*_files_read(options)),
        **{tagger.label: tagger.digest for tagger in taggers},
        **{f"against {each.folder}": digest_model(each.folder) for each in compared},
    }
    options = replace(options, name=options.name or name_evaluation([each.label for each in taggers], options.split))
    with engine.open_stage(run, options.stage_request(inputs)) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        sentences = target.sentences(options.split)
        opponents = count_opponents(compared, sentences, f"{run.path} ({target.name} {options.split})", options.mode)
        result = EvaluateResult(
            domain=target.name,
            split=options.split,
            **describe_mode(options.mode),
            sentences=len(sentences),
            words=sum(len(sentence.words) for sentence in sentences),
            decoding=options.decoding,
            precision=options.precision,
            warnings=[
                *notes_on_taggers(run, taggers),
                *score_warnings(f"The target {target.name!r}", data.statistics["target"], options.split),
            ],
            models={},
        )
        taggings = yield from _score_models(taggers, target, sentences, options, engine, stage.draft, result)
        known = _known_text(prepared) if options.fine_grained else None
        return (yield from finish_scored(stage, engine, options, result, sentences, taggings, known, opponents))


def _find_taggers(run: RunDirectory, options: Evaluate) -> list[TrainedTagger]:
    taggers = find_taggers(run, options.model, wanted_by=COMMAND)
    for tagger in taggers:
        resolve_decoding(tagger.folder, options.decoding)
    if options.ensemble and ENSEMBLE in {tagger.label for tagger in taggers}:
        raise CrossNERError(
            f"The stage {ENSEMBLE!r} has the name that --ensemble gives to the mean of all models.",
            hint=f"Give it by its folder: --model {shlex.quote(str(run.folder(ENSEMBLE)))}.",
        )
    return taggers


def _score_models(
    taggers: Sequence[TrainedTagger],
    target: PreparedDomain,
    sentences: Sequence[Sentence],
    options: Evaluate,
    engine: Engine,
    draft: Path,
    result: EvaluateResult,
) -> Work[list[Tagging]]:
    """Score each model over its seeds into the result; return the tags of every tagger."""
    models = [(tagger.label, _seed_of(tagger)) for tagger in taggers]
    names = prediction_file_names([*models, (ENSEMBLE, NO_SEED)] if options.ensemble else models)
    paths = {tagger.folder: draft / name for tagger, name in zip(taggers, names, strict=False)}
    taggings: list[Tagging] = []
    for label in dict.fromkeys(tagger.label for tagger in taggers):
        seeds = [tagger for tagger in taggers if tagger.label == label]
        shown = _seed_of(best_on_dev(seeds))
        scored: dict[str, Scored] = {}
        for tagger in seeds:
            seed = _seed_of(tagger)
            found = yield from _score_tagger(tagger, target, sentences, options, engine, paths[tagger.folder])
            scored[seed] = found
            taggings.append(Tagging(label, seed, found.tags, found.scheme, is_shown=seed == shown))
        unknown, extra = yield from _compare_types(seeds[0], target, sentences)
        result.models[label] = summarise(
            scored, reliability=_reliability([*scored.values()]), unknown_types=unknown, extra_types=extra
        )
    if options.ensemble:
        mean = yield from _score_ensemble(taggers, sentences, options, engine, draft / names[-1])
        taggings.append(Tagging(ENSEMBLE, NO_SEED, mean.tags, mean.scheme, is_shown=True))
        result.models[ENSEMBLE] = summarise({NO_SEED: mean}, reliability=_reliability([mean]))
    return taggings


def _score_ensemble(
    taggers: Sequence[TrainedTagger], sentences: Sequence[Sentence], options: Evaluate, engine: Engine, path: Path
) -> Work[Scored]:
    """Tag with the mean of all taggers, score in both modes, and write the predictions from the main process."""
    task = f"{COMMAND} {ENSEMBLE}"
    yield Notice(f"{task}: loading {len(taggers)} taggers")
    ensemble = Ensemble(taggers, engine, "--model", options.batch_subwords)
    tagged: list[Tagged] = []
    began = time.perf_counter()
    for first in range(0, len(sentences), SENTENCES_AT_ONCE):
        tagged += ensemble.tag(sentences[first : first + SENTENCES_AT_ONCE])
        yield Progress(task, len(tagged), len(sentences), "sentences")
    if engine.is_main:
        write_predictions(path, sentences, [each.tags for each in tagged])
    return _score_tags(sentences, tagged, ensemble.tag_set.scheme, {}, options, time.perf_counter() - began)


def _score_tagger(
    trained: TrainedTagger,
    target: PreparedDomain,
    sentences: Sequence[Sentence],
    options: Evaluate,
    engine: Engine,
    path: Path,
) -> Work[Scored]:
    """Tag, score in both modes, and write the predictions from the main process."""
    task = figures.with_seed(f"{COMMAND} {trained.label}", trained.seed)
    yield Notice(f"{task}: loading")
    decoding = resolve_decoding(trained.folder, options.decoding)
    tagger = load_tagger(trained.folder, engine, decoding=decoding)
    trained.check_unchanged()
    sentences = target.assign_domain(tagger.tag_set, sentences)
    began = time.perf_counter()
    tagged: list[Tagged] = yield from tag_with_progress(
        tagger, sentences, engine, batch_subwords=options.batch_subwords, task=task
    )
    seconds = time.perf_counter() - began
    if engine.is_main:
        write_predictions(path, sentences, [each.tags for each in tagged])
    scored = _score_tags(sentences, tagged, tagger.tag_set.scheme, count_unread(tagger, engine), options, seconds)
    calibration = read_calibration(trained.folder) if decoding == "trained" else None
    return scored if calibration is None else replace(scored, calibrated=calibrate(scored.entities, calibration))


def _score_tags(
    sentences: Sequence[Sentence],
    tagged: Sequence[Tagged],
    scheme: Scheme,
    unread: dict[str, int],
    options: Evaluate,
    seconds: float,
) -> Scored:
    """Score tags in both modes; their scores are not calibrated."""
    gold, predicted = [sentence.tags or () for sentence in sentences], [each.tags for each in tagged]
    scores, other = (
        score(gold, predicted, mode=mode, scheme=scheme, gold_scheme=scheme_shown(gold))
        for mode in (options.mode, other_mode(options.mode))
    )
    counts = {
        **unread,
        "seconds": round(seconds, 2),
        "words_per_second": round(sum(len(sentence.words) for sentence in sentences) / max(seconds, 1e-9)),
    }
    return Scored(scores, other, counts, scheme, predicted, score_entities(gold, tagged), None)


def _reliability(scored: Sequence[Scored]) -> dict[str, Any] | None:
    """Reliability of scores before and after calibration, and precision and recall by score, over all seeds."""
    before = [entity for each in scored for entity in each.entities]
    after = [entity for each in scored for entity in each.calibrated or ()]
    if not before:
        return None
    is_calibrated = all(each.calibrated is not None for each in scored)
    return {
        "before": measure_reliability(before),
        "after": measure_reliability(after) if is_calibrated else None,
        **measure_by_score(after if is_calibrated else before, sum(each.scores.support for each in scored)),
    }


def _compare_types(
    tagger: TrainedTagger, target: PreparedDomain, sentences: Sequence[Sentence]
) -> Work[tuple[list[str], list[str]]]:
    """Find the gold types that a model does not know, and its types that the gold tags lack."""
    description, name = read_description(tagger.folder), target.name
    tag_set = description.tag_set
    domain = target.domain_in(tag_set)
    if domain != name and len(tag_set.domains) > 1:
        found = (
            f"trained on another {name!r}, with other types" if name in tag_set.domains else f"not trained on {name!r}"
        )
        tagged = f"as its {domain!r}" if domain else "with all of its types"
        yield Notice(f"{tagger.label} was {found}: these sentences are tagged {tagged}.")
    known = set(description.list_types(domain))
    gold = set(types_of([sentence.tags or () for sentence in sentences]))
    return sorted(gold - known), sorted(known - gold)


def _seed_of(tagger: TrainedTagger) -> str:
    return NO_SEED if tagger.seed is None else str(tagger.seed)


def _files_read(options: Evaluate) -> list[str]:
    """List the prepared files that are read; those that a run lacks are left out later."""
    files = [f"target/{options.split}.jsonl", "target/types.json"]
    more = ["target/train.jsonl", "source/train.jsonl", "source/types.json", "corpus/domain.txt"]
    return files + more if options.fine_grained else files


def _known_text(prepared: PreparedData) -> KnownText:
    source, target = prepared.domains.get("source"), prepared.domains["target"]
    return KnownText(
        target.sentences("train") if target.has("train") else None,
        source.sentences("train") if source is not None and source.has("train") else None,
        prepared.raw_text("target"),
        None if source is None else source.types,
    )
