"""Time of a BiLSTM with generated parameters beside nn.LSTM of the same sizes, on CPU; see README.md beside this file.

python benchmarks/generation_speed.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from measuring import Measured, Side, measure_in_turn, ratios, show, tabulate
from torch import Tensor, nn

from crossner_cli.engine.devices import start_engine
from crossner_cli.engine.processes import keep_freed_memory
from crossner_cli.options import Finetune
from crossner_cli.recurrent.bilstm import BiLSTM
from crossner_cli.recurrent.generated_lstm import GeneratedBiLSTM

REFERENCE, PACKED, GENERATED = "nn.LSTM", "nn.LSTM, packed", "generated"
SEPARATE = "generated, pass by pass"
# What an update of cross-domain-lm runs: labelled sentences for tags and as text, raw text, of both domains.
ONE, UPDATE = ((1, 1),), ((0, 0), (0, 1), (1, 0), (1, 1), (0, 1), (1, 1))
Pairs = tuple[tuple[int, int], ...]
Step = Literal["none", "sgd", "adamw"]


@dataclass(frozen=True)
class Layer:
    """One layer and one batch of sentences.

    Args:
        width: Of the vectors read.
        hidden: Units of one direction.
        vectors: Sizes of the vectors of the domain and of the task.
        sentences: Of the batch.
        words: Of the longest sentence.
        shortest: Words of the shortest sentence; None makes all as long.
        repeats: Updates of one measurement.
        threads: CPU threads; None is all cores.
    """

    width: int = 150
    hidden: int = 100
    vectors: int = 8
    sentences: int = 32
    words: int = 40
    shortest: int | None = None
    repeats: int = 20
    threads: int | None = None

    @property
    def mask(self) -> Tensor:
        """Where a word is, (B, W): lengths evenly from the longest to the shortest."""
        lengths = torch.linspace(self.words, self.shortest or self.words, self.sentences).round()
        return torch.arange(self.words) < lengths[:, None]

    def run(self, name: str) -> tuple[nn.Module, Callable[[Tensor, tuple[int, int]], Tensor]]:
        """A layer, and what it makes for a domain and a task of values, (B, W, D): (B, W, 2 H)."""
        mask = self.mask
        if name == REFERENCE:  # reads padding too
            lstm = nn.LSTM(self.width, self.hidden, batch_first=True, bidirectional=True)
            return lstm, lambda values, pair: lstm(values)[0]
        if name == PACKED:
            packed = BiLSTM(self.width, self.hidden)
            return packed, lambda values, pair: packed(values, mask)
        sizes = {"domain_size": self.vectors, "task_size": self.vectors}
        layer = GeneratedBiLSTM(self.width, self.hidden, domains=2, tasks=2, **sizes)
        return layer, lambda values, pair: layer(values, mask, *pair)


def measure(layer: Layer, name: str, step: Step | None, pairs: Pairs, seed: int) -> Measured:
    """Time ``repeats`` updates after three that are not counted: a forward and a backward pass for each pair of domain
    and task, with the optimiser's step if there is one; forward alone, without gradients, where ``step`` is None.
    """
    start_engine(Finetune(threads=layer.threads, device="cpu"))
    keep_freed_memory()  # as where taggers are trained
    torch.manual_seed(seed)
    module, run = layer.run(name)
    values = torch.randn(layer.sentences, layer.words, layer.width, requires_grad=True)
    optimiser = make_optimiser(module, step)
    sharing = isinstance(module, GeneratedBiLSTM) and name == GENERATED and len(pairs) > 1

    def train() -> None:
        with module.generator.shared() if sharing else nullcontext():
            for pair in pairs:
                run(values, pair).sum().backward()
        if optimiser is not None:
            optimiser.step()
        module.zero_grad()
        values.grad = None

    def read() -> None:
        with torch.no_grad():
            run(values, pairs[0])

    work = read if step is None else train
    module.train(step is not None)
    for _ in range(3):
        work()
    began = time.perf_counter()
    for _ in range(layer.repeats):
        work()
    return Measured(
        int(layer.mask.sum()) * layer.repeats * (1 if step is None else len(pairs)), time.perf_counter() - began
    )


def make_optimiser(module: nn.Module, step: Step | None) -> torch.optim.Optimizer | None:
    """What updates a layer; a learning rate of nearly nothing keeps it as it is."""
    if step == "adamw":
        return torch.optim.AdamW(module.parameters(), lr=1e-9, fused=True)
    return torch.optim.SGD(module.parameters(), lr=1e-9, fused=True) if step == "sgd" else None


def sides(layer: Layer, step: Step | None, pairs: Pairs) -> dict[str, Side]:
    """nn.LSTM, alone and as the methods run it, and the generated one as training runs it; where it is run more than
    once, also with gradients that are computed pass by pass.
    """
    names = (REFERENCE, PACKED, GENERATED, *([SEPARATE] if len(pairs) > 1 else []))
    return {name: functools.partial(measure, layer, name, step, pairs) for name in names}


TABLES: dict[str, tuple[Step | None, Pairs]] = {
    "forward and backward": ("none", ONE),
    "with a step of SGD": ("sgd", ONE),
    "with a step of AdamW": ("adamw", ONE),
    "forward, without gradients": (None, ONE),
    "an update of six passes": ("none", UPDATE),
    "an update of six passes, with a step of AdamW": ("adamw", UPDATE),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table for each of ``TABLES``, and how many times as long the generated layer takes."""
    parser = argparse.ArgumentParser(description="Time of a generated BiLSTM beside nn.LSTM.")
    add: Any = parser.add_argument
    add("--rounds", type=int, default=5, help="measurements of each side, in turn")
    add("--sentences", type=int, default=32, help="of a batch")
    add("--words", type=int, default=40, help="of the longest sentence")
    add("--shortest", type=int, help="words of the shortest sentence; default: all are as long")
    add("--width", type=int, default=150, help="of the vectors read")
    add("--hidden", type=int, default=100, help="units of one direction")
    add("--repeats", type=int, default=20, help="updates of a measurement")
    add("--threads", type=int, help="CPU threads; default: all cores")
    wanted = parser.parse_args(arguments)
    layer = Layer(
        wanted.width,
        wanted.hidden,
        sentences=wanted.sentences,
        words=wanted.words,
        shortest=wanted.shortest,
        repeats=wanted.repeats,
        threads=wanted.threads,
    )
    for name, (step, pairs) in TABLES.items():
        found = measure_in_turn(sides(layer, step, pairs), wanted.rounds)
        longer = [f"{statistics.median(ratios(found[other], found[GENERATED])):.2f}" for other in (REFERENCE, PACKED)]
        title = f"{name}: {layer.sentences} sentences of up to {layer.words} words; the generated layer takes"
        title += f" {longer[0]} times as long as {REFERENCE}, {longer[1]} times as long as {PACKED}"
        show(title, tabulate("words", found, [REFERENCE, PACKED]))


if __name__ == "__main__":
    main()
