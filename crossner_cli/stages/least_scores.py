"""The scores below which ``predict`` leaves entities out: as they are given, or as a precision asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from crossner_cli.errors import CrossNERError, suggest
from crossner_cli.evaluation.finished import CROSS_VALIDATE, FOLDS, find_evaluations
from crossner_cli.evaluation.folds import read_predictions
from crossner_cli.options import Predict
from crossner_cli.run.directory import RunDirectory
from crossner_cli.taggers.sources import TrainedTagger
from crossner_cli.taggers.tagging import (
    Calibration,
    ScoredEntity,
    Tagged,
    fit_calibration,
    read_calibration,
    score_entities,
)
from crossner_cli.taggers.thresholds import LeastScores, Thresholds, choose_threshold, find_thresholds, read_thresholds

SAME_WAY = ("method", "encoder", "start_from", "settings", "word_shapes")  # options that make scores alike


@dataclass(frozen=True)
class KnownScores:
    """The calibration and the thresholds of a tagger's scores, and the sentences that they were found on."""

    calibration: Calibration | None
    thresholds: Thresholds
    source: str


def find_known_scores(run: RunDirectory, trained: Sequence[TrainedTagger], decoding: str) -> KnownScores:
    """Find the calibration and thresholds of a tagger: on dev, else out of fold; none for several or another decoding.

    Out of fold they are those of the run's ``folds``, if it was made in the way of the tagger.

    Raises:
        CrossNERError: A file is damaged or missing.
    """
    if decoding != "trained" or len(trained) > 1:
        return KnownScores(None, {}, "")
    calibration = read_calibration(trained[0].folder)
    if calibration is not None:
        return KnownScores(calibration, read_thresholds(trained[0].folder), "on dev")
    entities = _read_folds(run, trained[0])
    calibration = fit_calibration(entities) if entities else None
    return KnownScores(calibration, find_thresholds(entities), "out of fold")


def _read_folds(run: RunDirectory, trained: TrainedTagger) -> list[ScoredEntity]:
    """Read the entities of one seed of the run's ``folds``; empty without it, or if it was made in another way."""
    made = trained.manifest["options"] if trained.manifest else {}
    if not run.has(FOLDS) or run.folder(FOLDS).parent.resolve() not in trained.folder.resolve().parents:
        return []
    manifest = run.read(FOLDS)
    if manifest["stage"] != CROSS_VALIDATE or any(manifest["options"].get(name) != made.get(name) for name in SAME_WAY):
        return []
    model = find_evaluations(run.folder(FOLDS))[0].models()[0]
    seed, sentences = next(iter(model.read().items()))
    tagged = [Tagged(each.tags, each.probabilities) for each in read_predictions(model.files[seed])]
    return score_entities([each["gold"] for each in sentences], tagged)


def find_least_scores(options: Predict, types: Sequence[str], known: KnownScores) -> tuple[LeastScores, list[str]]:
    """Find the lowest scores that the options ask for, and say what a precision leaves out.

    Raises:
        CrossNERError: A value of ``--min-score`` is not a score or not of a type of the tagger, or nothing is known of
            its scores that ``--min-precision`` could be read from.
    """
    shown = parse_min_scores(options.min_score, types)
    if options.min_precision is None:
        return LeastScores(shown, {}), []
    if not known.thresholds:
        raise CrossNERError(
            "--min-precision needs scores on sentences that the tagger has not learnt, and there are none.",
            hint="Train with dev sentences, or give crossner cross-validate the options of the tagger, and keep its"
            " result in the run as folds; predict then without --ensemble and --decoding.",
        )
    chosen = {name: choose_threshold(known.thresholds.get(name, ()), options.min_precision) for name in types}
    asked = f"--min-precision {options.min_precision:g} {known.source}"
    reached = [
        f"{name} {each.score if known.calibration is None else known.calibration(each.score):.2f} ({each.correct} of"
        f" {each.entities} right)"
        for name, each in chosen.items()
        if each is not None
    ]
    notes = [f"{asked}: lowest score of {', '.join(reached)}."] if reached else []
    if unreached := [name for name, each in chosen.items() if each is None]:
        notes.append(f"{asked}: left out, since no score reaches it for sure: {', '.join(unreached)}.")
    own = {name: math.inf if each is None else each.score for name, each in chosen.items()}
    return LeastScores(shown, own), notes


def parse_min_scores(values: Sequence[str], types: Sequence[str]) -> dict[str, float]:
    """Parse the values of ``--min-score``: a score for all types, or ``type=score``, which goes before.

    Raises:
        CrossNERError: A value is neither, or of a type that the tagger does not know.
    """
    general: dict[str, float] = {}
    special: dict[str, float] = {}
    for value in values:
        name, equals, number = value.rpartition("=")
        try:
            score = float(number)
        except ValueError:
            score = math.nan
        if not 0 <= score <= 1:
            raise CrossNERError(
                f"--min-score {value} is not a score from 0 to 1.",
                hint="Write --min-score 0.8 or --min-score person=0.8.",
            )
        if equals and name not in types:
            raise CrossNERError(
                f"--min-score {value}: the tagger does not know the type {name!r}.",
                hint=f"{suggest(name, types)}Its types are {', '.join(types)}.",
            )
        (special if equals else general).update({name: score} if equals else dict.fromkeys(types, score))
    return {**general, **special}
