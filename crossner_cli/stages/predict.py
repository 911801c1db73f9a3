"""``crossner predict``: tag new text, from files or stdin to a file or stdout."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, BinaryIO

from crossner_cli import __version__, figures
from crossner_cli.data.files import Repairs
from crossner_cli.engine.devices import Engine, default_threads, start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.option_fields import is_stream
from crossner_cli.options import Predict
from crossner_cli.prediction.inputs import Chunk, Inputs
from crossner_cli.prediction.output import Draft, Output, Stream, make_writer
from crossner_cli.prediction.tagging import ChunkTagger, PredictionJob, TaggedChunk, tag_in_processes
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.environment import make_record
from crossner_cli.run.progress import Notice, Progress, Work
from crossner_cli.run.storage import digest_file
from crossner_cli.stages.checks import check_files
from crossner_cli.stages.least_scores import KnownScores, find_known_scores, find_least_scores
from crossner_cli.taggers.description import read_description
from crossner_cli.taggers.folder import resolve_decoding
from crossner_cli.taggers.sources import TrainedTagger, best_on_dev, find_taggers, notes_on_taggers
from crossner_cli.taggers.tagging import READING

COMMAND = "predict"
# Options that do not change the output for readable lines.
IGNORED_OPTIONS = ("skip_bad_lines", "output", "input")


def run(
    run: RunDirectory,
    options: Predict,
    engine: Engine,
    *,
    stdin: BinaryIO | None = None,
    stdout: BinaryIO | None = None,
) -> Work[Manifest]:
    """Tag every document of the input, in order; return a record like the manifest of a stage.

    The run need not exist if ``--model`` is a path. Of several processes only the main one reads and writes; ``stdin``
    and ``stdout`` replace those of this process.

    Raises:
        CrossNERError: The input is malformed, the output exists, or there is no such tagger.
    """
    began = time.perf_counter()
    inputs = Inputs(options.input, options.read_as, stdin, options.text, options.text_column)
    on_terminal = options.place is None and (stdout or sys.stdout.buffer).isatty()
    format_name = engine.on_main(lambda: _check(options, inputs, engine, on_terminal=on_terminal))
    trained = _choose_taggers(run, options)
    name, folder = _name(trained), trained[0].folder
    description = read_description(folder)
    decoding = resolve_decoding(folder, options.decoding)
    known = find_known_scores(run, trained, decoding)
    calibration, types = known.calibration, description.list_types(description.domain)
    least, told = find_least_scores(options, types, known)
    notes = [_describe(trained), *notes_on_taggers(run, trained), _describe_calibration(known, trained), *told]
    yield from map(Notice, [*inputs.notes, *notes])
    schema = engine.on_main(lambda: inputs.shared_schema() if format_name == "parquet" else None)
    writer = make_writer(
        format_name,
        types=description.tag_set.domains[description.domain],
        is_calibrated=calibration is not None,
        passed_through=schema,
        is_coloured=on_terminal and "NO_COLOR" not in os.environ,
        order=options.order,
        model=name,
    )
    tagging = PredictionJob(trained, writer, decoding, calibration, least, options.batch_subwords)
    counts, repairs = yield from _tag_all(options, inputs, tagging, engine, stdout)
    yield from map(Notice, _describe_repairs(repairs))
    result = {
        "model": name,
        "folder": str(folder) if len(trained) == 1 else None,
        "seed": trained[0].seed if len(trained) == 1 else None,
        "domain": description.domain,
        "calibrated": calibration is not None,
        "output": None if options.place is None else str(options.output),
        "format": format_name,
        **counts,
        "repairs": dict(repairs.counts),
    }
    return make_record(COMMAND, options.record(), {each.label: each.digest for each in trained}, result, began)


def _tag_all(
    options: Predict, inputs: Inputs, tagging: PredictionJob, engine: Engine, stdout: BinaryIO | None
) -> Work[tuple[dict[str, Any], Repairs]]:
    """Tag and write all documents; return the counts of the output and the repairs in reading."""
    chunk_tagger = ChunkTagger(tagging, engine) if options.workers == 1 else None
    with contextlib.ExitStack() as stack:
        opened = _open_output(options, inputs, tagging, engine, stdout)
        output = stack.enter_context(contextlib.closing(opened))
        gc.freeze()  # a garbage collection over the imported libraries takes a fifth of a second
        stack.callback(gc.unfreeze)
        yield from map(Notice, [*tagging.writer.notes, *output.notes])
        repairs = Repairs(skips_bad_lines=options.skip_bad_lines)
        chunks = inputs.read_chunks(repairs, done=output.totals.documents)
        if chunk_tagger is None:
            tagged = tag_in_processes(chunks, tagging, _engine_maker(options, engine), options.workers)
        else:
            tagged = _tag_here(chunks, chunk_tagger, engine)
        counts = yield from _write_all(stack.enter_context(contextlib.closing(tagged)), output)
    return counts, repairs


def _choose_taggers(run: RunDirectory, options: Predict) -> list[TrainedTagger]:
    """Choose all seeds of all models for ``--ensemble``, else the best seed of the only model."""
    found = find_taggers(run, options.model, wanted_by=COMMAND)
    chosen = found if options.ensemble else [best_on_dev(found)]
    for each in chosen:
        each.check_unchanged()
    return chosen


def _name(trained: list[TrainedTagger]) -> str:
    return ", ".join(dict.fromkeys(each.label for each in trained))


def _describe_calibration(known: KnownScores, trained: list[TrainedTagger]) -> str:
    if len(trained) > 1:
        return "Scores are not calibrated: they are means of several taggers."
    if known.calibration is None:
        return "Scores are not calibrated, because the tagger has no calibration, or another --decoding."
    return f"Scores are calibrated on {known.calibration.entities:,} entities predicted {known.source}."


def _describe_repairs(repairs: Repairs) -> list[str]:
    examples = {kind: ", ".join(repairs.examples[kind]) for kind in repairs.counts}
    return [f"{kind}: {count} (first: {examples[kind]})" for kind, count in repairs.counts.items()]


def _check(options: Predict, inputs: Inputs, engine: Engine, *, on_terminal: bool) -> str:
    """Refuse what would fail only after the tagger is loaded; return the name of the output format."""
    if options.workers > 1 and (engine.world > 1 or not engine.on_cpu):
        raise CrossNERError(
            f"--workers {options.workers} needs the CPU, and this command runs on {engine.describe()}.",
            hint="Use several GPUs with --gpus 0,1, or several processes on the CPU with --device cpu.",
        )
    return check_files(options, inputs, on_terminal=on_terminal)


def _describe(trained: list[TrainedTagger]) -> str:
    first, *others = trained
    description = read_description(first.folder)
    types = ", ".join(description.list_types(description.domain))
    if others:
        model = f"the mean of {len(trained)} taggers ({_name(trained)})"
    else:
        dev = "" if first.dev_f1 is None else f", dev F1 {first.dev_f1:.2f}"
        model = f"{figures.with_seed(first.label, first.seed)}{dev}"
    return f"Tagging with {model}: the types of {description.domain} ({types})."


def _open_output(
    options: Predict, inputs: Inputs, tagging: PredictionJob, engine: Engine, stdout: BinaryIO | None
) -> Output:
    """Open the output on the main process; the others get one that writes nothing."""
    writer = tagging.writer
    opened: list[Output] = []

    def open_it() -> None:
        place = options.place
        if place is None:
            opened.append(Stream(stdout or sys.stdout.buffer, writer))
        elif is_stream(place):
            opened.append(Stream(place.open("wb"), writer, is_own=True))
        else:
            depends_on = _dependencies(options, inputs, tagging, engine)
            opened.append(Draft(place, writer, depends_on))

    engine.on_main(open_it)
    return opened[0] if opened else Stream(None, writer)


def _dependencies(options: Predict, inputs: Inputs, tagging: PredictionJob, engine: Engine) -> dict[str, Any] | None:
    """Collect everything that the bytes of the output depend on; None if the command cannot be continued."""
    if not options.is_resumable:
        return None
    asked = {name: value for name, value in options.record().items() if name not in IGNORED_OPTIONS}
    read = {
        f"input {number}": f"{digest_file(path)[:8]} as {inputs.format_of(path)}"
        for number, path in enumerate(inputs.files, start=1)
    }
    made_with = {
        "format": tagging.writer.name,
        "model": " ".join(each.digest[:8] for each in tagging.trained),
        "calibration": str(tagging.calibration),
        "seed of the model": " ".join(str(each.seed) for each in tagging.trained),
        "precision": engine.precision,
        "device": engine.device.type,
        "version": __version__,
    }
    return {**asked, **made_with, **read}


def _engine_maker(options: Predict, engine: Engine) -> Callable[[], Engine]:
    """Make the engine of each tagging process; the threads are shared among them."""
    threads = options.threads or max(1, default_threads() // options.workers)
    changes: dict[str, Any] = {"device": "cpu", "gpus": None, "threads": threads, "precision": engine.precision}
    return partial(start_engine, dataclasses.replace(options, **changes))


def _tag_here(chunks: Iterator[Chunk], chunk_tagger: ChunkTagger, engine: Engine) -> Generator[TaggedChunk, None, None]:
    while chunk := engine.on_main(lambda: next(chunks, None)):
        yield chunk_tagger(chunk)


def _write_all(tagged: Generator[TaggedChunk, None, None], output: Output) -> Work[dict[str, Any]]:
    """Write all tagged chunks, showing the progress; return the counts of all documents, with time and speed."""
    totals, before, started = output.totals, output.totals.words, time.perf_counter()
    rate = 0.0
    for chunk in tagged:
        totals.include(chunk.totals.to_json())
        output.write(chunk.pieces, totals)
        rate = (totals.words - before) / max(1e-9, time.perf_counter() - started)
        yield Progress(COMMAND, totals.words, None, "words", {"sentences": totals.sentences, "words/s": rate})
    output.finish()
    counts = totals.to_json()
    reading = counts.pop("reading")
    return {
        **counts,
        **{name: reading.get(name, 0) for name in READING},
        "words_before": before,
        "seconds": round(time.perf_counter() - started, 2),
        "words_per_second": round(rate),
    }
