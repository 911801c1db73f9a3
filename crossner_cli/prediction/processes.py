"""Chunks of documents tagged and written as bytes, by this process or by several, in the order of the input."""

from __future__ import annotations

import dataclasses
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from crossner_cli.data.documents import Document
from crossner_cli.engine.devices import Engine, default_threads, start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger
from crossner_cli.methods.multi_task import domain_of_new_text
from crossner_cli.options import Predict
from crossner_cli.prediction.chunks import Totals, tag_documents
from crossner_cli.prediction.formats import OutputFormat, Piece
from crossner_cli.prediction.place import can_be_continued
from crossner_cli.taggers.calibration import Calibration
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.tagging import count_unread

# Chunks that may be finished before one that is still being tagged, for each process.
AHEAD = 2


class Chunk(NamedTuple):
    """Documents to tag, and the number of the first one, from 1."""

    first: int
    documents: Sequence[Document]


class TaggedChunk(NamedTuple):
    """What is written of a chunk, what is in it, and how often what in it could not be read."""

    pieces: list[Piece]
    totals: dict[str, Any]
    reading: dict[str, int]


class ChunkTagger:
    """Tags and writes one chunk after another.

    Args:
        tagger: With what.
        engine: Where; every process of it is given the same chunks.
        options: How many subwords at once, and which documents are written.
        calibration: What makes probabilities of scores.
        output_format: What tagged documents are written as.
    """

    def __init__(
        self, tagger: Tagger, engine: Engine, options: Predict, calibration: Calibration | None,
        output_format: OutputFormat,
    ) -> None:  # fmt: skip
        self.tagger, self.engine, self.options = tagger, engine, options
        self.calibration, self.format = calibration, output_format
        self.domain = domain_of_new_text(tagger.tag_set, vars(tagger.hyper))
        self._before: dict[str, int] = {}

    def __call__(self, chunk: Chunk) -> TaggedChunk:
        """Tag and write one chunk."""
        tagged = tag_documents(
            self.tagger, chunk.documents, self.engine, domain=self.domain, batch_subwords=self.options.batch_subwords,
            calibration=self.calibration,
        )  # fmt: skip
        totals, written = Totals(), []
        for number, each in enumerate(tagged, start=chunk.first):
            is_sure = each.is_sure(self.options.min_score)
            totals.add(each, is_written=is_sure)
            if is_sure:
                written.append((number, each))
        pieces = self.format.write(written, totals) if written and self.engine.is_main else []
        counts = count_unread(self.tagger, self.engine)
        new = {name: count - self._before.get(name, 0) for name, count in counts.items()}
        self._before = counts
        return TaggedChunk(pieces, totals.to_json(), new)


class TaggingProcesses:
    """Several processes on the CPU, started as chunks come, ended on leaving the ``with`` block.

    Args:
        count: How many at most. Without ``--threads`` each takes its share of the cores.
        folder: The tagger's folder, which each reads.
        options: As the command was given.
        precision: Of the numbers, resolved.
        calibration: What makes probabilities of scores.
        output_format: What tagged documents are written as.
    """

    def __init__(
        self, count: int, folder: Path, options: Predict, precision: str, calibration: Calibration | None,
        output_format: OutputFormat,
    ) -> None:  # fmt: skip
        threads = options.threads or max(1, default_threads() // count)
        changes: dict[str, Any] = {"device": "cpu", "gpus": None, "threads": threads, "precision": precision}
        self.count = count
        self._given = (folder, dataclasses.replace(options, **changes), calibration, output_format)
        self._processes: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> TaggingProcesses:
        return self

    def __exit__(self, *reason: object) -> None:
        for connection, process in self._processes.items():
            connection.close()
            process.terminate()
            process.join()

    def tag(self, chunks: Iterator[Chunk]) -> Iterator[TaggedChunk]:
        """Tag chunks, a few at a time; results come in the order of the chunks.

        Raises:
            CrossNERError: A process met a problem, or ended; or the chunks end in a problem, which is told behind the
                results of those before it.
        """
        upcoming, problem = _next(chunks)
        busy: dict[Connection, int] = {}
        done: dict[int, TaggedChunk] = {}
        sent = turn = 0
        while True:
            while upcoming is not None and sent - turn < AHEAD * self.count and len(busy) < self.count:
                connection = self._free(busy)
                self._send(connection, upcoming)
                busy[connection] = sent
                sent += 1
                upcoming, problem = _next(chunks)
            if turn in done:
                yield done.pop(turn)
                turn += 1
            elif busy:
                for connection in self._answered(busy):
                    done[busy.pop(connection)] = self._receive(connection)
            elif problem is not None:
                raise problem
            else:
                return

    def _free(self, busy: dict[Connection, int]) -> Connection:
        """A process without work, made if there is none."""
        for connection in self._processes:
            if connection not in busy:
                return connection
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, *self._given), daemon=True)
        process.start()
        theirs.close()
        self._processes[ours] = process
        return ours

    def _answered(self, busy: dict[Connection, int]) -> list[Connection]:
        ready = set(wait(list(busy)))
        return [connection for connection in busy if connection in ready]

    def _send(self, connection: Connection, chunk: Chunk) -> None:
        try:
            connection.send(chunk)
        except OSError:
            raise self._ended(connection) from None

    def _ended(self, connection: Connection) -> CrossNERError:
        process = self._processes[connection]
        process.join()
        return CrossNERError(
            f"A process that was tagging ended with exit status {process.exitcode}.",
            hint="If memory was short: fewer --workers, or a smaller --batch-subwords."
            + (" The same command continues." if can_be_continued(self._given[1]) else ""),
        )

    def _receive(self, connection: Connection) -> TaggedChunk:
        try:
            found = connection.recv()
        except (EOFError, OSError):
            raise self._ended(connection) from None
        if isinstance(found, TaggedChunk):
            return found
        problem, hint = found
        raise CrossNERError(problem, hint=hint)


def _next(chunks: Iterator[Chunk]) -> tuple[Chunk | None, CrossNERError | None]:
    """The next chunk, or none and what came instead."""
    try:
        return next(chunks, None), None
    except CrossNERError as problem:
        return None, problem


def _work(
    connection: Connection, folder: Path, options: Predict, calibration: Calibration | None, output_format: OutputFormat
) -> None:
    """Tag what comes until nothing comes any more: the life of one process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells all processes; the main one ends the others
    try:
        engine = start_engine(options)
        tagger = load_tagger(folder, engine, decoding=options.decoding)
        work = ChunkTagger(tagger, engine, options, calibration, output_format)
        while True:
            connection.send(work(connection.recv()))
    except CrossNERError as error:
        connection.send((error.problem, error.hint))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the main process has ended, in whatever way
