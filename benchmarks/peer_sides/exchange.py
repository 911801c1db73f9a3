"""The request to a side and its answer, as JSON files; for Python environments that know nothing of crossner."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPLITS = ("train", "dev", "test")
OUTSIDE = "O"
KILOBYTES = 1024  # of a megabyte; Linux counts memory in kilobytes


@dataclass(frozen=True)
class Sentence:
    """Words with a BIO tag each."""

    words: list[str]
    tags: list[str]


@dataclass(frozen=True)
class Request:
    """A request to a side.

    Args:
        data: Folder of the files ``train.jsonl``, ``dev.jsonl`` and ``test.jsonl``.
        folder: For the files of the side.
        encoder: Folder of the encoder.
        seed: Of all random choices.
        threads: CPU threads.
        learning_rate: Peak; None is the tool's default.
        epochs: Passes over the training sentences, of which the best on dev is kept; None is the tool's default.
        updates: Most updates; None is all of them.
        run: Run directory with prepared data, for crossner alone.
    """

    data: str
    folder: str
    encoder: str
    seed: int
    threads: int
    learning_rate: float | None = None
    epochs: int | None = None
    updates: int | None = None
    run: str = ""

    def given(self, **names: str) -> dict[str, Any]:
        """The arguments of a tool for what is not left to its defaults: the tool's name of each field."""
        found = {theirs: getattr(self, ours) for ours, theirs in names.items()}
        return {name: value for name, value in found.items() if value is not None}


Data = dict[str, list[Sentence]]
Tag = Callable[[list[list[str]]], list[list[str]]]
Train = Callable[[Request, Data], Tag]


def answer(train: Train) -> None:
    """Train and tag as the file named first on the command line asks, and write the record to the one named second."""
    request = Request(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    data = {split: read_sentences(Path(request.data) / f"{split}.jsonl") for split in SPLITS}
    Path(sys.argv[2]).write_text(json.dumps(measure(train, request, data)), encoding="utf-8")


def read_sentences(path: Path) -> list[Sentence]:
    """Read one sentence a line."""
    with path.open(encoding="utf-8") as stream:
        records = [json.loads(line) for line in stream]
    return [Sentence(record["words"], record["tags"]) for record in records]


def measure(train: Train, request: Request, data: Data) -> dict[str, Any]:
    """Train, tag dev and then test, whose time counts: what is done only once is done by then.

    Time is that of the processor, which other work on the machine does not change much.
    """
    began = time.process_time()
    tag = train(request, data)
    training_seconds = time.process_time() - began
    words = {split: [sentence.words for sentence in data[split]] for split in ("dev", "test")}
    dev = tag(words["dev"])
    began = time.process_time()
    test = tag(words["test"])
    seconds = time.process_time() - began
    return {
        "training_seconds": training_seconds,
        "words_per_second": sum(map(len, words["test"])) / seconds,
        "megabytes": peak_megabytes(),
        "dev": dev,
        "test": test,
    }


def peak_megabytes() -> int:
    """The most memory that this process ever had."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    # On Linux getrusage counts the memory of the process that started this one, too.
    known = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return (known or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss])[0] // KILOBYTES


def to_spans(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """First word, word behind the last one, and type of each entity of BIO tags."""
    starts = [place for place, tag in enumerate(tags) if tag.startswith("B-")]
    spans = []
    for start in starts:
        end = start + 1
        while end < len(tags) and tags[end].startswith("I-"):
            end += 1
        spans.append((start, end, tags[start][2:]))
    return spans


def to_tags(length: int, spans: Iterable[tuple[int, int, str]]) -> list[str]:
    """BIO tags of a sentence with these entities."""
    tags = [OUTSIDE] * length
    for start, end, name in spans:
        tags[start:end] = [f"B-{name}", *[f"I-{name}"] * (end - start - 1)]
    return tags


def names_of(sentences: Sequence[Sentence]) -> list[str]:
    """All tags of the sentences, in the order of the alphabet."""
    return sorted({OUTSIDE, *(tag for sentence in sentences for tag in sentence.tags)})
