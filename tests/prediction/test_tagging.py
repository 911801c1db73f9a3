"""Chunks are tagged in this process or in several: the same results, in the order of the input."""

import json
import multiprocessing
import os
import random
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.documents import write_document
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.documents import Document, Totals, document_of_words
from crossner_cli.data.formats.writer import Writer
from crossner_cli.errors import CrossNERError
from crossner_cli.prediction import tagging as module
from crossner_cli.prediction.inputs import Chunk
from crossner_cli.prediction.tagging import PredictionJob, TaggedChunk, tag_in_processes, to_tagged_document
from crossner_cli.taggers.sources import TrainedTagger
from crossner_cli.taggers.tagging import Tagged

TAGGING = PredictionJob([TrainedTagger("tagger", Path("tagger"), "")], Writer())


def test_tags_that_cannot_follow_are_repaired_and_counted() -> None:
    document = document_of_words(["a", "bc", "d", "e"])
    found = Tagged(("I-x", "I-x", "I-y", "O"), (0.9, 0.5, 0.75, 1.0))
    tagged = to_tagged_document(document, [found], "bio")
    assert tagged.tags == [["B-x", "I-x", "B-y", "O"]]
    assert tagged.repaired == 2
    assert tagged.entities == [
        {"start": 0, "end": 4, "type": "x", "text": "a bc", "score": 0.5},
        {"start": 5, "end": 6, "type": "y", "text": "d", "score": 0.75},
    ]
    bioes = to_tagged_document(document, [Tagged(("S-x", "B-x", "I-x", "E-x"), (1.0, 0.9, 0.8, 0.7))], "bioes")
    assert bioes.tags == [["B-x", "B-x", "I-x", "I-x"]] and bioes.repaired == 0


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6), max_size=8))
def test_offsets_point_to_the_words_of_any_document(words: list[str]) -> None:
    document = document_of_words(words)
    assert document.text == " ".join(words)
    for sentence in document.sentences:
        assert [document.text[word.start : word.end] for word in sentence] == words
        tagged = to_tagged_document(document, [Tagged(("B-x",) * len(words), (0.5,) * len(words))], "bio")
        assert [entity["text"] for entity in json.loads(write_document("jsonl", tagged))["entities"]] == words
        assert write_document("conll", tagged).count("\n") == len(words) + 1


def follow_document(chunk: Chunk) -> TaggedChunk:
    """Do what the text of a document says, in the place of a tagger."""
    text = chunk.documents[0].text
    if text == "end":
        os._exit(9)
    if text == "problem":
        raise CrossNERError("It is broken.", hint="Mend it.")
    time.sleep(random.Random(os.getpid()).random() / 200)
    return TaggedChunk([(str(os.getpid()), text.encode() * 200_000)], Totals(documents=chunk.first))


def chunks(count: int, **texts: str) -> Iterator[Chunk]:
    for number in range(count):
        yield Chunk(number + 1, [Document(texts.get(f"at{number}", "x"), [])])


class TestSeveralProcesses:
    @pytest.fixture(autouse=True)
    def _stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let processes start fast and tag nothing."""
        forked = multiprocessing.get_context("fork")
        monkeypatch.setattr(module.multiprocessing, "get_context", lambda kind: forked)
        monkeypatch.setattr(module, "ChunkTagger", lambda tagging, engine: follow_document)

    def tag(self, given: Iterator[Chunk], count: int = 2) -> Any:
        return tag_in_processes(given, TAGGING, int, count)  # type: ignore[arg-type]

    @pytest.mark.parametrize(("count", "made"), [(1, 7), (3, 20), (4, 2), (2, 0)])
    def test_results_come_in_the_order_of_the_chunks(self, count: int, made: int) -> None:
        found = list(self.tag(chunks(made), count))
        assert [each.totals.documents for each in found] == list(range(1, made + 1))
        assert len({each.pieces[0][0] for each in found}) <= count
        assert not multiprocessing.active_children()

    def test_few_chunks_are_read_ahead(self) -> None:
        read: list[int] = []

        def watched() -> Iterator[Chunk]:
            for chunk in chunks(50):
                read.append(chunk.first)
                yield chunk

        for position, _ in enumerate(self.tag(watched())):
            assert len(read) <= position + 2 * module.CHUNKS_PER_PROCESS

    def test_a_process_that_ends_is_reported(self) -> None:
        with pytest.raises(CrossNERError, match="ended unexpectedly") as caught:
            list(self.tag(chunks(9, at3="end")))
        assert "--workers" in caught.value.hint

    def test_a_problem_in_a_process_is_reported_with_its_way_out(self) -> None:
        with pytest.raises(CrossNERError, match="It is broken") as caught:
            list(self.tag(chunks(9, at3="problem")))
        assert caught.value.hint == "Mend it."

    def test_a_problem_of_the_input_comes_after_the_results_before_it(self) -> None:
        def broken() -> Iterator[Chunk]:
            yield from chunks(5)
            raise CrossNERError("Line 6 is broken.")

        found = []
        with pytest.raises(CrossNERError, match="Line 6"):
            for each in self.tag(broken()):
                found.append(each.totals.documents)
        assert found == [1, 2, 3, 4, 5]

    def test_stopping_early_ends_the_processes(self) -> None:
        work = self.tag(chunks(50))
        next(work)
        began = time.monotonic()
        work.close()
        while multiprocessing.active_children() and time.monotonic() - began < 50:
            time.sleep(0.01)
        assert time.monotonic() - began < 50

    def test_a_process_ends_when_the_main_one_is_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reading, writing = os.pipe()

        def say_so_and_wait(chunk: Chunk) -> TaggedChunk:
            os.write(writing, b"x")
            time.sleep(600)
            raise AssertionError

        monkeypatch.setattr(module, "ChunkTagger", lambda tagging, engine: say_so_and_wait)
        main = module.multiprocessing.get_context("fork").Process(target=lambda: list(self.tag(chunks(1))))
        main.start()
        os.close(writing)
        assert os.read(reading, 1) == b"x"
        main.kill()
        main.join()
        ready, _, _ = select.select([reading], [], [], 30)
        assert ready and os.read(reading, 1) == b"", "nobody holds the pipe any more"
        os.close(reading)
