"""``crossner evaluate``: score taggers on the target's dev or test sentences. Nothing else reads the test split."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crossner_cli import figures
from crossner_cli.data.sentences import PreparedData, PreparedDomain, Sentence
from crossner_cli.data.tags import to_spans, to_tags, types_of
from crossner_cli.engine.devices import Engine
from crossner_cli.evaluation.comparison import CountedModel, check_same_sentences, compare_models
from crossner_cli.evaluation.fine_grained import FineGrained, Tagging, analyse
from crossner_cli.evaluation.finished import (
    ONE_SEED,
    find_evaluation,
    models_of,
    prediction_file_names,
    write_predictions,
)
from crossner_cli.evaluation.model_scores import Scored, summarise
from crossner_cli.evaluation.scores import Mode, Scores, describe_mode, score
from crossner_cli.evaluation.surroundings import Surroundings
from crossner_cli.evaluation.type_parents import read_parents
from crossner_cli.methods.contract import Tagger
from crossner_cli.options import Evaluate
from crossner_cli.run.directory import MANIFEST, Manifest, RunDirectory
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.stage import Stage
from crossner_cli.run.storage import digest_file
from crossner_cli.stages.evaluate_files import COMMAND, refuse_parents, score_two_files, store, where
from crossner_cli.taggers.calibration import (
    read_calibration,
    score_entities,
)
from crossner_cli.taggers.folder import load_tagger, read_tag_set, read_types, resolve_decoding
from crossner_cli.taggers.sources import TrainedTagger, best_on_dev, find_taggers
from crossner_cli.taggers.tagging import Tagged, count_unread, tag_with_progress


def run(run: RunDirectory, options: Evaluate, engine: Engine | None) -> Work[Manifest]:
    """Score taggers, or with ``--gold`` and ``--predictions`` two files, for which no run is needed.

    Returns:
        The stage's manifest; for two files a record of the same form that is stored nowhere.

    Raises:
        CrossNERError: There is no such split or tagger, the files differ in their words, or what to compare with was
            scored on other sentences.
    """
    if options.gold is not None or options.predictions is not None:
        return (yield from score_two_files(options, run))
    assert engine is not None
    prepared = PreparedData.load(run, wanted_by=COMMAND)
    target = prepared.domain("target", wanted_by=COMMAND)
    taggers = find_taggers(run, options.model, wanted_by=COMMAND)
    for tagger in taggers:
        resolve_decoding(tagger.folder, options.decoding)
    compared = [find_evaluation(path) for path in options.against]
    inputs = {
        "prepare-data": prepared.digest,
        **{tagger.label: tagger.digest for tagger in taggers},
        **{f"against {each.folder}": digest_file(each.folder / MANIFEST) for each in compared},
    }
    with engine.open_stage(run, options.stage_request(COMMAND, inputs)) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        sentences = target.sentences(options.split)
        opponents = [CountedModel(model, options.mode) for each in compared for model in each.models()]
        _check_opponents(opponents, sentences, f"{run.path} ({target.name} {options.split})")
        warnings = _warnings(run, options.split)
        for warning in warnings:
            yield Notice(warning)
        # Before any work, so that a slip in --type-parents costs none.
        parents = _parents(options, prepared, taggers, sentences)
        models, taggings = yield from _score_models(taggers, target, sentences, options, engine, stage)
        result = {"domain": target.name, "split": options.split, **_describe(options.mode, sentences),
                  "decoding": options.decoding, "warnings": warnings, "models": models}  # fmt: skip
        found = None
        if options.fine_grained:
            surroundings = _surroundings(prepared)
            work = analyse(sentences, taggings, surroundings, mode=options.mode, parents=parents)
            found = yield from engine.on_main_with_progress(work)
        if opponents:
            yield Notice(f"{stage.name}: comparing with {len(opponents)} evaluated model{'s' * (len(opponents) > 1)}.")
        manifest = engine.on_main(lambda: _finish(stage, result, found, opponents, options))
        if options.fine_grained:
            yield where(stage)
        return manifest


def _score_models(
    taggers: Sequence[TrainedTagger], target: PreparedDomain, sentences: Sequence[Sentence], options: Evaluate,
    engine: Engine, stage: Stage,
) -> Work[tuple[dict[str, Any], list[Tagging]]]:  # fmt: skip
    """The scores of each model over its seeds, and with ``--fine-grained`` what every tagger said."""
    names = prediction_file_names([(tagger.label, _seed_of(tagger)) for tagger in taggers])
    models: dict[str, Any] = {}
    taggings: list[Tagging] = []
    for label in dict.fromkeys(tagger.label for tagger in taggers):
        scored: dict[str, Scored] = {}
        for number, trained in enumerate(taggers):
            if trained.label == label:
                path = stage.draft / names[number] if engine.is_main else None
                scored[_seed_of(trained)] = yield from _score_tagger(trained, target, sentences, options, engine, path)
        types = yield from _compare_types(taggers, label, target, sentences)
        models[label] = {**summarise(scored), **types}
        if options.fine_grained:
            taggings += _taggings(label, scored, [tagger for tagger in taggers if tagger.label == label])
    return models, taggings


def _seed_of(tagger: TrainedTagger) -> str:
    return ONE_SEED if tagger.seed is None else str(tagger.seed)


def _check_opponents(opponents: Sequence[CountedModel], sentences: Sequence[Sentence], place: str) -> None:
    """Refuse, before any tagging, what was not scored on these sentences and gold tags."""
    mine = [(sentence.words, sentence.tags or ()) for sentence in sentences]
    for opponent in opponents:
        check_same_sentences(mine, opponent.sentences, place, opponent.model.place)


def _finish(
    stage: Stage, result: dict[str, Any], found: FineGrained | None, opponents: Sequence[CountedModel],
    options: Evaluate,
) -> Manifest:  # fmt: skip
    if opponents:
        models = models_of(stage.draft, result["models"], stage.inputs, {})
        mine = [CountedModel(model, options.mode) for model in models]
        result["comparisons"] = [compare_models(one, other, seed=options.seed) for one in mine for other in opponents]
    return store(stage, result, found)


def _parents(
    options: Evaluate, prepared: PreparedData, taggers: Sequence[TrainedTagger], sentences: Sequence[Sentence]
) -> dict[str, str]:
    """What ``--type-parents`` says of the types that the run, its taggers or the sentences have."""
    if not options.fine_grained:
        return refuse_parents(options)
    types = set(types_of([sentence.tags or () for sentence in sentences]))
    types.update(*(domain.types for domain in prepared.domains.values()))
    types.update(*(read_tag_set(tagger.folder).types for tagger in taggers))
    return read_parents(options.type_parents, types)


def _taggings(label: str, scored: dict[str, Scored], taggers: list[TrainedTagger]) -> list[Tagging]:
    """Every seed's tags; shown as text are those of the seed that is best on dev."""
    best = best_on_dev(taggers).seed
    return [
        Tagging(label, seed, each.tags, each.scheme, is_shown=seed == (ONE_SEED if best is None else str(best)))
        for seed, each in scored.items()
    ]


