"""Peak memory of adapting an encoder to a text that is larger than what should be held in memory.

    python benchmarks/memory.py [--megabytes 1000] [--updates 300]

The text is made of the words of the bundled sample, drawn with a seed, in a temporary folder that is removed at the
end. The token stream takes about half as much disk again.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import adaptation
import numpy as np
import psutil  # type: ignore[import-untyped]
from adaptation import Adaptation
from fine_tuning import start_from_base

from crossner_cli.data.domains import find_bundled
from crossner_cli.engine.devices import start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.stages import dapt

MEGABYTE = 10**6
WORDS_A_LINE, LINES_A_PIECE = 25, 4000


@dataclasses.dataclass(frozen=True)
class Memory:
    """Megabytes of one stage of the work.

    Args:
        name: What was done.
        now: Resident afterwards.
        peak: Highest resident so far.
        seconds: How long it took.
    """

    name: str
    now: float
    peak: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.name:<28} {self.now:8,.0f} MB resident {self.peak:8,.0f} MB peak {self.seconds:8.1f} s"


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the text, adapt, print a line a stage."""
    wanted = read_arguments(arguments)
    with tempfile.TemporaryDirectory(dir=wanted.folder) as name:
        corpus = Path(name) / "corpus.txt"
        write_corpus(corpus, wanted.megabytes * MEGABYTE, wanted.seed)
        print(f"corpus: {corpus.stat().st_size / MEGABYTE:,.0f} MB")
        for memory in measure(corpus, Path(name) / "blocks", wanted):
            print(memory, flush=True)


def read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Peak memory of crossner dapt on a large text.")
    add = parser.add_argument
    add("--megabytes", type=int, default=1000, help="size of the text")
    add("--updates", type=int, default=300, help="updates of training")
    add("--encoder", default="minilm", help="a Hugging Face name, a folder, or minilm")
    add("--batch-size", type=int, default=32, help="blocks of an update")
    add("--block-size", type=int, default=128, help="subwords of a block")
    add("--threads", type=int, help="CPU threads; default: all cores")
    add("--seed", type=int, default=1, help="of the text")
    add("--folder", type=Path, help="where the temporary folder is made; default: the system's place")
    return parser.parse_args(arguments)


def write_corpus(path: Path, size: int, seed: int) -> None:
    """Write lines of random words of the bundled sample, at least ``size`` bytes."""
    words = np.array(sample_words(), dtype=object)
    random = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8") as stream:
        while stream.tell() < size:
            drawn = words[random.integers(len(words), size=(LINES_A_PIECE, WORDS_A_LINE))]
            stream.write("".join(" ".join(line) + "\n" for line in drawn.tolist()))


def sample_words() -> list[str]:
    """The words of the bundled raw text, as often as they occur."""
    corpus = find_bundled("sample-target", "raw.txt")
    if corpus is None:
        raise CrossNERError("The bundled sample-target has no raw text.", hint="Install the package again.")
    return corpus.read_text(encoding="utf-8").split()


def measure(corpus: Path, folder: Path, wanted: argparse.Namespace) -> list[Memory]:
    """Write the token stream, load the encoder, train; each adds to the peak of the one before."""
    found = []
    began = time.perf_counter()

    def note(name: str) -> None:
        nonlocal began
        found.append(Memory(name, resident(), peak(), time.perf_counter() - began))
        began = time.perf_counter()

    note("start, libraries imported")
    blocks = adaptation.read_blocks(corpus, wanted.encoder, wanted.block_size, folder)
    note(f"token stream, {len(blocks):,} blocks")
    options = Adaptation(blocks, wanted.encoder, wanted.updates, wanted.batch_size, threads=wanted.threads).options(1)
    engine = start_engine(options)
    model = dapt.load_masked_lm(start_from_base(options.encoder), options, engine)
    note("encoder loaded")
    adaptation.adapt(model, blocks, options, engine)
    note(f"{wanted.updates} updates")
    return found


def resident() -> float:
    """Megabytes of this process in memory."""
    return float(psutil.Process().memory_info().rss / MEGABYTE)


def peak() -> float:
    """Most megabytes that this process has had in memory."""
    if os.name == "nt":
        return float(psutil.Process().memory_info().peak_wset / MEGABYTE)
    import resource

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / MEGABYTE if sys.platform == "darwin" else largest * 1024 / MEGABYTE


if __name__ == "__main__":
    try:
        main()
    except CrossNERError as error:
        sys.exit(f"{error.problem}\n{error.hint}")
