"""``crossner evaluate --model folds``: score the sentences that ``cross-validate`` tagged out of fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from crossner_cli.data.sentences import Sentence
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.comparison import check_same_sentences
from crossner_cli.evaluation.fine_grained import Tagging
from crossner_cli.evaluation.finished import (
    EvaluatedModel,
    Evaluation,
    find_evaluation,
    name_evaluation,
    prediction_file_names,
)
from crossner_cli.evaluation.folds import (
    read_predictions,
    score_predictions,
    summarise_folds,
    write_predictions,
)
from crossner_cli.evaluation.scores import Scored, describe_mode
from crossner_cli.options import Evaluate
from crossner_cli.run.directory import Manifest, RunDirectory, digest_model
from crossner_cli.run.progress import Notice, Work
from crossner_cli.stages.evaluate_results import count_opponents, finish_scored


def score_folds(
    run: RunDirectory, options: Evaluate, engine: Engine, folds: Mapping[str, Evaluation]
) -> Work[Manifest]:
    """Score the predictions of stages of ``cross-validate``, given by label.

    Raises:
        CrossNERError: An option is for taggers only, the stages differ in their sentences, or a file is missing or was
            changed.
    """
    for option, is_given in (("--ensemble", options.ensemble), ("--decoding", options.decoding != "trained")):
        if is_given:
            raise CrossNERError(f"{option} has no effect on tagged sentences.", hint=f"Leave {option} out.")
    compared = [find_evaluation(path, of_folds=True) for path in options.against]
    inputs = {
        **{label: digest_model(each.folder) for label, each in folds.items()},
        **{f"against {each.folder}": digest_model(each.folder) for each in compared},
    }
    options = replace(options, name=options.name or name_evaluation([*folds], options.split))
    with engine.open_stage(run, options.stage_request(inputs)) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        found = {label: next(iter(each.models())) for label, each in folds.items()}
        files = {(label, seed): path for label, model in found.items() for seed, path in model.files.items()}
        sentences = _read_sentences(found)
        opponents = count_opponents(compared, sentences, next(iter(folds)), options.mode)
        names = dict(zip(files, prediction_file_names([*files]), strict=True))
        scored: dict[str, dict[str, Scored]] = {label: {} for label in found}
        for (label, seed), path in files.items():
            predictions = read_predictions(path)
            scored[label][seed] = score_predictions(sentences, predictions, options.mode)
            if engine.is_main:
                write_predictions(stage.draft / names[label, seed], sentences, predictions)
        models = {
            label: summarise_folds(sentences, seeds, options.mode, options.seed) for label, seeds in scored.items()
        }
        first = next(iter(folds.values())).result
        notes = list(dict.fromkeys(note for each in folds.values() for note in each.result.notes))
        result = replace(first, **describe_mode(options.mode), models=models, notes=notes, forecast=None)
        taggings = [
            Tagging(label, seed, each.tags, each.scheme, is_shown=seed == next(iter(scored[label])))
            for label, seeds in scored.items()
            for seed, each in seeds.items()
        ]
        # Whether names are known from training is not counted: these are the training sentences.
        known = KnownText() if options.fine_grained else None
        return (yield from finish_scored(stage, engine, options, result, sentences, taggings, known, opponents))


def _read_sentences(models: Mapping[str, EvaluatedModel]) -> list[Sentence]:
    """Read the sentences that several models were scored on.

    Raises:
        CrossNERError: They are not the same, or a file is missing or was changed.
    """
    read = {
        label: [(each["words"], each["gold"]) for each in next(iter(model.read().values()))]
        for label, model in models.items()
    }
    (label, first), *others = read.items()
    for other_label, other in others:
        check_same_sentences(first, other, label, other_label)
    return [Sentence(tuple(words), tuple(tags)) for words, tags in first]
