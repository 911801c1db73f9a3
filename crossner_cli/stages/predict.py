"""``crossner predict``: tag new text, from files or stdin to a file or stdout."""

from __future__ import annotations

import contextlib
import gc
import shlex
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from crossner_cli import __version__, figures
from crossner_cli.data.files import Repairs
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger
from crossner_cli.options import Decoding, Predict
from crossner_cli.prediction.chunks import Totals
from crossner_cli.prediction.formats import ENDINGS, OutputFormat, choose_format, is_folder
from crossner_cli.prediction.inputs import check_inputs, input_format_of, read_chunks, shared_schema
from crossner_cli.prediction.place import can_be_continued, is_device, output_place
from crossner_cli.prediction.processes import Chunk, ChunkTagger, TaggedChunk, TaggingProcesses
from crossner_cli.prediction.resumable import Draft, Output, Stream, is_own_folder
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.environment import installed_versions
from crossner_cli.run.progress import Notice, Progress, Work
from crossner_cli.run.storage import digest_file
from crossner_cli.taggers.calibration import Calibration, read_calibration
from crossner_cli.taggers.folder import (
    load_tagger,
    read_domain_of_new_text,
    read_tag_set,
    read_types,
    resolve_decoding,
)
from crossner_cli.taggers.sources import TrainedTagger, best_on_dev, find_taggers
from crossner_cli.taggers.tagging import READING

COMMAND = "predict"
# Options that change nothing of what is written of lines that can be read.
BESIDE_THE_BYTES = ("skip_bad_lines", "output", "input")


@dataclass
class Counted:
    """What was tagged, before an interruption and since.

    Args:
        totals: What is in the documents.
        reading: What could not be read or was left out.
        words_before: Words tagged before the interruption.
    """

    totals: Totals = field(default_factory=Totals)
    reading: Counter[str] = field(default_factory=Counter)
    words_before: int = 0

    @property
    def new_words(self) -> int:
        """Words tagged since."""
        return self.totals.words - self.words_before

    def take_up(self, record: dict[str, Any]) -> None:
        """Go on where an interrupted command was, if there was one."""
        if record.get("documents"):
            self.totals.include(record["totals"])
            self.reading.update(record["reading"])
            self.words_before = self.totals.words

    def add(self, chunk: TaggedChunk) -> None:
        """Count one chunk."""
        self.totals.include(chunk.totals)
        self.reading.update(chunk.reading)

    def to_json(self) -> dict[str, Any]:
        """What ``take_up`` reads."""
        return {
            "documents": self.totals.documents,
            "totals": self.totals.to_json(),
            "reading": dict(self.reading),
        }

    def to_record(self, seconds: float) -> dict[str, Any]:
        """What the record of the command tells, given the seconds that tagging took."""
        return {
            **self.totals.to_json(),
            **{name: self.reading[name] for name in READING},
            "words_before": self.words_before,
            "seconds": round(seconds, 2),
            "words_per_second": round(self.new_words / max(seconds, 1e-9)),
        }


