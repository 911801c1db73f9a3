"""Scoring predictions: all of ``evaluate --fine-grained`` with its files, and seqeval's report beside it.

python benchmarks/scoring.py [--sentences 100000]

Sentences are made up: words of a vocabulary in which few are frequent, one in four in an entity of one of 17 types, and
predictions with every kind of error and some illegal tags. Each side runs in a process of its own, so that its
memory is its own; making the sentences is counted in the memory, not in the time.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measuring import show
from rich.box import MARKDOWN
from rich.table import Table
from seqeval.metrics import classification_report

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.fine_grained import Tagging, analyse_taggings
from crossner_cli.evaluation.scores import Scored, describe_mode, score, summarise
from crossner_cli.reports.error_page import write_reports
from crossner_cli.run.progress import exhaust
from crossner_cli.run.results import EvaluateResult
from crossner_cli.run.storage import write_json

TYPES = (
    "person",
    "politician",
    "researcher",
    "organisation",
    "university",
    "band",
    "location",
    "country",
    "misc",
    "song",
    "album",
    "field",
    "task",
    "product",
    "metrics",
    "event",
    "award",
)
VOCABULARY, MEAN_WORDS, LONGEST_MENTION = 200_000, 20, 5
KILOBYTES = 1024  # of a megabyte; Linux counts memory in kilobytes


@dataclass(frozen=True)
class Task:
    """What both sides are given.

    Args:
        sentences: Words and gold tags.
        predicted: Predicted tags.
        known: Training sentences and raw text.
    """

    sentences: list[Sentence]
    predicted: list[list[str]]
    known: KnownText


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each side in a process of its own and print a table."""
    parser = argparse.ArgumentParser(description="Seconds and memory that scoring predictions takes.")
    parser.add_argument("--sentences", type=int, default=100_000, help="sentences to score")
    parser.add_argument("--train", type=int, default=14_000, help="training sentences of each domain")
    parser.add_argument("--raw", type=int, default=100_000, help="sentences of raw text")
    options = parser.parse_args(arguments)
    table = Table("side", "seconds", "CPU seconds", "sentences/s", "memory, MB", "F1", box=MARKDOWN)
    for name, side in SIDES.items():
        found = in_own_process(side, options.sentences, options.train, options.raw)
        rate = f"{options.sentences / found.seconds:,.0f}"
        row = (f"{found.seconds:.1f}", f"{found.cpu_seconds:.1f}", rate, f"{found.megabytes:,}", f"{found.f1:.2f}")
        table.add_row(name, *row)
        print(f"{name}: {', '.join(row)}", file=sys.stderr, flush=True)
    show(f"Scoring {options.sentences:,} sentences of {MEAN_WORDS} words on average", table)


@dataclass(frozen=True)
class Found:
    """What a side took.

    Args:
        seconds: By the clock.
        cpu_seconds: Of the processor; less than by the clock where others are at work on the machine.
        megabytes: The most memory that its process ever had.
        f1: In percent.
    """

    seconds: float
    cpu_seconds: float
    megabytes: int
    f1: float


def in_own_process(side: Callable[[Task], float], *sizes: int) -> Found:
    """Measure a side in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (side, *sizes))


def measure(side: Callable[[Task], float], sentences: int, train: int, raw: int) -> Found:
    """Make the sentences and measure a side in this process."""
    with tempfile.TemporaryDirectory() as folder:
        task = make_task(sentences, train, raw, Path(folder))
        began = time.perf_counter(), time.process_time()
        f1 = side(task)
        seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    return Found(*seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // KILOBYTES, f1)


def analyse(task: Task) -> float:
    """Analyse and write everything that ``--fine-grained`` adds."""
    without_scores = Scored(score([], []), score([], [], mode="strict"), {})
    result = EvaluateResult(
        domain="made up",
        split="test",
        **describe_mode("conll"),
        sentences=len(task.sentences),
        words=sum(len(sentence.words) for sentence in task.sentences),
        warnings=[],
        models={"model": summarise({"1": without_scores})},
    )
    taggings = [Tagging("model", "1", task.predicted)]
    found = exhaust(analyse_taggings(task.sentences, taggings, task.known))
    with tempfile.TemporaryDirectory() as folder:
        complete = write_reports(Path(folder), result, task.sentences, found)
        write_json(Path(folder) / "scores.json", dataclasses.asdict(complete))
    micro: float = found["model"].record["parts"][0]["f1"]
    return micro


def report_by_seqeval(task: Task) -> float:
    """Its report of precision, recall and F1 by type."""
    gold = [list(sentence.tags or ()) for sentence in task.sentences]
    report = classification_report(gold, task.predicted, output_dict=True, zero_division=0)
    return 100 * float(report["micro avg"]["f1-score"])


SIDES = {"evaluate --fine-grained": analyse, "seqeval's report": report_by_seqeval}


def make_task(sentences: int, train: int, raw: int, folder: Path, seed: int = 1) -> Task:
    """Make sentences up; the same seed makes the same ones."""
    generator = np.random.default_rng(seed)
    words = [f"word{number}" for number in range(VOCABULARY)]
    scored, train_sentences, source = (make_sentences(count, words, generator) for count in (sentences, train, train))
    text = folder / "raw.txt"
    with text.open("w") as stream:
        for sentence in make_sentences(raw, words, generator):
            stream.write(" ".join(sentence.words) + "\n")
    known = KnownText(train_sentences, source, text, ("person", "organisation", "location", "misc"))
    return Task(scored, spoil(scored, generator), known)


def make_sentences(count: int, words: Sequence[str], generator: np.random.Generator) -> list[Sentence]:
    """Sentences of random words with random entities."""
    lengths = generator.integers(MEAN_WORDS // 2, 3 * MEAN_WORDS // 2 + 1, count)
    size = int(lengths.sum())
    chosen = (len(words) * generator.random(size) ** 4).astype(int)  # few words are frequent
    starts = generator.random(size) < 0.09
    kinds, reach = generator.integers(0, len(TYPES), size), generator.integers(1, LONGEST_MENTION + 1, size)
    names = [(f"B-{name}", f"I-{name}") for name in TYPES]
    found, first = [], 0
    for length in lengths.tolist():
        tags = [OUTSIDE] * length
        for start in np.flatnonzero(starts[first : first + length]).tolist():
            begin, inside = names[kinds[first + start]]
            end = min(length, start + int(reach[first + start]))
            tags[start:end] = [begin, *[inside] * (end - start - 1)]
            if end < length and tags[end] != OUTSIDE:
                tags[end] = OUTSIDE
        found.append(Sentence(tuple([words[place] for place in chosen[first : first + length].tolist()]), tuple(tags)))
        first += length
    return found


def spoil(sentences: Sequence[Sentence], generator: np.random.Generator) -> list[list[str]]:
    """Predictions: the gold tags with about one in twelve tags changed."""
    tags = [OUTSIDE] * (2 * len(TYPES)) + [f"{prefix}-{name}" for prefix in "BI" for name in TYPES]
    predicted = []
    for sentence in sentences:
        given = list(sentence.tags or ())
        changed = generator.random(len(given)) < 0.08
        if changed.any():
            for place in np.flatnonzero(changed).tolist():
                given[place] = tags[int(generator.integers(len(tags)))]
        predicted.append(given)
    return predicted


if __name__ == "__main__":
    main()
