"""Several processes tag: results in the order of the input, few at a time, every end told."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crossner_cli.data.documents import Document
from crossner_cli.data.tags import TagSet
from crossner_cli.data.text import segment
from crossner_cli.encoders.transformer import load_encoder
from crossner_cli.engine.devices import start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.options import Predict
from crossner_cli.prediction import processes as module
from crossner_cli.prediction.formats import OutputFormat
from crossner_cli.prediction.processes import Chunk, TaggedChunk, TaggingProcesses
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import exhaust
from crossner_cli.stages.predict import run as predict
from crossner_cli.taggers.calibration import Calibration
from crossner_cli.taggers.folder import save_tagger

WORK = module._work


def answer(connection: Any, *given: Any) -> None:
    """Stands for the work of a process: fast, in an order of its own, and it does what a document says."""
    generator = random.Random(os.getpid())
    while True:
        try:
            chunk = connection.recv()
        except EOFError:
            return
        text = chunk.documents[0].text
        if text == "end":
            os._exit(9)
        if text == "problem":
            connection.send(("It is broken.", "Mend it."))
            return
        time.sleep(generator.random() / 200)
        connection.send(TaggedChunk([(str(os.getpid()), text.encode() * 200_000)], {"first": chunk.first}, {}))


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are made fast and tag nothing."""
    # What is made anew holds no other end of a pipe open, so that it learns when the main process is gone.
    contexts = {"spawn": multiprocessing.get_context("fork")}
    monkeypatch.setattr(module.multiprocessing, "get_context", lambda kind: contexts[kind])
    monkeypatch.setattr(module, "_work", answer)


def processes(count: int) -> TaggingProcesses:
    return TaggingProcesses(count, Path("tagger"), Predict(threads=1), "fp32", None, OutputFormat("jsonl"))


def chunks(count: int, **texts: str) -> Iterator[Chunk]:
    for number in range(count):
        yield Chunk(number + 1, [Document(texts.get(f"at{number}", "x"), [])])


@pytest.mark.parametrize(("count", "made"), [(1, 7), (3, 20), (4, 2), (2, 0)])
def test_results_come_in_the_order_of_the_chunks(count: int, made: int) -> None:
    with processes(count) as taggers:
        found = list(taggers.tag(chunks(made)))
        children = list(taggers._processes.values())
    assert [each.totals["first"] for each in found] == list(range(1, made + 1))
    assert len({each.pieces[0][0] for each in found}) <= len(children) <= min(count, made)
    assert not any(child.is_alive() for child in children)


def test_only_a_few_chunks_are_read_ahead() -> None:
    read: list[int] = []

    def watched() -> Iterator[Chunk]:
        for chunk in chunks(50):
            read.append(chunk.first)
            yield chunk

    with processes(2) as taggers:
        for position, _ in enumerate(taggers.tag(watched())):
            assert len(read) <= position + 2 * module.AHEAD + 1


def test_a_process_that_ends_is_told() -> None:
    with processes(2) as taggers, pytest.raises(CrossNERError, match="ended with exit status 9") as caught:
        list(taggers.tag(chunks(9, at3="end")))
    assert "--workers" in caught.value.hint


def test_a_problem_of_a_process_is_told() -> None:
    with processes(2) as taggers, pytest.raises(CrossNERError, match="It is broken") as caught:
        list(taggers.tag(chunks(9, at3="problem")))
    assert caught.value.hint == "Mend it."


def test_a_problem_of_the_input_comes_behind_the_results_before_it() -> None:
    def broken() -> Iterator[Chunk]:
        yield from chunks(5)
        raise CrossNERError("Line 6 is broken.")

    found = []
    with processes(2) as taggers, pytest.raises(CrossNERError, match="Line 6"):
        for each in taggers.tag(broken()):
            found.append(each.totals["first"])
    assert found == [1, 2, 3, 4, 5]


def test_a_process_ends_when_the_main_one_is_gone(
    tiny_encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.signal, "signal", lambda *given: None)
    encoder, _ = load_encoder(str(tiny_encoder_folder))
    save_tagger(LinearTagger(encoder, TagSet({"news": ("person",)}), LinearTagger.Hyperparameters()), tmp_path)
    ours, theirs = multiprocessing.Pipe()
    ours.close()
    WORK(theirs, tmp_path, Predict(device="cpu", threads=1), None, OutputFormat("jsonl"))


def test_what_a_process_is_given_can_be_sent_to_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pytest.importorskip("pyarrow").schema([("id", "int64")])
    output_format = OutputFormat("parquet", ("person",), True, schema)
    given = Predict(input=[Path("in.txt")], gpus="0", device="auto")
    monkeypatch.setattr(module, "default_threads", lambda: 8)
    sent = TaggingProcesses(3, Path("tagger"), given, "bf16", Calibration(0.5, 0.1, 9, 5), output_format)._given
    folder, options, calibration, found = pickle.loads(pickle.dumps(sent))
    assert (folder, calibration, found) == (Path("tagger"), Calibration(0.5, 0.1, 9, 5), output_format)
    assert (options.device, options.gpus, options.threads, options.precision) == ("cpu", None, 2, "bf16")
    chunk = Chunk(1, [Document("Anna", segment("Anna"), {"id": 1})])
    assert pickle.loads(pickle.dumps(chunk)) == chunk


def test_processes_are_for_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = start_engine(Predict(device="cpu", threads=1))
    monkeypatch.setattr(type(engine), "on_cpu", False)
    with pytest.raises(CrossNERError, match="--workers 2 tag on the CPU") as caught:
        exhaust(predict(RunDirectory(tmp_path), Predict(workers=2), engine))
    assert "--gpus 0,1" in caught.value.hint
