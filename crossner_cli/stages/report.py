"""``crossner report``: many runs as one table, curve or comparison. It reads manifests and makes no stage."""

from __future__ import annotations

import dataclasses
import shlex
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_cli.errors import CrossNERError
from crossner_cli.options import Report
from crossner_cli.reports.blocks import short_names
from crossner_cli.reports.curves import draw_curves
from crossner_cli.reports.measured import Found, Measured, places_of, read_runs
from crossner_cli.reports.plots import check_plots
from crossner_cli.reports.published import Way, published_results, way_of
from crossner_cli.reports.report_files import REPORT, write_report
from crossner_cli.run.directory import Manifest
from crossner_cli.run.progress import Progress, Work
from crossner_cli.run.storage import check_output

if TYPE_CHECKING:
    from crossner_cli.engine.devices import Engine

COMMAND = "report"
TWO_FILES = ""  # what a file of tags scored against another has for a split
Pair = tuple[Measured, Measured]


def run(options: Report, engine: Engine | None = None) -> Work[Manifest]:
    """Read runs and put together what they measured.

    Args:
        options: Of the command.
        engine: Where taggers are looked into, if that was asked for.

    Returns:
        A record of the form of a manifest, stored nowhere but in ``--output``.

    Raises:
        CrossNERError: There is no such run or baseline, nothing to show, or runs to compare were scored on other
            sentences.
    """
    began = time.perf_counter()
    options.refuse_name(COMMAND)
    if engine is not None:
        from crossner_cli.reports.inspection_record import check_inside  # loads PyTorch, which tables do without

        check_inside(options, engine, COMMAND)
    if options.output is not None:
        check_output(options.output, REPORT, force=options.force)
        if options.x is not None or engine is not None:
            check_plots()
    paths = options.runs or [options.run]
    found = read_runs(paths)
    models = [model for model in found.models if model.split in (options.split, TWO_FILES)]
    notes = [*found.notes, *_notes(found, models, options)]
    if options.x is None:
        notes += options.unread({"series": "it tells the lines of a curve apart (--x)"})
    curves = draw_curves(found, models, x=options.x, series=options.series) if options.x is not None else None
    comparisons = yield from _compare(models, options, notes)
    result = {
        "split": options.split,
        "models": [_record(model) for model in models],
        "comparisons": comparisons,
        "curves": curves.to_json() if curves is not None else None,
        "published": _published(models, found, options, notes),
        "inside": [],
        "notes": notes,
        "output": str(options.output) if options.output is not None else None,
        "written": [],
    }
    if engine is None:
        _refuse_nothing(result, options)
    record: Manifest = {
        "stage": COMMAND, "name": COMMAND, "options": options.record(), "inputs": {}, "result": result,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as drawn:
        figures = Path(drawn) if options.output is not None else None
        if engine is not None:
            from crossner_cli.stages.report_inside import look_inside_runs  # loads PyTorch too

            result["inside"] = yield from look_inside_runs(places_of(paths), options, engine, figures)
        record["seconds"] = round(time.perf_counter() - began, 1)
        if options.output is not None:
            write_report(options.output, record, curves, figures)
    return record


def _record(measured: Measured) -> dict[str, Any]:
    """One model as a flat record."""
    scores, making = measured.model.scores, measured.making
    return {
        "run": str(measured.run), "stage": measured.stage, "model": measured.model.label, "target": measured.target,
        "split": measured.split, "mode": measured.mode, "decoding": measured.decoding,
        **{name: scores.get(name) for name in ("f1", "precision", "recall", "macro_f1")},
        "runs": len(measured.f1), "seeds": measured.f1,
        **{name: getattr(making, name, None)
           for name in ("method", "encoder", "start", "regime", "train_sentences", "corpus_share")},
    }  # fmt: skip


def _notes(found: Found, models: Sequence[Measured], options: Report) -> Iterator[str]:
    """What was left out or should not be read side by side without a thought."""
    if left := len(found.models) - len(models):
        what = "model" if left == 1 else "models"
        yield f"{left} {what} scored on other sentences than {options.split}: left out."
    for what, names in (
        ("read in several ways", {model.mode for model in models}),
        ("of several encoders", {model.making.encoder for model in models if model.making}),
    ):
        if len(names) > 1:
            yield f"Scores {what} stand side by side: {', '.join(sorted(names))}."


def _compare(models: Sequence[Measured], options: Report, notes: list[str]) -> Work[list[dict[str, Any]]]:
    """Compare with the baseline; without one, the second of two models with the first."""
    pairs = list(_pairs(models, options))
    if options.baseline is not None:
        notes += _not_compared(models, options.baseline)
    if not pairs:
        return []
    from crossner_cli.evaluation.comparison import (  # loads scikit-learn, which tables do without
        CountedModel,
        compare_models,
    )

    counted: dict[int, CountedModel] = {}
    found: list[dict[str, Any]] = []
    for number, (one, other) in enumerate(pairs, start=1):
        try:
            for each in (one, other):
                if id(each) not in counted:
                    counted[id(each)] = CountedModel(each.model, "strict" if other.mode == "strict" else "conll")
            comparison = compare_models(counted[id(one)], counted[id(other)])
        except CrossNERError as error:
            if options.baseline is not None:
                raise
            notes.append(f"Not compared: {error.problem}")
            continue
        found.append({
            "target": other.target, "run": str(one.run), "place": one.model.place, "decoding": one.decoding,
            "against_decoding": other.decoding, **comparison,
        })  # fmt: skip
        yield Progress("compare", number, len(pairs), "models", {})
    return found


def _pairs(models: Sequence[Measured], options: Report) -> Iterator[Pair]:
    if options.baseline is None:
        if len(models) == 2 and _kind(models[0]) == _kind(models[1]):
            yield models[1], models[0]
        return
    baselines = _called(models, options.baseline)
    if not baselines:
        names = ", ".join(short_names(dict.fromkeys(model.model.label for model in models)).values()) or "none"
        raise CrossNERError(
            f"--baseline {options.baseline!r} is none of the models (there are: {names}).",
            hint="Give a model's name, STAGE/NAME with the evaluate stage's, RUN/NAME or RUN/STAGE/NAME.",
        )
    for baseline in baselines:
        same = [other for other in baselines if _kind(other) == _kind(baseline)]
        if len(same) > 1:
            places = ", ".join(_short_name(other, models) for other in same)
            raise CrossNERError(
                f"--baseline {options.baseline!r} stands for several models on {baseline.target}: {places}.",
                hint=f"Name one of these: --baseline {shlex.quote(_short_name(same[-1], models))}; or give the folder"
                " of one evaluate stage in place of its run.",
            )
        yield from ((model, baseline) for model in models if model is not baseline and _kind(model) == _kind(baseline))


def _called(models: Sequence[Measured], name: str) -> list[Measured]:
    """The models of a name, short as tables have it or longer."""
    shown = short_names(dict.fromkeys(model.model.label for model in models))
    return [model for model in models if name in (shown[model.model.label], *_names_of(model))]


def _not_compared(models: Sequence[Measured], baseline: str) -> Iterator[str]:
    """Which models are in no comparison with the baseline, and why."""
    found = _called(models, baseline)
    without = sorted({model.target for model in models} - {model.target for model in found})
    if without:
        yield f"Not compared, since there is no {baseline}: {', '.join(without)}."
    kinds = {_kind(model) for model in found}
    others = [model for model in models if model.target not in without and _kind(model) not in kinds]
    if others:
        modes = ", ".join(sorted({mode for _, mode in kinds}))
        names = ", ".join(f"{model.model.label} ({model.mode})" for model in others)
        yield f"Not compared with {baseline}, whose tags were read as {modes}: {names}."


def _kind(model: Measured) -> tuple[str, str]:
    """What two models must share to be compared."""
    return model.target, model.mode


def _names_of(model: Measured) -> tuple[str, ...]:
    """What ``--baseline`` can call a model, from short to long."""
    inside = f"{model.stage}/{model.model.label}"
    runs = (model.run.name, str(model.run))
    return (model.model.label, *(f"{run}/{model.model.label}" for run in runs), inside,
            *(f"{run}/{inside}" for run in runs))  # fmt: skip


def _short_name(model: Measured, models: Sequence[Measured]) -> str:
    """The shortest name that no other model on the same target has; the longest, where all have it."""
    others = {name for other in models if other is not model and _kind(other) == _kind(model)
              for name in _names_of(other)}  # fmt: skip
    names = _names_of(model)
    return next((name for name in sorted(names, key=len) if name not in others), names[-1])


def _published(
    models: Sequence[Measured], found: Found, options: Report, notes: list[str]
) -> list[dict[str, Any]]:  # fmt: skip
    if not options.published:
        return []
    targets = {model.target for model in models} | {target for _, target, _ in found.taggers}
    numbers = published_results(targets)
    missing = sorted(targets - {number.target for number in numbers} - {""})
    if missing:
        notes.append(f"The five papers print no F1 on {', '.join(missing)}.")
    makings = [*(model.making for model in models), *(making for _, _, making in found.taggers)]
    ways = {Way(making.method, making.regime, making.corpus_share != 0) for making in makings if making is not None}
    return [
        {**dataclasses.asdict(number), "comparable": not ways or any(map(way_of(number).is_like, ways))}
        for number in numbers
    ]


def _refuse_nothing(result: dict[str, Any], options: Report) -> None:
    if result["models"] or result["curves"] or result["published"]:
        return
    places = ", ".join(map(str, options.runs or [options.run]))
    notes = "".join(f"\n  {note}" for note in result["notes"])
    raise CrossNERError(
        f"There are no {options.split} scores in {places}.{notes}",
        hint="crossner evaluate --run DIR scores the models of a run; --x epoch shows dev F1 of what is trained.",
    )
