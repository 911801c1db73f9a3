"""Tagging of chunks of documents, and writing as bytes, by this process or by several on the CPU."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, NamedTuple

from crossner_cli.data.documents import Document, TaggedDocument, Totals
from crossner_cli.data.formats.writer import Piece, Writer
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, Scheme, Span, illegal_positions, to_spans, to_tags
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger
from crossner_cli.prediction.inputs import Chunk
from crossner_cli.taggers.ensemble import Ensemble
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.sources import TrainedTagger
from crossner_cli.taggers.tagging import Calibration, Tagged, count_unread, score_entity, tag
from crossner_cli.taggers.thresholds import LeastScores

# Chunks handed out per process: one that it tags and one that waits for it.
CHUNKS_PER_PROCESS = 2
MOST_PATIENCE = 10.0  # seconds


@dataclass(frozen=True)
class PredictionJob:
    """The tagger and the writer of a prediction, as plain values that can be sent to another process.

    Several taggers tag together, as an ``Ensemble`` does. Without ``calibration`` scores stay as they are. Entities
    that ``least`` does not keep are left out. ``batch_subwords`` are read at once; None is the engine's default.
    """

    trained: Sequence[TrainedTagger]
    writer: Writer
    decoding: Literal["trained", "legal", "any"] = "trained"
    calibration: Calibration | None = None
    least: LeastScores = LeastScores()
    batch_subwords: int | None = None


class TaggedChunk(NamedTuple):
    """The bytes to write for a chunk, and the counts of its documents."""

    pieces: list[Piece]
    totals: Totals


class ChunkTagger:
    """Tag one chunk after another.

    Each process of the engine is given the same chunks; only the main one returns bytes.
    """

    def __init__(self, tagging: PredictionJob, engine: Engine) -> None:
        self.tagging, self.engine = tagging, engine
        self.tagger: Tagger  # the first of several
        self._tag: Callable[[Sequence[Sentence]], list[Tagged]]
        first, *others = tagging.trained
        if others:
            ensemble = Ensemble(tagging.trained, engine, "--model", tagging.batch_subwords)
            self.tagger, self._tag = ensemble.taggers[0], ensemble.tag
        else:
            self.tagger = load_tagger(first.folder, engine, decoding=tagging.decoding)
            self._tag = partial(tag, self.tagger, engine=engine, batch_subwords=tagging.batch_subwords)
        self.domain = self.tagger.domain_of_new_text
        self._before: dict[str, int] = {}

    def __call__(self, chunk: Chunk) -> TaggedChunk:
        """Tag the documents of a chunk and write them as bytes."""
        totals, written = Totals(), list(enumerate(self.tag(chunk.documents), start=chunk.first))
        for _, tagged in written:
            totals.add(tagged)
        pieces = self.tagging.writer.write(written, totals) if written and self.engine.is_main else []
        counts = count_unread(self.tagger, self.engine)
        totals.reading.update({name: count - self._before.get(name, 0) for name, count in counts.items()})
        self._before = counts
        return TaggedChunk(pieces, totals)

    def tag(self, documents: Sequence[Document]) -> list[TaggedDocument]:
        """Tag documents, their sentences batched together by length."""
        sentences = [
            Sentence(tuple([word.text for word in words]), None, self.domain)
            for document in documents
            for words in document.sentences
        ]
        found = iter(self._tag(sentences))
        scheme, calibration, least = self.tagger.tag_set.scheme, self.tagging.calibration, self.tagging.least
        return [
            to_tagged_document(document, [next(found) for _ in document.sentences], scheme, calibration, least)
            for document in documents
        ]


def to_tagged_document(
    document: Document,
    found: Sequence[Tagged],
    scheme: Scheme,
    calibration: Calibration | None = None,
    least: LeastScores | None = None,
) -> TaggedDocument:
    """Put the tags of a document's sentences together, and find the entities in its text that are not left out."""
    tags: list[Sequence[str]] = []
    entities: list[dict[str, Any]] = []
    repaired = unsure = 0
    for words, tagged in zip(document.sentences, found, strict=True):
        if tagged.tags.count(OUTSIDE) == len(words):
            tags.append(tagged.tags)
            continue
        repaired += len(illegal_positions(tagged.tags, scheme))
        kept: list[Span] = []
        for span in to_spans(tagged.tags):
            start, end, own = words[span.start].start, words[span.end - 1].end, score_entity(tagged, span)
            score = round(own if calibration is None else calibration(own), 4)
            if least is not None and not least.keep(span.type, score, own):
                unsure += 1
                continue
            kept.append(span)
            entity = {"start": start, "end": end, "type": span.type, "text": document.text[start:end]}
            entities.append(entity | {"score": score})
        tags.append(to_tags(kept, len(words)))
    lowest = min(itertools.chain.from_iterable(tagged.probabilities for tagged in found), default=1.0)
    return TaggedDocument(document, tags, entities, repaired, round(lowest, 4), unsure)


def tag_in_processes(
    chunks: Iterator[Chunk], tagging: PredictionJob, make_engine: Callable[[], Engine], count: int
) -> Generator[TaggedChunk, None, None]:
    """Tag chunks in several processes; results come in the order of the chunks.

    Chunks are read as processes become free, so that few are in memory.

    Raises:
        CrossNERError: A process failed or ended. A problem of the input is raised after the results of the chunks
            before it.
    """
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, context, initializer=_prepare_process, initargs=(tagging, make_engine))
    waiting: deque[Future[TaggedChunk]] = deque()
    problems: list[CrossNERError] = []

    def read_until_problem() -> Iterator[Chunk]:
        try:
            yield from chunks
        except CrossNERError as error:
            problems.append(error)

    try:
        for chunk in read_until_problem():
            waiting.append(pool.submit(_tag_in_process, chunk))
            if len(waiting) == CHUNKS_PER_PROCESS * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        pool.shutdown()
    except BrokenProcessPool:
        raise CrossNERError(
            "A process that was tagging ended unexpectedly.",
            hint="If the memory was full, use fewer --workers or a smaller --batch-subwords.",
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        # Processes end after the chunks that they have. One that is killed while it sends a result leaves this process
        # waiting for the rest of it, so only those that do not end are killed.
        patience = time.monotonic() + MOST_PATIENCE
        for process in set(multiprocessing.active_children()) - others:
            process.join(max(0.0, patience - time.monotonic()))
            process.kill()
            process.join()
    if problems:
        raise problems[0]


_get_chunk_tagger: Callable[[], ChunkTagger]


def _prepare_process(tagging: PredictionJob, make_engine: Callable[[], Engine]) -> None:
    """Prepare a tagging process."""
    global _get_chunk_tagger
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the main one ends the others
    threading.Thread(target=_end_with_main_process, daemon=True).start()
    # The tagger is loaded with the first chunk: a problem can be returned from there, but not from here.
    _get_chunk_tagger = cache(lambda: ChunkTagger(tagging, make_engine()))


def _end_with_main_process() -> None:
    """End this process when the main one was killed: else it would wait for its queue forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _tag_in_process(chunk: Chunk) -> TaggedChunk:
    return _get_chunk_tagger()(chunk)
