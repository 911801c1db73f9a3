"""Selecting sentences by names: ``crossner prepare-data --corpus --entities``, and the search for names alone.

``python benchmarks/corpus_selection.py`` generates a corpus and a list, and takes some two minutes of one core;
``--sentences`` and ``--names`` make it smaller. Seconds are those of the processor, so that other work on the machine
matters less.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measuring import show
from rich.box import MARKDOWN
from rich.table import Table

from crossner_cli.corpus.levels import write_levels
from crossner_cli.corpus.selection import Execution, Selection, find_mentions
from crossner_cli.data.names import read_names
from crossner_cli.data.text import PLAIN_WORD
from crossner_cli.run.progress import exhaust

LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
FREQUENCIES = np.array(
    [12, 9, 8, 7.5, 7, 6.7, 6.3, 6, 6, 4.2, 4, 2.8, 2.8, 2.4, 2.2, 2.3, 2, 1.9, 1, 1.5, 2, 0.8, 0.15, 0.1, 0.15, 0.07]
)
TYPES = ("person", "city", "company", "book")
MIB = 1024


@dataclass(frozen=True)
class Cost:
    """What one side took.

    Args:
        sentences: Read.
        seconds: Of the processor, without reading the list.
        list_seconds: Of the processor, to read the list.
        mebibytes: Most memory at once.
        mentions: Names found, where that is counted.
    """

    sentences: int
    seconds: float
    list_seconds: float = 0.0
    mebibytes: float = 0.0
    mentions: int = 0


def main(arguments: Sequence[str] | None = None) -> dict[str, Cost]:
    """Generate, measure, show; return what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--names", type=int, default=1_400_000)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), given.sentences, given.names)
    table = Table("side", "sentences/s", "µs/sentence", "list, s", "memory, MiB", "mentions", box=MARKDOWN)
    for side, cost in found.items():
        row = (f"{cost.sentences / cost.seconds:,.0f}", f"{cost.seconds / cost.sentences * 1e6:.2f}")
        mentions = f"{cost.mentions:,}" if cost.mentions else "-"
        table.add_row(side, *row, f"{cost.list_seconds:.1f}", f"{cost.mebibytes:,.0f}", mentions)
    show(f"{given.sentences:,} sentences, {given.names:,} names, one core", table)
    return found


def measure(folder: Path, sentences: int, names: int) -> dict[str, Cost]:
    """What each side takes, by name."""
    corpus, listed = generate(folder, sentences, names)
    part = head(corpus, max(1, sentences // 4), folder / "quarter.txt")
    few = head(listed, max(1, names // 100), folder / "few.tsv")
    told = {
        "crossner": (corpus, listed, True),
        "crossner, a quarter of the sentences": (part, listed, True),
        "crossner, a hundredth of the names": (part, few, True),
        "crossner, sentences to be found": (part, listed, False),
    }
    found = {side: apart(select, *given) for side, given in told.items()}
    found["search alone"] = apart(search, part, listed)
    return found


def generate(folder: Path, sentences: int, names: int) -> tuple[Path, Path]:
    """Write a corpus of a sentence a line, about 120 characters and two names in each, and the list of the names."""
    random = np.random.default_rng(1)
    capitals = [word.capitalize() for word in _words(random, 200_000)]
    places = np.where(
        random.random(3 * names) < 0.5, random.integers(0, len(capitals), 3 * names), _zipf(random, 3 * names, 200_000)
    ).tolist()
    lengths = random.choice([1, 2, 3], names, p=[0.25, 0.5, 0.25]).tolist()
    listed = [" ".join(capitals[place] for place in places[3 * row : 3 * row + lengths[row]]) for row in range(names)]
    with (folder / "names.tsv").open("w", encoding="utf-8") as stream:
        stream.writelines(f"{name}\t{TYPES[row % len(TYPES)]}\n" for row, name in enumerate(listed))
    words = _words(random, 60_000)
    text = [words[place] for place in _zipf(random, 1 << 20, len(words)).tolist()]
    starts = random.integers(0, len(text) - 40, sentences).tolist()
    sizes = random.integers(6, 24, sentences).tolist()
    named = random.integers(0, names, (sentences, 2)).tolist()
    with (folder / "corpus.txt").open("w", encoding="utf-8") as stream:
        for start, size, (one, other) in zip(starts, sizes, named, strict=True):
            middle = start + size // 2
            before, behind = " ".join(text[start:middle]), " ".join(text[middle : start + size])
            stream.write(f"{listed[one]} {before}, {behind} {listed[other]}.\n")
    return folder / "corpus.txt", folder / "names.tsv"


def _words(random: np.random.Generator, count: int) -> list[str]:
    lengths = random.integers(2, 11, count)
    ends = np.cumsum(lengths).tolist()
    letters = "".join(random.choice(list(LETTERS), ends[-1], p=FREQUENCIES / FREQUENCIES.sum()))
    return [letters[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True)]


def _zipf(random: np.random.Generator, count: int, most: int) -> np.ndarray:
    return np.minimum((random.pareto(1.0, count) * 8).astype(np.int64), most - 1)


def head(path: Path, lines: int, to: Path) -> Path:
    """Write the first lines of a file as another."""
    with path.open("rb") as source, to.open("wb") as target:
        for _, line in zip(range(lines), source, strict=False):
            target.write(line)
    return to


def apart(side, *given) -> Cost:  # type: ignore[no-untyped-def]
    """Measure a side in a process of its own, so that memory is that of this side."""
    print(f"{side.__name__} {given[0].name} {given[1].name} …", file=sys.stderr, flush=True)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(side, given)


def select(corpus: Path, names: Path, one_a_line: bool) -> Cost:
    """The command's work, in one process."""
    began = time.process_time()
    _ = read_names([names], cut=PLAIN_WORD.findall).finder
    list_seconds = time.process_time() - began
    began = time.process_time()
    selection = Selection(specialised_types=frozenset({"book"}), one_a_line=one_a_line, execution=Execution(workers=1))
    with tempfile.TemporaryDirectory(dir=corpus.parent) as folder:
        found = exhaust(write_levels([corpus], [names], Path(folder), selection))
    seconds = time.process_time() - began - list_seconds
    return Cost(found["documents"], seconds, list_seconds, _most_memory())


def search(corpus: Path, names: Path) -> Cost:
    """The search for names, without reading, counting and writing the levels."""
    began = time.process_time()
    listed = read_names([names], cut=PLAIN_WORD.findall)
    _ = listed.finder
    list_seconds = time.process_time() - began
    sentences = mentions = 0
    began = time.process_time()
    with corpus.open(encoding="utf-8") as lines:
        for line in lines:
            mentions += len(find_mentions(line, listed)[1])
            sentences += 1
    return Cost(sentences, time.process_time() - began, list_seconds, _most_memory(), mentions)


def _most_memory() -> float:
    """The most memory this process had at once; getrusage would count that of the process it was forked from."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / MIB


if __name__ == "__main__":
    main()
