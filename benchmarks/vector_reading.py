"""Time and memory of reading static vectors of words from a file that is larger than the memory; see README.md.

python benchmarks/vector_reading.py [--megabytes 5000] [--binary]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from memory import MEGABYTE, peak

from crossner_cli.recurrent.vector_files import read_vectors

DISTINCT = 1000  # vectors; a file repeats them under other words


def entries(values: int, seed: int, *, binary: bool) -> Iterator[bytes]:
    """One word and its vector after the other, without end, as GloVe or word2vec writes them."""
    rows = np.random.default_rng(seed).normal(size=(DISTINCT, values)).astype("<f4")
    vectors = [row.tobytes() if binary else " ".join(f"{value:.5f}" for value in row).encode() + b"\n" for row in rows]
    number = 0
    while True:
        yield b"word%d %b" % (number, vectors[number % DISTINCT])
        number += 1


def write_vectors(path: Path, size: int, values: int, seed: int, *, binary: bool) -> int:
    """Write about ``size`` bytes of vectors; return how many there are."""
    parts = entries(values, seed, binary=binary)
    count = -(-size // len(next(parts)))
    with path.open("wb") as stream:
        if binary:
            stream.write(b"%d %d\n" % (count, values))
        for _, entry in zip(range(count), entries(values, seed, binary=binary), strict=False):
            stream.write(entry)
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the file, look words up, print a line."""
    parser = argparse.ArgumentParser(description="Time and memory of reading vectors of words.")
    add: Any = parser.add_argument
    add("--megabytes", type=int, default=5000, help="size of the file")
    add("--values", type=int, default=300, help="of a vector")
    add("--words", type=int, default=50_000, help="looked up, of which half are in the file")
    add("--binary", action="store_true", help="word2vec binary instead of text")
    add("--seed", type=int, default=1, help="of the vectors")
    add("--folder", type=Path, help="where the temporary folder is made; default: the system's place")
    wanted = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=wanted.folder) as name:
        path = Path(name) / "vectors"
        count = write_vectors(path, wanted.megabytes * MEGABYTE, wanted.values, wanted.seed, binary=wanted.binary)
        step = max(1, 2 * count // wanted.words)
        words = [f"{kind}{number * step}" for number in range(wanted.words // 2) for kind in ("word", "other")]
        size, before, began = path.stat().st_size / MEGABYTE, peak(), time.perf_counter()
        vectors = read_vectors(path, words)
        seconds = time.perf_counter() - began
    kept = vectors.rows.nbytes / MEGABYTE
    print(
        f"{size:,.0f} MB, {count:,} vectors: {size / seconds:,.0f} MB/s; {len(vectors.words):,} of {len(words):,} "
        f"words kept, {kept:,.0f} MB; memory beyond them at most {max(0.0, peak() - before - kept):,.0f} MB"
    )


if __name__ == "__main__":
    main()
