"""The part of ``crossner report`` that looks inside taggers: those of the runs that have what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crossner_cli import figures
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Report
from crossner_cli.reports.inspection import methods_with_weights
from crossner_cli.reports.inspection_record import Drawing, look_inside
from crossner_cli.reports.measured import run_of
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice, Work
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.sources import TrainedTagger, best_on_dev, find_tagger_stages, find_taggers

COMMAND, FORMATS = "report", ("svg", "png")


def look_inside_runs(
    places: Sequence[Path], options: Report, engine: Engine, folder: Path | None
) -> Work[list[dict[str, Any]]]:
    """Look inside the taggers of runs, of each stage the seed that is best on dev.

    Args:
        places: Run directories, or stages of them.
        options: What to look at.
        engine: Where.
        folder: For figures, one folder a tagger; None draws none.

    Returns:
        One record a tagger, as ``inspect`` makes: with run, model, seed and, where figures are drawn, their folder.

    Raises:
        CrossNERError: No tagger of the runs has what was asked for.
    """
    found: list[dict[str, Any]] = []
    left_out: list[str] = []
    weighing = methods_with_weights()
    for number, (run, trained, method) in enumerate(_taggers(places), start=1):
        name = f"{run.path.name}/{trained.label}"
        if options.sentence and method not in weighing:
            left_out.append(f"{name} ({method})")
            continue
        yield Notice(f"Looking inside {figures.with_seed(name, trained.seed)}")
        drawing = None if folder is None else Drawing(folder / f"{number}-{trained.label}", FORMATS)
        if drawing is not None:
            drawing.folder.mkdir(parents=True)
        seen = yield from look_inside(load_tagger(trained.folder, engine), run, options, engine, drawing)
        place = None if drawing is None else drawing.folder.name
        found.append({"run": str(run.path), "model": trained.label, "seed": trained.seed, "folder": place, **seen})
    if not found and not left_out:
        raise CrossNERError(
            f"There is no tagger to look into in {', '.join(map(str, places))}.", hint="Give runs that trained one."
        )
    if not found:
        raise CrossNERError(
            f"--sentence shows weights, and none of the taggers computes any: {', '.join(left_out)}.",
            hint=f"Methods that do: {', '.join(weighing)}. --states alone shows those of any tagger.",
        )
    if left_out:
        yield Notice(f"No weights to look at, left out: {', '.join(left_out)}")
    return found


def _taggers(places: Sequence[Path]) -> Iterator[tuple[RunDirectory, TrainedTagger, str]]:
    """The best tagger of each stage of the runs that the places belong to, with its method."""
    for path in dict.fromkeys(map(run_of, places)):
        run = RunDirectory(path)
        for name, manifest in find_tagger_stages(run).items():
            yield run, best_on_dev(find_taggers(run, [name], wanted_by=COMMAND)), manifest["options"]["method"]
