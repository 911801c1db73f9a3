"""``crossner predict``: tag new text, from files or stdin to a file or stdout."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from crossner_cli.documents import Document, read_documents
from crossner_cli.engine import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods import Tagger
from crossner_cli.options import Predict
from crossner_cli.prediction import Totals, chunks, tag_documents, to_conll, to_jsonl
from crossner_cli.progress import Notice, Progress, Work
from crossner_cli.readers import Repairs, open_binary
from crossner_cli.run_directory import Manifest, RunDirectory, flush_folder
from crossner_cli.tagger_folder import load_tagger
from crossner_cli.tagging import reading_counts
from crossner_cli.trained_taggers import TrainedTagger, best_on_dev, find_taggers
from crossner_cli.versions import versions

COMMAND = "predict"
STDIN = "-"


class Output:
    """Where tagged documents go.

    A file is written under another name and renamed when complete, so that it is whole or not there. A reader of
    stdout may go away at any time: then ``is_closed`` is true and nothing more is written.
    """

    def __init__(self, stream: BinaryIO | None) -> None:
        self.stream = stream
        self.is_closed = False

    def write(self, text: str) -> None:
        """Write and flush; nothing on a process that has no stream."""
        if self.stream is None or self.is_closed:
            return
        try:
            self._write(text.encode())
        except BrokenPipeError:
            self.is_closed = True
            _point_to_nowhere(self.stream)

    def _write(self, data: bytes) -> None:
        assert self.stream is not None
        self.stream.write(data)
        self.stream.flush()


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
    engine.first(lambda: _check(options))
    trained = best_on_dev(find_taggers(run, [options.model] if options.model else [], wanted_by=COMMAND))
    tagger = load_tagger(trained.folder, engine, decoding=options.decoding)
    yield Notice(_describe(trained, tagger))
    totals, repairs = Totals(), Repairs()
    pending = chunks(_read_all(options, repairs, stdin))
    started = time.perf_counter()
    with _open_output(options, engine, stdout) as output, _imported_objects_left_alone():
        yield from _tag_all(pending, tagger, options, engine, output, totals)
    seconds = time.perf_counter() - started
    for kind, count in repairs.counts.items():
        yield Notice(f"{kind}: {count} (first: {repairs.examples[kind][0]})")
    result = {
        "model": trained.label,
        "folder": str(trained.folder),
        "seed": trained.seed,
        "domain": _domain(tagger),
        "output": None if options.output is None else str(options.output),
        **dataclasses.asdict(totals),
        "entities": dict(totals.entities.most_common()),
        "repairs": dict(repairs.counts),
        **reading_counts(tagger, engine),
        "is_complete": not output.is_closed,
        "seconds": round(seconds, 2),
        "words_per_second": round(totals.words / max(seconds, 1e-9)),
    }
    return {
        "stage": COMMAND,
        "name": options.name or COMMAND,
        "options": options.record(),
        "inputs": {trained.label: trained.digest},
        "result": result,
        "versions": versions(),
        "seconds": round(time.perf_counter() - began, 1),
    }


@contextlib.contextmanager
def _imported_objects_left_alone() -> Iterator[None]:
    """Keep garbage collection off what is there before the work: a pass over it takes a fifth of a second."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _tag_all(
    pending: Iterator[list[Document]], tagger: Tagger, options: Predict, engine: Engine, output: Output, totals: Totals
) -> Work[None]:
    """Tag and write one chunk after another, until the input ends or nobody reads the output any more."""
    domain, started = _domain(tagger), time.perf_counter()
    while documents := engine.first(lambda: [] if output.is_closed else next(pending, [])):
        tagged = tag_documents(tagger, documents, engine, domain=domain, batch_subwords=options.batch_subwords)
        for each in tagged:
            totals.add(each)
        output.write(
            "".join(to_jsonl(each) if options.format == "jsonl" else to_conll(each, totals) for each in tagged)
        )
        rate = totals.words / max(1e-9, time.perf_counter() - started)
        yield Progress(COMMAND, totals.words, None, "words", {"sentences": totals.sentences, "words/s": rate})


def _domain(tagger: Tagger) -> str:
    """Whose types are looked for: the target's, which stands first."""
    return next(iter(tagger.tag_set.domains))


def _check(options: Predict) -> None:
    """Refuse what would only fail after the tagger was loaded."""
    for path in options.input:
        if str(path) != STDIN:
            open_binary(path).close()
    if sum(str(path) == STDIN for path in options.input) > 1:
        raise CrossNERError("stdin (-) is named more than once.", hint="Name it once; it can be read once.")
    output = options.output
    if output is None:
        return
    if output.is_dir():
        raise CrossNERError(f"--output {output} is a folder.", hint=f"Name a file, as {output / 'tagged.jsonl'}.")
    if output.is_file() and any(path.is_file() and path.samefile(output) for path in options.input):
        raise CrossNERError(f"--output {output} is one of the files to tag.", hint="Name another --output.")
    if output.is_file() and not options.force:
        raise CrossNERError(f"{output} exists.", hint="--force replaces it; or name another --output.")
    if not output.parent.is_dir():
        raise CrossNERError(f"There is no folder {output.parent} to write {output.name} into.",
                            hint=f"mkdir -p {output.parent}")  # fmt: skip


def _describe(trained: TrainedTagger, tagger: Tagger) -> str:
    seed = "" if trained.seed is None else f", seed {trained.seed}"
    dev = "" if trained.dev_f1 is None else f", dev F1 {trained.dev_f1:.2f}"
    domain = _domain(tagger)
    types = ", ".join(tagger.tag_set.domains[domain])
    return f"Tagging with {trained.label}{seed}{dev}: the types of {domain} ({types})."


def _read_all(options: Predict, repairs: Repairs, stdin: BinaryIO | None) -> Iterator[Document]:
    """The documents of every input, one after another."""
    input_format = None if options.input_format == "auto" else options.input_format
    for path in options.input or [Path(STDIN)]:
        if str(path) == STDIN:
            yield from read_documents(stdin or _own_stdin(), "stdin", repairs, input_format=input_format)
            continue
        with open_binary(path) as stream:
            yield from read_documents(stream, str(path), repairs, input_format=input_format)


def _own_stdin() -> BinaryIO:
    if sys.stdin is None:  # closed by whoever started this process
        raise CrossNERError("There is no stdin to read from.", hint="Name the files to tag.")
    return sys.stdin.buffer


@contextlib.contextmanager
def _open_output(options: Predict, engine: Engine, stdout: BinaryIO | None) -> Iterator[Output]:
    """Open the output on the main process; the others get one that takes everything and writes nothing."""
    path = options.output
    if not engine.is_main:
        yield Output(None)
    elif path is None:
        yield Output(stdout or sys.stdout.buffer)
    elif path.exists() and not path.is_file():  # a pipe or a device has no other name to be written under
        with path.open("wb") as stream:
            yield Output(stream)
    else:
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with draft.open("wb") as stream:
                yield Output(stream)
                os.fsync(stream.fileno())
            draft.replace(path)
            flush_folder(path.parent)
        finally:
            draft.unlink(missing_ok=True)


def _point_to_nowhere(stream: BinaryIO) -> None:
    """Let what is still buffered go nowhere, or Python would try to write it again when it ends."""
    with contextlib.suppress(OSError, ValueError):  # not every stream has a descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