def run(
    run: RunDirectory,
    options: Predict,
    engine: Engine,
    *,
    stdin: BinaryIO | None = None,
    stdout: BinaryIO | None = None,
) -> Work[Manifest]:
    """Tag every document of the input, in its order.

    Args:
        run: Where stages can be named; it need not exist where ``--model`` is a path.
        options: What to tag and with what.
        engine: Where. Of several processes the main one alone reads and writes.
        stdin: Bytes to read for ``-``; default: this process's.
        stdout: Where to write without ``--output``; default: this process's.

    Returns:
        A record like a stage's manifest; no stage folder is made.

    Raises:
        CrossNERError: The input is malformed, the output exists, or there is no such tagger.
    """
    began = time.perf_counter()
    name = engine.on_main(lambda: _check(options, engine))
    trained = best_on_dev(find_taggers(run, [options.model] if options.model else [], wanted_by=COMMAND))
    trained.check_unchanged()
    decoding = resolve_decoding(trained.folder, options.decoding)
    tag_set = read_tag_set(trained.folder)
    domain = read_domain_of_new_text(trained.folder)
    calibration = read_calibration(trained.folder) if decoding == "trained" else None
    tagger = load_tagger(trained.folder, engine, decoding=decoding) if options.workers == 1 else None
    yield Notice(f"{_describe(trained, domain)} {_describe_scores(calibration, decoding)}")
    schema = engine.on_main(lambda: shared_schema(options) if name == "parquet" else None)
    output_format = OutputFormat(name, tag_set.domains[domain], calibration is not None, schema)
    repairs = Repairs(skips_bad_lines=options.skip_bad_lines)
    output = _open_output(options, trained, engine, output_format, stdout)
    counted = Counted()
    started = time.perf_counter()
    with contextlib.closing(output), _imported_objects_left_alone():
        for note in [*_ending_note(options, name), *output_format.notes, *output.notes]:
            yield Notice(note)
        counted.take_up(output.record)
        pending = read_chunks(options, repairs, stdin, counted.totals.documents)
        tagged = _tag_chunks(pending, trained, tagger, options, engine, output, output_format, calibration)
        with contextlib.closing(tagged):
            yield from _write_all(tagged, output, counted)
        output.finish()
    seconds = time.perf_counter() - started
    for kind, count in repairs.counts.items():
        yield Notice(f"{kind}: {count} (first: {', '.join(repairs.examples[kind])})")
    result = {
        **_describe_tagger(trained, domain, calibration),
        "output": None if output_place(options) is None else str(options.output),
        "format": name,
        **counted.to_record(seconds),
        "repairs": dict(repairs.counts),
        "is_complete": not output.is_closed,
    }
    return _record(options, trained, result, time.perf_counter() - began)


def _describe_tagger(trained: TrainedTagger, domain: str, calibration: Calibration | None) -> dict[str, Any]:
    """What the result tells of the tagger."""
    return {
        "model": trained.label,
        "folder": str(trained.folder),
        "seed": trained.seed,
        "domain": domain,
        "calibrated": calibration is not None,
    }


def _record(options: Predict, trained: TrainedTagger, result: dict[str, Any], seconds: float) -> Manifest:
    """The record of the command, as of a stage."""
    return {
        "stage": COMMAND,
        "name": COMMAND,
        "options": options.record(),
        "inputs": {trained.label: trained.digest},
        "result": result,
        "versions": installed_versions(),
        "seconds": round(seconds, 1),
    }


@contextlib.contextmanager
def _imported_objects_left_alone() -> Iterator[None]:
    """Keep garbage collection off what is there before the work: a pass over it takes a fifth of a second."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _write_all(tagged: Iterator[TaggedChunk], output: Output, counted: Counted) -> Work[None]:
    """Write one tagged chunk after another, and tell how far it is."""
    started = time.perf_counter()
    for chunk in tagged:
        counted.add(chunk)
        output.write(chunk.pieces, counted.to_json())
        rate = counted.new_words / max(1e-9, time.perf_counter() - started)
        totals = counted.totals
        yield Progress(COMMAND, totals.words, None, "words", {"sentences": totals.sentences, "words/s": rate})


def _tag_chunks(
    pending: Iterator[Chunk], trained: TrainedTagger, tagger: Tagger | None, options: Predict, engine: Engine,
    output: Output, output_format: OutputFormat, calibration: Calibration | None,
) -> Generator[TaggedChunk, None, None]:  # fmt: skip
    """Tag chunks in this process, or without a tagger in several, until nobody reads the output any more."""
    if tagger is None:
        given = (options.workers, trained.folder, options, engine.precision, calibration, output_format)
        with TaggingProcesses(*given) as processes:
            for tagged in processes.tag(pending):
                yield tagged
                if output.is_closed:
                    return
        return
    tag_chunk = ChunkTagger(tagger, engine, options, calibration, output_format)
    while chunk := engine.on_main(lambda: None if output.is_closed else next(pending, None)):
        yield tag_chunk(chunk)


def _check(options: Predict, engine: Engine) -> str:
    """Refuse what would only fail after the tagger was loaded; give the name of the output's format."""
    options.refuse_name(COMMAND)
    if options.workers > 1 and (engine.world > 1 or not engine.on_cpu):
        raise CrossNERError(
            f"--workers {options.workers} tag on the CPU, and this would run on {engine.describe()}.",
            hint="Name several GPUs with --gpus 0,1; or several processes on the CPU with --device cpu.",
        )
    check_inputs(options)
    output = output_place(options)
    name = choose_format(options.format, None if output is None else options.output)
    if output is None:
        return name
    if not is_device(output):
        _check_output(output, options, wants_folder=is_folder(name, output))
    elif OutputFormat(name).has_parts:
        raise CrossNERError(f"--format {name} cannot be written to {output}.", hint="Name a file or a folder.")
    return name