def _surroundings(prepared: PreparedData) -> Surroundings:
    source, target = prepared.domains.get("source"), prepared.domains["target"]
    return Surroundings(
        target.sentences("train") if target.has("train") else None,
        source.sentences("train") if source is not None and source.has("train") else None,
        prepared.raw_text("target"),
        None if source is None else source.types,
    )


def _score_tagger(
    trained: TrainedTagger, target: PreparedDomain, sentences: Sequence[Sentence], options: Evaluate, engine: Engine,
    path: Path | None,
) -> Work[Scored]:  # fmt: skip
    """Tag, score in both modes, and write the predictions where this process is the one to write."""
    decoding = resolve_decoding(trained.folder, options.decoding)
    tagger = load_tagger(trained.folder, engine, decoding=decoding)
    trained.check_unchanged()
    sentences = target.assign_domain(tagger.tag_set, sentences)
    task = figures.with_seed(f"{COMMAND} {trained.label}", trained.seed)
    began = time.perf_counter()
    tagged: list[Tagged] = yield from tag_with_progress(
        tagger, sentences, engine, batch_subwords=options.batch_subwords, task=task
    )
    seconds = time.perf_counter() - began
    if path is not None:
        write_predictions(path, sentences, (each.tags for each in tagged))
    scored = _score_both(sentences, tagged, tagger, options.mode)
    counts = {
        **count_unread(tagger, engine),
        "seconds": round(seconds, 2),
        "words_per_second": round(sum(len(sentence.words) for sentence in sentences) / max(seconds, 1e-9)),
    }
    calibration = read_calibration(trained.folder) if decoding == "trained" else None
    entities = score_entities([sentence.tags or () for sentence in sentences], tagged)
    tags = [each.tags for each in tagged] if options.fine_grained else ()
    return Scored(*scored, counts, entities, calibration, tags, tagger.tag_set.scheme)


def _score_both(
    sentences: Sequence[Sentence], tagged: Sequence[Tagged], tagger: Tagger, mode: Mode
) -> tuple[Scores, Scores]:
    scheme = tagger.tag_set.scheme
    # A tagger of another run may tag in another scheme than this one's sentences.
    gold = [to_tags(to_spans(sentence.tags or ()), len(sentence.words), scheme) for sentence in sentences]
    predicted = [each.tags for each in tagged]
    return (
        score(gold, predicted, mode=mode, scheme=scheme),
        score(gold, predicted, mode="strict" if mode == "conll" else "conll", scheme=scheme),
    )


def _describe(mode: Mode, sentences: Sequence[Sentence]) -> dict[str, Any]:
    return {
        **describe_mode(mode),
        "sentences": len(sentences),
        "words": sum(len(sentence.words) for sentence in sentences),
    }


def _compare_types(
    taggers: Sequence[TrainedTagger], label: str, target: PreparedDomain, sentences: Sequence[Sentence]
) -> Work[dict[str, list[str]]]:
    """Tell which gold types the model cannot predict, and which of its types the gold tags do not show."""
    folder = next(tagger.folder for tagger in taggers if tagger.label == label)
    tag_set = read_tag_set(folder)
    domain = target.domain_in(tag_set)
    if domain != target.name and len(tag_set.domains) > 1:
        is_other = target.name in tag_set.domains
        found = f"trained on another {target.name!r}, of other types" if is_other else f"not trained on {target.name!r}"
        tagged = f"as its {domain!r}" if domain else "with all of its types"
        yield Notice(f"{label} was {found}: these sentences are tagged {tagged}.")
    known = read_types(folder, domain)
    gold = set(types_of([sentence.tags or () for sentence in sentences]))
    unknown, extra = sorted(gold - set(known)), sorted(set(known) - gold)
    if unknown:
        yield Notice(f"{label}: types it does not know, so their entities are missed: {', '.join(unknown)}.")
    if extra:
        yield Notice(f"{label}: types it can predict and these sentences lack: {', '.join(extra)}.")
    return {"unknown_types": unknown, "extra_types": extra}


def _warnings(run: RunDirectory, split: str) -> list[str]:
    """What ``prepare-data`` found that a reader of the scores of a split should know, as dev equal to test."""
    manifest = run.manifest("prepare-data", wanted_by=COMMAND)
    return [text for text in manifest["result"].get("warnings", []) if "target" in text and split in text.split()]
