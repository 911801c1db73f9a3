"""``crossner cross-validate``: each training sentence of the target, tagged by a tagger that has not seen it."""

from __future__ import annotations

import dataclasses
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossner_cli.data.folds import group_near_equal, split_into_folds
from crossner_cli.data.sentences import SILVER, Sentence
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import OUT_OF_FOLD, prediction_file_names
from crossner_cli.evaluation.folds import (
    FoldPrediction,
    forecast_gain,
    read_predictions,
    score_predictions,
    summarise_folds,
    write_predictions,
)
from crossner_cli.evaluation.scores import Scored, describe_mode
from crossner_cli.methods.contract import gives_distributions
from crossner_cli.options_trust import CrossValidate
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import EvaluateResult
from crossner_cli.stages.evaluate_results import finish_evaluation
from crossner_cli.stages.train import Recipe, TaggerData, TrainingJob, begin_training, read_data, resolve_recipe
from crossner_cli.taggers.description import DESCRIPTION, read_description
from crossner_cli.taggers.ensemble import read_distributions, to_shares
from crossner_cli.taggers.tagging import tag

TAGGED = "tagged"  # the folder of the draft with a file for each fold that is done
LEARNT = ("finetune", "joint-train")  # the commands whose taggers have learnt the target's labels


def run(run: RunDirectory, options: CrossValidate, engine: Engine) -> Work[Manifest]:
    """Train a tagger for each fold and seed, tag the fold with it, and score all folds as one set of sentences.

    Taggers stay in memory, one at a time. After an interruption the stage continues at the fold that was left.

    Raises:
        CrossNERError: Anything that stops ``finetune``; there are fewer sentences than folds; or the start has learnt
            the labels.
    """
    if options.with_dev and options.chooses_on_dev:
        raise CrossNERError(
            "--with-dev takes the dev sentences that --keep best or --patience choose on.",
            hint="Leave one of them out.",
        )
    recipe = resolve_recipe(run, options, engine.world)
    check_start_is_new(recipe)
    more = recipe.prepared.inputs("target/dev.jsonl") if options.with_dev else {}
    with engine.open_stage(run, options.stage_request({**recipe.digest_inputs(), **more})) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        yield from begin_training(stage, engine, recipe)
        folds = yield from _divide(TrainingJob(stage, engine, recipe), options)
        (stage.draft / TAGGED).mkdir(exist_ok=True)
        scored = {}
        names = prediction_file_names([(stage.name, str(seed)) for seed in recipe.seeds])
        for seed, name in zip(recipe.seeds, names, strict=True):
            predictions = yield from folds.tag_all(seed)
            scored[str(seed)] = score_predictions(folds.sentences, predictions, "conll")
            if engine.is_main:
                write_predictions(stage.draft / name, folds.sentences, predictions)
        what = f"{len(folds.sentences)} training {'and dev ' * options.with_dev}sentences"
        result = EvaluateResult(
            domain=recipe.prepared.domains["target"].name,
            split=f"{OUT_OF_FOLD}, {what}",
            **describe_mode("conll"),
            sentences=len(folds.sentences),
            words=sum(len(sentence.words) for sentence in folds.sentences),
            precision=options.precision,
            warnings=[],
            models={stage.name: summarise_folds(folds.sentences, scored, "conll", options.seed)},
            forecast=(yield from folds.forecast_gain(scored)) if options.forecast else None,
            notes=[
                f"Each tagger learnt {options.folds - 1} of {options.folds} parts of these sentences: one that learns"
                " all of them is a little better."
            ],
        )

        def finish() -> Manifest:
            shutil.rmtree(stage.draft / TAGGED)
            return finish_evaluation(stage, result, folds.sentences, None, recipe.start.lineage)

        return engine.on_main(finish)


def check_start_is_new(recipe: Recipe) -> None:
    """Refuse a start that has learnt the labels of the target.

    Raises:
        CrossNERError: As above.
    """
    start, target = recipe.start, recipe.prepared.domains["target"].name
    is_tagger = start.folder is not None and (start.folder / DESCRIPTION).is_file()
    has_learnt = any(step.get("stage") in LEARNT for step in start.lineage)
    if has_learnt or (is_tagger and start.folder and target in read_description(start.folder).tag_set.domains):
        raise CrossNERError(
            f"--start-from {start.name} has learnt the labels of {target}, so its scores would be too good.",
            hint="Start from pretrain-source, dapt or base.",
        )


