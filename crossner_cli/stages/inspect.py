"""``crossner inspect``: the weights that a tagger computes for a sentence, and the states of words on a plane."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from crossner_cli import figures
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Inspect
from crossner_cli.reports.inspection_record import Drawing, check_inside, look_inside
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.environment import installed_versions
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.storage import check_output, output_folder, write_json
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.sources import best_on_dev, find_taggers

COMMAND, RECORD = "inspect", "inspection.json"


def run(run: RunDirectory, options: Inspect, engine: Engine) -> Work[Manifest]:
    """Show weights of sentences; with ``--output`` draw them, and with ``--states`` the words of the run's data.

    Returns:
        A record like a stage's manifest; with ``--output`` it lies beside the figures.

    Raises:
        CrossNERError: Nothing to show was asked for, the output exists, the tagger has no such weights or states, or
            the packages that draw are missing.
    """
    began = time.perf_counter()
    _check(options, engine)
    trained = best_on_dev(find_taggers(run, [options.model] if options.model else [], wanted_by=COMMAND))
    tagger = load_tagger(trained.folder, engine)
    yield Notice(f"Inspecting {figures.with_seed(trained.label, trained.seed)}")
    unread = dict.fromkeys(("split", "points", "seed"), "it needs --states") if options.states == "none" else {}
    unread |= {"format": "it needs --output"} if options.output is None else {}
    yield from map(Notice, options.unread(unread))
    with _open_output(options) as drawing:
        seen = yield from look_inside(tagger, run, options, engine, drawing)
        record: Manifest = {
            "stage": COMMAND,
            "name": COMMAND,
            "options": options.record(),
            "inputs": {trained.label: trained.digest},
            "result": {
                "model": trained.label, "seed": trained.seed, **seen,
                "output": None if options.output is None else str(options.output),
            },
            "versions": installed_versions(),
            "seconds": round(time.perf_counter() - began, 1),
        }  # fmt: skip
        if drawing is not None:
            write_json(drawing.folder / RECORD, record)
    return record


def _check(options: Inspect, engine: Engine) -> None:
    """Refuse what would only fail after the tagger was loaded."""
    options.refuse_name(COMMAND)
    check_inside(options, engine, COMMAND)
    if not options.sentence and options.states == "none":
        hint = 'Give --sentence "Words of a sentence.", or --states hidden --output DIR.'
        raise CrossNERError("There is nothing to inspect.", hint=hint)
    if options.output is not None:
        check_output(options.output, RECORD, force=options.force)


@contextlib.contextmanager
def _open_output(options: Inspect) -> Iterator[Drawing | None]:
    if options.output is None:
        yield None
        return
    with output_folder(options.output, RECORD, force=options.force) as folder:
        yield Drawing(folder, (options.format,))
