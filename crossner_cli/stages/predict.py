"""``crossner predict``: tag new text, from files or stdin to a file or stdout."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import sys
import time
from collections.abc import Generator
from functools import partial
from typing import Any, BinaryIO

from crossner_cli import __version__, figures
from crossner_cli.data.files import Repairs
from crossner_cli.engine.devices import Engine, default_threads, start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.option_fields import is_stream
from crossner_cli.options import Decoding, Predict
from crossner_cli.prediction.formats import ENDINGS, OutputFormat, choose_format
from crossner_cli.prediction.inputs import Inputs
from crossner_cli.prediction.output import Draft, Output, Stream, check_output
from crossner_cli.prediction.tagging import ChunkTagger, TaggedChunk, Tagging, tag_in_processes
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.environment import installed_versions
from crossner_cli.run.progress import Notice, Progress, Work
from crossner_cli.run.storage import digest_file
from crossner_cli.taggers.folder import read_domain_of_new_text, read_tag_set, read_types, resolve_decoding
from crossner_cli.taggers.sources import TrainedTagger, best_on_dev, find_taggers
from crossner_cli.taggers.tagging import READING, Calibration, read_calibration

COMMAND = "predict"
# Options that do not change what is written of lines that can be read.
BESIDE_THE_BYTES = ("skip_bad_lines", "output", "input")


def run(
    run: RunDirectory,
    options: Predict,
    engine: Engine,
    *,
    stdin: BinaryIO | None = None,
    stdout: BinaryIO | None = None,
) -> Work[Manifest]:
    """Tag every document of the input, in its order; return a record like the manifest of a stage.

    Args:
        run: Where stages can be named; it need not exist if ``--model`` is a path.
        options: What to tag, and with what.
        engine: Where to work. Of several processes only the main one reads and writes.
        stdin: Stream that is read as stdin; None is the stdin of this process.
        stdout: Stream that is written without ``--output``; None is the stdout of this process.

    Raises:
        CrossNERError: The input is malformed, the output exists, or there is no such tagger.
    """
    began = time.perf_counter()
    inputs = Inputs(options.input, options.read_as, stdin)
    format_name = engine.on_main(lambda: _check(options, inputs, engine))
    trained = best_on_dev(find_taggers(run, [options.model] if options.model else [], wanted_by=COMMAND))
    domain = read_domain_of_new_text(trained.folder)
    yield Notice(_describe(trained, domain))
    trained.check_unchanged()
    decoding = resolve_decoding(trained.folder, options.decoding)
    calibration = read_calibration(trained.folder) if decoding == "trained" else None
    yield Notice(_describe_scores(calibration, decoding))
    schema = engine.on_main(lambda: inputs.shared_schema() if format_name == "parquet" else None)
    types = read_tag_set(trained.folder).domains[domain]
    output_format = OutputFormat(format_name, types, calibration is not None, schema)
    tagging = Tagging(trained.folder, output_format, decoding, calibration, options.min_score, options.batch_subwords)
    chunk_tagger = ChunkTagger(tagging, engine) if options.workers == 1 else None
    with contextlib.ExitStack() as stack:
        depends_on = engine.on_main(lambda: _dependencies(options, inputs, trained, engine, output_format))
        output = stack.enter_context(contextlib.closing(_open(options, depends_on, engine, output_format, stdout)))
        gc.freeze()  # a collection that visits the imported libraries takes a fifth of a second
        stack.callback(gc.unfreeze)
        for note in [*_ending_notes(options, format_name), *output_format.notes, *output.notes]:
            yield Notice(note)
        repairs = Repairs(skips_bad_lines=options.skip_bad_lines)
        tagged = _tag_chunks(inputs, repairs, output.totals.documents, tagging, chunk_tagger, options, engine)
        started = time.perf_counter()
        counts = yield from _write_all(stack.enter_context(contextlib.closing(tagged)), output)
        output.finish()
    seconds = time.perf_counter() - started
    for kind, count in repairs.counts.items():
        yield Notice(f"{kind}: {count} (first: {', '.join(repairs.examples[kind])})")
    result = {
        **_name_tagger(trained),
        "domain": domain,
        "calibrated": calibration is not None,
        "output": None if options.place is None else str(options.output),
        "format": format_name,
        **_count(counts, seconds, repairs),
    }
    return _make_record(options, trained, result, time.perf_counter() - began)


def _count(counts: dict[str, int], seconds: float, repairs: Repairs) -> dict[str, Any]:
    """Return the counts of a prediction with its time, its speed and the repairs."""
    tagged_words = counts["words"] - counts["words_before"]
    speed = round(tagged_words / max(seconds, 1e-9))
    return {**counts, "seconds": round(seconds, 2), "words_per_second": speed, "repairs": dict(repairs.counts)}


def _name_tagger(trained: TrainedTagger) -> dict[str, Any]:
    """Return the entries of a result that say which tagger was used."""
    return {"model": trained.label, "folder": str(trained.folder), "seed": trained.seed}


def _make_record(options: Predict, trained: TrainedTagger, result: dict[str, Any], seconds: float) -> Manifest:
    """Make a record like the manifest of a stage."""
    return {
        "stage": COMMAND,
        "name": COMMAND,
        "options": options.record(),
        "inputs": {trained.label: trained.digest},
        "result": result,
        "versions": installed_versions(),
        "seconds": round(seconds, 1),
    }


def _check(options: Predict, inputs: Inputs, engine: Engine) -> str:
    """Refuse what would fail only after the tagger is loaded; return the name of the output format."""
    if options.workers > 1 and (engine.world > 1 or not engine.on_cpu):
        raise CrossNERError(
            f"--workers {options.workers} needs the CPU, and this command runs on {engine.describe()}.",
            hint="Use several GPUs with --gpus 0,1, or several processes on the CPU with --device cpu.",
        )
    inputs.check()
    place = options.place
    name = choose_format(options.format, None if place is None else options.output)
    kind = OutputFormat(name)
    if place is not None and is_stream(place) and kind.has_parts:
        raise CrossNERError(f"--format {name} cannot be written to {place}.", hint="Name a file or a folder.")
    if place is not None and not is_stream(place):
        check_output(place, is_folder=kind.is_folder, is_forced=options.force, inputs=options.input)
    return name


def _ending_notes(options: Predict, name: str) -> list[str]:
    """Say so if the ending of the output is not known: JSONL in a .csv file would surprise."""
    output = options.output
    if options.format != "auto" or output is None or not output.suffix or output.suffix.lower() in ENDINGS:
        return []
    return [f"{output} is written as {name}, because its ending is not that of a format. --format chooses another one."]


def _describe(trained: TrainedTagger, domain: str) -> str:
    dev = "" if trained.dev_f1 is None else f", dev F1 {trained.dev_f1:.2f}"
    types = ", ".join(read_types(trained.folder, domain))
    return f"Tagging with {figures.with_seed(trained.label, trained.seed)}{dev}: the types of {domain} ({types})."


def _describe_scores(calibration: Calibration | None, decoding: Decoding) -> str:
    if calibration is not None:
        return f"Scores are calibrated on {calibration.entities:,} entities predicted on dev."
    if decoding != "trained":
        return "Scores are not calibrated, because the tagger was trained with another --decoding."
    return "Scores are not calibrated, because the tagger found no entity in dev to fit them to."


def _dependencies(
    options: Predict, inputs: Inputs, trained: TrainedTagger, engine: Engine, output_format: OutputFormat
) -> dict[str, Any] | None:
    """Everything the bytes of the output depend on; None if the command cannot be continued."""
    if not options.is_resumable:
        return None
    asked = {name: value for name, value in options.record().items() if name not in BESIDE_THE_BYTES}
    read = {
        f"input {number}": f"{digest_file(path)[:16]} as {inputs.format_of(path)}"
        for number, path in enumerate(options.input, start=1)
    }
    made_with = {
        "format": output_format.name,
        "model": trained.digest[:16],
        "seed of the model": trained.seed,
        "precision": engine.precision,
        "device": engine.device.type,
        "version": __version__,
    }
    return {**asked, **made_with, **read}


def _open(
    options: Predict,
    depends_on: dict[str, Any] | None,
    engine: Engine,
    output_format: OutputFormat,
    stdout: BinaryIO | None,
) -> Output:
    """Open the output on the main process; the others get one that writes nothing."""
    opened: list[Output] = []

    def open_it() -> None:
        place = options.place
        if place is None:
            opened.append(Stream(stdout or sys.stdout.buffer, output_format))
        elif is_stream(place):
            opened.append(Stream(place.open("wb"), output_format, is_own=True))
        else:
            opened.append(Draft(place, output_format, depends_on))

    engine.on_main(open_it)
    return opened[0] if opened else Stream(None, output_format)


def _tag_chunks(
    inputs: Inputs,
    repairs: Repairs,
    done: int,
    tagging: Tagging,
    chunk_tagger: ChunkTagger | None,
    options: Predict,
    engine: Engine,
) -> Generator[TaggedChunk, None, None]:
    """Tag what follows the documents that are done: in this process, or in several if it has no tagger."""
    chunks = inputs.read_chunks(repairs, done=done)
    if chunk_tagger is None:
        threads = options.threads or max(1, default_threads() // options.workers)
        changes: dict[str, Any] = {"device": "cpu", "gpus": None, "threads": threads, "precision": engine.precision}
        make_engine = partial(start_engine, dataclasses.replace(options, **changes))
        yield from tag_in_processes(chunks, tagging, make_engine, options.workers)
        return
    while chunk := engine.on_main(lambda: next(chunks, None)):
        yield chunk_tagger(chunk)


def _write_all(tagged: Generator[TaggedChunk, None, None], output: Output) -> Work[dict[str, Any]]:
    """Write one tagged chunk after another, showing the progress; return the counts of all documents."""
    totals, before, started = output.totals, output.totals.words, time.perf_counter()
    for chunk in tagged:
        totals.include(chunk.totals.to_json())
        output.write(chunk.pieces, totals)
        rate = (totals.words - before) / max(1e-9, time.perf_counter() - started)
        yield Progress(COMMAND, totals.words, None, "words", {"sentences": totals.sentences, "words/s": rate})
    counts = totals.to_json()
    reading = counts.pop("reading")
    return {**counts, **{name: reading.get(name, 0) for name in READING}, "words_before": before}