def _divide(job: TrainingJob, options: CrossValidate) -> Work[Folds]:
    """Read the labelled sentences and divide them; copies of them among a teacher's sentences are left out.

    Raises:
        CrossNERError: There are fewer sentences than folds.
    """
    prepared = job.recipe.prepared
    data = yield from read_data(job.recipe)
    dev = prepared.domain("target", wanted_by=options.command).sentences("dev") if options.with_dev else []
    sentences = [*data.labelled["target"], *dev]
    if len(sentences) < options.folds:
        raise CrossNERError(
            f"{len(sentences)} sentences cannot be divided into {options.folds} folds.", hint="Label more sentences."
        )
    if silver := data.labelled.get(SILVER):
        groups = group_near_equal([sentence.words for sentence in (*sentences, *silver)])[len(sentences) :]
        kept = [sentence for sentence, group in zip(silver, groups, strict=True) if group >= len(sentences)]
        data = dataclasses.replace(data, labelled={**data.labelled, SILVER: kept})
    return Folds(job, data, sentences, split_into_folds(sentences, options.folds))


@dataclass(frozen=True)
class Folds:
    """The sentences in folds, and the job that trains a tagger for each."""

    job: TrainingJob
    data: TaggerData
    sentences: Sequence[Sentence]
    fold_of: Sequence[int]

    def tag_all(self, seed: int, *, of_half: bool = False) -> Work[list[FoldPrediction]]:
        """Tag all folds with taggers of one seed; those that were tagged before an interruption are read.

        With ``of_half`` each tagger learns half of the other folds.
        """
        found: dict[int, FoldPrediction] = {}
        for fold in sorted(set(self.fold_of)):
            numbers = [number for number, each in enumerate(self.fold_of) if each == fold]
            path = self.job.stage.draft / TAGGED / f"{'half-' * of_half}seed-{seed}-fold-{fold + 1}.jsonl"
            if not path.is_file():
                held_out = [self.sentences[number] for number in numbers]
                predictions = yield from self._tag_fold(seed, fold, held_out, of_half=of_half)
                self.job.engine.on_main(lambda: write_predictions(path, held_out, predictions))  # noqa: B023
            found |= dict(zip(numbers, read_predictions(path), strict=True))
        return [found[number] for number in range(len(self.sentences))]

    def forecast_gain(self, scored: Mapping[str, Scored]) -> Work[dict[str, Any]]:
        """Tag all folds with taggers of half of the sentences, and forecast the gain of more sentences."""
        of_half = {}
        for seed in self.job.recipe.seeds:
            predictions = yield from self.tag_all(seed, of_half=True)
            of_half[str(seed)] = score_predictions(self.sentences, predictions, "conll")
        return forecast_gain(self.sentences, of_half, scored, len(set(self.fold_of)), self.job.recipe.options.seed)

    def _tag_fold(
        self, seed: int, fold: int, held_out: Sequence[Sentence], *, of_half: bool
    ) -> Work[list[FoldPrediction]]:
        """Train a tagger on the other folds, and tag this one with it."""
        job = self.job
        task = f"{job.stage.name}, seed {seed}, fold {fold + 1} of {len(set(self.fold_of))}"
        others = [sentence for sentence, each in zip(self.sentences, self.fold_of, strict=True) if each != fold]
        if of_half:
            task += ", half of the sentences"
            others = random.Random(seed).sample(others, len(others) // 2)
        dev = self.data.dev if job.recipe.options.chooses_on_dev else []
        data = dataclasses.replace(self.data, labelled={**self.data.labelled, "target": others}, dev=dev)
        tagger = (yield from job.fit_tagger(data, seed, task)).tagger
        predictions = [
            FoldPrediction(fold, each.tags, each.probabilities, None) for each in tag(tagger, held_out, job.engine)
        ]
        if not gives_distributions(type(tagger)):
            return predictions
        names, found = tagger.tag_set.tags, read_distributions(tagger, held_out, job.engine)
        return [
            dataclasses.replace(each, shares=to_shares(names, of_words))
            for each, of_words in zip(predictions, found, strict=True)
        ]
