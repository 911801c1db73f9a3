"""``crossner evaluate``: score taggers on the target's dev or test sentences. Nothing else reads the test split."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from crossner_cli import figures
from crossner_cli.data.sentences import PreparedData, PreparedDomain, Sentence
from crossner_cli.data.tags import scheme_shown, types_of
from crossner_cli.engine.devices import Engine
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.comparison import CountedModel, check_same_sentences, compare_models
from crossner_cli.evaluation.error_analysis import read_parents
from crossner_cli.evaluation.fine_grained import FineGrainedAnalysis, Tagging, analyse_taggings
from crossner_cli.evaluation.finished import (
    COMMAND,
    NO_SEED,
    find_evaluation,
    list_models,
    prediction_file_names,
    write_predictions,
)
from crossner_cli.evaluation.model_scores import Scored, summarise
from crossner_cli.evaluation.scores import describe_mode, other_mode, score
from crossner_cli.options import Evaluate
from crossner_cli.run.directory import MANIFEST, Manifest, RunDirectory
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import EvaluateResult
from crossner_cli.run.stage import Stage
from crossner_cli.run.storage import digest_file
from crossner_cli.stages.evaluate_files import finish_evaluation, page_notice, refuse_parents, score_two_files
from crossner_cli.taggers.folder import load_tagger, read_tag_set, read_types, resolve_decoding
from crossner_cli.taggers.sources import TrainedTagger, best_on_dev, find_taggers
from crossner_cli.taggers.tagging import Tagged, count_unread, read_calibration, score_entities, tag_with_progress


def run(run: RunDirectory, options: Evaluate, engine: Engine | None) -> Work[Manifest]:
    """Score taggers, or with ``--gold`` and ``--predictions`` two files, for which no run is needed.

    Returns:
        The stage's manifest; for two files a record of the same form that is not stored.

    Raises:
        CrossNERError: There is no such split or tagger, the files differ in their words, or a model to compare with was
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
        place = f"{run.path} ({target.name} {options.split})"
        for opponent in opponents:
            mine = [(sentence.words, sentence.tags or ()) for sentence in sentences]
            check_same_sentences(mine, opponent.sentences, place, opponent.model.place)
        warnings = _data_warnings(run, options.split)
        yield from map(Notice, warnings)
        parents = _read_parents(options, prepared, taggers, sentences)
        evaluation = _Evaluation(target, sentences, options, engine, stage)
        result, taggings = yield from evaluation.score_models(taggers, warnings)
        analysis = None
        if options.fine_grained:
            work = analyse_taggings(sentences, taggings, _known_text(prepared), mode=options.mode, parents=parents)
            analysis = yield from engine.on_main_with_progress(work)
        if opponents:
            yield Notice(f"{stage.name}: comparing with {len(opponents)} evaluated model{'s' * (len(opponents) > 1)}.")
        manifest = engine.on_main(lambda: evaluation.finish(result, analysis, opponents))
        if options.fine_grained:
            yield page_notice(stage)
        return manifest


