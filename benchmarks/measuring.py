"""Two sides of a comparison, measured in turn: a machine that is busy for a while slows both of them."""

from __future__ import annotations

import dataclasses
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

WIDEST = 200  # characters


@dataclass(frozen=True)
class Measured:
    """One run of one side.

    Args:
        words: What was read, in the unit of the comparison.
        seconds: How long that took.
        f1: On the dev sentences, in percent; None where nothing was learnt.
        megabytes: Most memory of a GPU; None without one.
    """

    words: int
    seconds: float
    f1: float | None = None
    megabytes: int | None = None

    @property
    def rate(self) -> float:
        """Words a second."""
        return self.words / self.seconds


Side = Callable[[int], Measured]  # seed to what was measured


class Stopwatch:
    """Seconds between the two ends of a ``with`` block."""

    seconds = 0.0

    @contextmanager
    def running(self, device: torch.device | str = "cpu") -> Iterator[None]:
        """Measure a block; on a GPU, until it has done all that it was given."""
        began = time.perf_counter()
        yield
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize(device)
        self.seconds = time.perf_counter() - began


def measure_in_turn(sides: Mapping[str, Side], rounds: int) -> dict[str, list[Measured]]:
    """Run every side once a round, with the round's number as seed; each round begins with another side."""
    names = list(sides)
    found: dict[str, list[Measured]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            measured = with_memory(sides[name], number + 1)
            found[name].append(measured)
            print(f"round {number + 1} of {rounds}: {name}: {measured.rate:,.0f}/s", file=sys.stderr, flush=True)
    return found


def with_memory(side: Side, seed: int) -> Measured:
    """Run a side, with the most memory that it takes of a GPU."""
    if not torch.cuda.is_available():
        return side(seed)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return dataclasses.replace(side(seed), megabytes=torch.cuda.max_memory_allocated() // 2**20)


def ratios(of: Sequence[Measured], to: Sequence[Measured]) -> list[float]:
    """How many times as fast one side is as another, by round."""
    return [mine.rate / other.rate for mine, other in zip(of, to, strict=True)]


def tabulate(unit: str, found: Mapping[str, Sequence[Measured]], references: Sequence[str]) -> Table:
    """Medians over the rounds with the lowest and highest round, as a table that can be put into Markdown.

    Args:
        unit: What was counted.
        found: The rounds of each side.
        references: Sides that the others are compared with, round by round, if they were measured.
    """
    references = [name for name in references if name in found]
    table = Table("side", f"{unit}/s", "lowest-highest", *(f"times {name}" for name in references), box=MARKDOWN)
    every = [each for measured in found.values() for each in measured]
    has_f1, has_memory = (any(getattr(each, name) is not None for each in every) for name in ("f1", "megabytes"))
    for name, is_known in (("F1", has_f1), ("memory, MB", has_memory)):
        if is_known:
            table.add_column(name)
    for column in table.columns:
        column.no_wrap = True
        column.justify = "left" if column is table.columns[0] else "right"
    for name, measured in found.items():
        rates = [each.rate for each in measured]
        row = [name, f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f}-{max(rates):,.0f}"]
        row += ["1" if name == other else _shown_ratio(ratios(measured, found[other])) for other in references]
        scores = [each.f1 for each in measured if each.f1 is not None]
        row += [_shown_f1(scores)] if has_f1 else []
        row += [f"{max(each.megabytes or 0 for each in measured):,}"] if has_memory else []
        table.add_row(*row)
    return table


def _shown_ratio(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.2f} ({min(found):.2f}-{max(found):.2f})"


def _shown_f1(scores: Sequence[float]) -> str:
    if not scores:
        return ""
    deviation = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
    return f"{statistics.mean(scores):.1f}{deviation}"


def show(title: str, table: Table) -> None:
    """Print a table below its title, uncut however narrow the terminal."""
    console = Console(highlight=False, width=WIDEST)
    console.print(f"\n{title}\n", soft_wrap=True)
    console.print(table)
