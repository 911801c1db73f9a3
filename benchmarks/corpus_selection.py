"""Selecting sentences by a list of names: ``crossner prepare-data --corpus --entities``, Aho-Corasick, a plain loop.

``python benchmarks/corpus_selection.py`` generates a corpus and a list, and takes some two minutes of one core;
``--sentences`` and ``--names`` make it smaller. Seconds are those of the processor, so that other work on the machine
matters less. The sides that only search tell why names are looked up by hashes of words, and not by an Aho-Corasick
automaton (the package ``ahocorasick_rs``, whose side is left out where it is not installed): it finds names within
words too, and its memory and the time to build it grow with all letters of the list.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np
from measuring import show
from rich.box import MARKDOWN
from rich.table import Table

from crossner_cli.corpus.job import Execution, Selection
from crossner_cli.corpus.levels import write_levels
from crossner_cli.data.names import read_name_index
from crossner_cli.data.word_scan import scan_words
from crossner_cli.run.progress import exhaust

LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
FREQUENCIES = np.array(
    [12, 9, 8, 7.5, 7, 6.7, 6.3, 6, 6, 4.2, 4, 2.8, 2.8, 2.4, 2.2, 2.3, 2, 1.9, 1, 1.5, 2, 0.8, 0.15, 0.1, 0.15, 0.07]
)
TYPES = ("person", "city", "company", "book")
MIB = 1024
LINES_OF_PIECE = 2000


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
    parser.add_argument("--sentences", type=int, default=2_000_000)
    parser.add_argument("--names", type=int, default=1_400_000)
    parser.add_argument("--plain-sentences", type=int, default=40_000, help="read by the plain loop")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), given.sentences, given.names, min(given.plain_sentences, given.sentences))
    table = Table("side", "sentences/s", "µs/sentence", "list, s", "memory, MiB", "mentions", box=MARKDOWN)
    for side, cost in found.items():
        row = (f"{cost.sentences / cost.seconds:,.0f}", f"{cost.seconds / cost.sentences * 1e6:.2f}")
        mentions = f"{cost.mentions:,}" if cost.mentions else "-"
        table.add_row(side, *row, f"{cost.list_seconds:.1f}", f"{cost.mebibytes:,.0f}", mentions)
    show(f"{given.sentences:,} sentences, {given.names:,} names, one core", table)
    return found


def measure(folder: Path, sentences: int, names: int, plain_sentences: int) -> dict[str, Cost]:
    """What each side takes, by name."""
    corpus, listed = generate(folder, sentences, names)
    part = head(corpus, max(1, sentences // 4), folder / "quarter.txt")
    few = head(listed, max(1, names // 100), folder / "few.tsv")
    small = head(corpus, plain_sentences, folder / "small.txt")
    told = {
        "crossner": (corpus, listed, True),
        "crossner, a quarter of the sentences": (part, listed, True),
        "crossner, a hundredth of the names": (part, few, True),
        "crossner, sentences to be found": (part, listed, False),
    }
    found = {side: apart(select, *given) for side, given in told.items()}
    found["search alone: crossner"] = apart(search, part, listed)
    if find_spec("ahocorasick_rs"):
        found["search alone: Aho-Corasick (ahocorasick_rs)"] = apart(search_by_automaton, part, listed)
    return {**found, "plain Python": apart(select_plainly, small, listed)}


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
    """The product, in one process."""
    scan_words("é")  # makes its tables of characters
    began = time.process_time()
    read_name_index([names])
    list_seconds = time.process_time() - began
    began = time.process_time()
    selection = Selection(specialised_types=frozenset({"book"}), one_a_line=one_a_line, execution=Execution(workers=1))
    with tempfile.TemporaryDirectory(dir=corpus.parent) as folder:
        found = exhaust(write_levels([corpus], [names], Path(folder), selection))
    seconds = time.process_time() - began - list_seconds
    return Cost(found["documents"], seconds, list_seconds, _most_memory())


def search(corpus: Path, names: Path) -> Cost:
    """The product's search for names, without reading, counting and writing the levels."""
    scan_words("é")
    began = time.process_time()
    index = read_name_index([names])
    list_seconds = time.process_time() - began
    sentences = mentions = 0
    began = time.process_time()
    for lines in _pieces(corpus):
        mentions += len(index.find(scan_words("".join(lines).rstrip("\n"))).names)
        sentences += len(lines)
    return Cost(sentences, time.process_time() - began, list_seconds, _most_memory(), mentions)


def search_by_automaton(corpus: Path, names: Path) -> Cost:
    """All names in one Aho-Corasick automaton in Rust, then those matches that are whole words.

    The longest match from the left is taken: the fastest way, though a longer name that is no whole word hides a
    shorter one that is.
    """
    from ahocorasick_rs import AhoCorasick, MatchKind

    began = time.process_time()
    with names.open(encoding="utf-8") as lines:
        listed = list(dict.fromkeys(line.partition("\t")[0] for line in lines))
    automaton = AhoCorasick(listed, matchkind=MatchKind.LeftmostLongest)
    list_seconds = time.process_time() - began
    sentences = mentions = 0
    began = time.process_time()
    for piece in _pieces(corpus):
        text = "\n" + "".join(piece)
        found = np.array(automaton.find_matches_as_indexes(text), np.int64).reshape(-1, 3)
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        is_letter = (codes > 127) | _letters()[np.minimum(codes, 127)]
        is_whole = ~is_letter[found[:, 1] - 1] & ~is_letter[np.minimum(found[:, 2], len(codes) - 1)]
        mentions += int(np.count_nonzero(is_whole))
        sentences += len(piece)
    return Cost(sentences, time.process_time() - began, list_seconds, _most_memory(), mentions)


def _letters() -> np.ndarray:
    return np.array([chr(code).isalnum() for code in range(128)])


def _pieces(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8") as lines:
        while some := list(islice(lines, LINES_OF_PIECE)):
            yield some


def select_plainly(corpus: Path, names: Path) -> Cost:
    """What one would write first: words by a regular expression, names in a dictionary by their words."""
    began = time.process_time()
    types: dict[tuple[str, ...], str] = {}
    lengths: dict[str, set[int]] = {}
    pattern = re.compile(r"\w+(?:[-'.&]\w+)*|[^\w\s]")
    for line in names.read_text(encoding="utf-8").splitlines():
        name, _, entity_type = line.partition("\t")
        words = tuple(pattern.findall(name))
        types[words] = entity_type
        lengths.setdefault(words[0], set()).add(len(words))
    list_seconds = time.process_time() - began
    began, sentences = time.process_time(), 0
    counts = dict.fromkeys(("entity", "task", "words"), 0)
    with corpus.open(encoding="utf-8") as lines:
        for line in lines:
            sentences += 1
            words = tuple(pattern.findall(line))
            counts["words"] += len(words)
            found, place = set(), 0
            while place < len(words):
                sizes = sorted(lengths.get(words[place], ()), reverse=True)
                size = next((size for size in sizes if words[place : place + size] in types), 0)
                if size:
                    found.add(words[place : place + size])
                place += size or 1
            counts["entity"] += len(found) >= 2
            counts["task"] += any(types[name] == "book" for name in found)
    return Cost(sentences, time.process_time() - began, list_seconds, _most_memory())


def _most_memory() -> float:
    """The most memory this process had at once; getrusage would count that of the process it was forked from."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / MIB


if __name__ == "__main__":
    main()