class _Evaluation:
    """The scoring of taggers on sentences of the target within a stage."""

    def __init__(
        self, target: PreparedDomain, sentences: Sequence[Sentence], options: Evaluate, engine: Engine, stage: Stage
    ) -> None:
        self.target, self.sentences, self.options = target, sentences, options
        self.engine, self.stage = engine, stage

    def score_models(
        self, taggers: Sequence[TrainedTagger], warnings: list[str]
    ) -> Work[tuple[EvaluateResult, list[Tagging]]]:
        """Score each model over its seeds; with ``--fine-grained`` also return the tags of every tagger."""
        names = prediction_file_names([(tagger.label, _seed_of(tagger)) for tagger in taggers])
        paths = {tagger.folder: self.stage.draft / name for tagger, name in zip(taggers, names, strict=True)}
        models = {}
        taggings: list[Tagging] = []
        for label in dict.fromkeys(tagger.label for tagger in taggers):
            seeds = [tagger for tagger in taggers if tagger.label == label]
            scored: dict[str, Scored] = {}
            for tagger in seeds:
                scored[_seed_of(tagger)] = yield from self._score_tagger(tagger, paths[tagger.folder])
            unknown, extra = yield from self._compare_types(seeds[0])
            models[label] = summarise(scored, unknown_types=unknown, extra_types=extra)
            if self.options.fine_grained:
                shown = _seed_of(best_on_dev(seeds))
                taggings += [
                    Tagging(label, seed, each.tags, each.scheme, is_shown=seed == shown)
                    for seed, each in scored.items()
                ]
        result = EvaluateResult(
            domain=self.target.name,
            split=self.options.split,
            **describe_mode(self.options.mode),
            sentences=len(self.sentences),
            words=sum(len(sentence.words) for sentence in self.sentences),
            decoding=self.options.decoding,
            warnings=warnings,
            models=models,
        )
        return result, taggings

    def _score_tagger(self, trained: TrainedTagger, path: Path) -> Work[Scored]:
        """Tag, score in both modes, and write the predictions from the main process."""
        task = figures.with_seed(f"{COMMAND} {trained.label}", trained.seed)
        yield Notice(f"{task}: loading")
        decoding = resolve_decoding(trained.folder, self.options.decoding)
        tagger = load_tagger(trained.folder, self.engine, decoding=decoding)
        trained.check_unchanged()
        sentences = self.target.assign_domain(tagger.tag_set, self.sentences)
        began = time.perf_counter()
        tagged: list[Tagged] = yield from tag_with_progress(
            tagger, sentences, self.engine, batch_subwords=self.options.batch_subwords, task=task
        )
        seconds = time.perf_counter() - began
        gold, predicted = [sentence.tags or () for sentence in sentences], [each.tags for each in tagged]
        if self.engine.is_main:
            write_predictions(path, sentences, predicted)
        scheme, gold_scheme = tagger.tag_set.scheme, scheme_shown(gold)
        scores, other = (
            score(gold, predicted, mode=mode, scheme=scheme, gold_scheme=gold_scheme)
            for mode in (self.options.mode, other_mode(self.options.mode))
        )
        return Scored(
            scores,
            other,
            {
                **count_unread(tagger, self.engine),
                "seconds": round(seconds, 2),
                "words_per_second": round(sum(len(sentence.words) for sentence in sentences) / max(seconds, 1e-9)),
            },
            score_entities(gold, tagged),
            read_calibration(trained.folder) if decoding == "trained" else None,
            predicted if self.options.fine_grained else (),
            scheme,
        )

    def _compare_types(self, tagger: TrainedTagger) -> Work[tuple[list[str], list[str]]]:
        """Find the gold types that a model does not know, and its types that the gold tags lack."""
        tag_set, label = read_tag_set(tagger.folder), tagger.label
        domain = self.target.domain_in(tag_set)
        if domain != self.target.name and len(tag_set.domains) > 1:
            name = self.target.name
            is_other = name in tag_set.domains
            found = f"trained on another {name!r}, of other types" if is_other else f"not trained on {name!r}"
            tagged = f"as its {domain!r}" if domain else "with all of its types"
            yield Notice(f"{label} was {found}: these sentences are tagged {tagged}.")
        known = set(read_types(tagger.folder, domain))
        gold = set(types_of([sentence.tags or () for sentence in self.sentences]))
        unknown, extra = sorted(gold - known), sorted(known - gold)
        if unknown:
            yield Notice(f"{label}: types it does not know, so their entities are missed: {', '.join(unknown)}.")
        if extra:
            yield Notice(f"{label}: types it can predict and these sentences lack: {', '.join(extra)}.")
        return unknown, extra

    def finish(
        self, result: EvaluateResult, analysis: FineGrainedAnalysis | None, opponents: Sequence[CountedModel]
    ) -> Manifest:
        """Compare with other models, write everything and finish the stage."""
        if opponents:
            models = list_models(self.stage.draft, result.models, self.stage.inputs, {})
            mine = [CountedModel(model, self.options.mode) for model in models]
            seed = self.options.seed
            comparisons = [compare_models(one, other, seed=seed) for one in mine for other in opponents]
            result = replace(result, comparisons=comparisons)
        return finish_evaluation(self.stage, result, analysis)


def _seed_of(tagger: TrainedTagger) -> str:
    return NO_SEED if tagger.seed is None else str(tagger.seed)


def _read_parents(
    options: Evaluate, prepared: PreparedData, taggers: Sequence[TrainedTagger], sentences: Sequence[Sentence]
) -> dict[str, str]:
    """Read ``--type-parents`` for the types of the run, its taggers and the sentences."""
    if not options.fine_grained:
        refuse_parents(options)
        return {}
    types = set(types_of([sentence.tags or () for sentence in sentences]))
    types.update(*(domain.types for domain in prepared.domains.values()))
    types.update(*(read_tag_set(tagger.folder).types for tagger in taggers))
    return read_parents(options.type_parents, types)


def _known_text(prepared: PreparedData) -> KnownText:
    source, target = prepared.domains.get("source"), prepared.domains["target"]
    return KnownText(
        target.sentences("train") if target.has("train") else None,
        source.sentences("train") if source is not None and source.has("train") else None,
        prepared.raw_text("target"),
        None if source is None else source.types,
    )


def _data_warnings(run: RunDirectory, split: str) -> list[str]:
    """Warnings of ``prepare-data`` about the scored split, as dev equal to test."""
    manifest = run.manifest("prepare-data", wanted_by=COMMAND)
    return [text for text in manifest["result"].get("warnings", []) if "target" in text and split in text.split()]