def _ending_note(options: Predict, name: str) -> list[str]:
    """Tell of a file whose ending names no format, so that nobody takes JSONL for a table."""
    output = options.output
    if options.format != "auto" or output is None or not output.suffix or output.suffix.lower() in ENDINGS:
        return []
    return [f"{output} is written as {name}: its ending names no format; --format does."]


def _check_output(output: Path, options: Predict, *, wants_folder: bool) -> None:
    """Refuse to write where something else is, or where nothing can be."""
    kind, other = ("folder", "file") if wants_folder else ("file", "folder")
    if output.is_file() if wants_folder else output.is_dir():
        raise CrossNERError(f"--output {output} is a {other}.", hint=f"Name a {kind}, as {output / 'tagged.jsonl'}."
                            if kind == "file" else "Name a folder.")  # fmt: skip
    if output.is_file() and any(path.is_file() and path.samefile(output) for path in options.input):
        raise CrossNERError(f"--output {output} is one of the files to tag.", hint="Name another --output.")
    if output.is_dir() and any(output.resolve() in path.resolve().parents for path in options.input):
        raise CrossNERError(f"--output {output} holds files to tag.", hint="Name another --output.")
    if output.is_dir() and not is_own_folder(output):
        raise CrossNERError(f"{output} holds other files than tagged documents.", hint="Name another --output.")
    if not options.force and (output.is_file() or (output.is_dir() and any(output.iterdir()))):
        raise CrossNERError(f"{output} exists.", hint="--force replaces it; or name another --output.")
    if not output.parent.is_dir():
        raise CrossNERError(f"There is no folder {output.parent} to write {output.name} into.",
                            hint=f"mkdir -p {shlex.quote(str(output.parent))}")  # fmt: skip


def _describe(trained: TrainedTagger, domain: str) -> str:
    dev = "" if trained.dev_f1 is None else f", dev F1 {trained.dev_f1:.2f}"
    types = ", ".join(read_types(trained.folder, domain))
    return f"Tagging with {figures.with_seed(trained.label, trained.seed)}{dev}: the types of {domain} ({types})."


def _describe_scores(calibration: Calibration | None, decoding: Decoding) -> str:
    if calibration is not None:
        return f"Scores are calibrated on {calibration.entities:,} entities predicted on dev."
    if decoding != "trained":
        return "Scores are not calibrated: the tagger was not trained to decode so."
    return "Scores are not calibrated: the tagger found no entity in dev to fit them to, or is of an older version."


def _open_output(
    options: Predict, trained: TrainedTagger, engine: Engine, output_format: OutputFormat, stdout: BinaryIO | None
) -> Output:
    """Open the output on the main process; the others get one that takes everything and writes nothing."""
    opened: list[Output] = []
    engine.on_main(lambda: opened.append(_open(options, trained, engine, output_format, stdout)))
    return opened[0] if opened else Stream(None, output_format)


def _open(
    options: Predict, trained: TrainedTagger, engine: Engine, output_format: OutputFormat, stdout: BinaryIO | None
) -> Output:
    path = output_place(options)
    if path is None:
        return Stream(stdout or sys.stdout.buffer, output_format)
    if is_device(path):  # it has no other name to be written under
        return Stream(path.open("wb"), output_format, is_own=True)
    made_by = _made_by(options, trained, engine, output_format)
    return Draft(path, output_format, made_by, is_forced=options.force)


def _made_by(
    options: Predict, trained: TrainedTagger, engine: Engine, output_format: OutputFormat
) -> dict[str, Any] | None:
    """What the bytes of the output depend on; None where the input cannot be read again."""
    if not can_be_continued(options):
        return None
    asked = {name: value for name, value in options.record().items() if name not in BESIDE_THE_BYTES}
    inputs = {
        f"input {number}": f"{digest_file(path)[:16]} as {input_format_of(options, path)}"
        for number, path in enumerate(options.input, start=1)
    }
    return {
        **asked, "format": output_format.name, "model": trained.digest[:16], "seed of the model": trained.seed,
        "precision": engine.precision, "device": engine.device.type, "version": __version__, **inputs,
    }  # fmt: skip
