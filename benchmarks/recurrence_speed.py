"""Time of the multi-cell recurrence beside a plain LSTM and beside the loop its equations suggest; see README.md.

python benchmarks/recurrence_speed.py [--rounds 11] [--threads 1] [--compile | --products]
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from measuring import Measured, Side, measure_in_turn, show, tabulate
from torch import Tensor, nn

from crossner_cli.engine.devices import start_engine
from crossner_cli.engine.processes import keep_freed_memory
from crossner_cli.options import Finetune
from crossner_cli.recurrent.multi_cell import MultiCellLSTM

LSTM, LAYER, LAYER_BF16, LOOP = "nn.LSTM", "multi-cell, fp32", "multi-cell, bf16 products", "multi-cell, cell by cell"
COMPILED = "multi-cell, fp32, torch.compile"
SIDES = (LSTM, LAYER, LAYER_BF16, LOOP)
PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm_")


@dataclass(frozen=True)
class Task:
    """One batch of sentences of one length, forward and backward, with gradients of words and weights.

    Args:
        sentences: Of the batch.
        words: Of a sentence.
        width: Of the vector of a word.
        hidden: Units of one direction.
        cells: Entity type cells.
        repeats: Passes of one measurement.
    """

    sentences: int = 32
    words: int = 40
    width: int = 150
    hidden: int = 100
    cells: int = 5
    repeats: int = 5

    def pass_of(self, side: str) -> Callable[[], None]:
        """One pass with its gradient of all that the side gives."""
        torch.manual_seed(1)
        words = torch.randn(self.sentences, self.words, self.width, requires_grad=True)
        mask = torch.ones(self.sentences, self.words, dtype=torch.bool)
        cells = torch.arange(self.cells)
        if side == LSTM:
            lstm = nn.LSTM(self.width, self.hidden, batch_first=True, bidirectional=True)
            return lambda: lstm(words)[0].sum().backward()
        layer: Any = MultiCellLSTM(self.width, self.hidden, self.cells)
        if side == COMPILED:
            layer = torch.compile(layer)

        def run() -> None:
            if side == LOOP:
                given = CellByCell(layer)(words)
            else:
                with torch.autocast("cpu", torch.bfloat16, enabled=side == LAYER_BF16):
                    given = layer(words, mask, cells)[:3]
            torch.stack([value.sum() for value in given]).sum().backward()

        return run


class CellByCell:
    """The equations as they stand: one cell after the other, one word after the other, one direction after the other.

    Args:
        layer: Whose weights are used.
    """

    def __init__(self, layer: MultiCellLSTM) -> None:
        self.layer = layer

    def __call__(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The h, (B, W, 2 H), c_k, (B, W, 2, l, H), and scores I, (B, W, 2, l), of sentences of one length."""
        forward = self._direction(words.unbind(1), 0)
        backward = [value.flip(1) for value in self._direction(words.flip(1).unbind(1), 1)]
        hidden, cells, scores = (torch.stack(pair, dim=2) for pair in zip(forward, backward, strict=True))
        return hidden.flatten(2), cells, scores

    def _direction(self, words: Sequence[Tensor], direction: int) -> list[Tensor]:
        layer, size = self.layer, self.layer.hidden
        query, key, score = (weight[0, direction] for weight in (layer.query, layer.key, layer.score))
        state = memory = words[0].new_zeros(len(words[0]), size)
        given = []
        for word in words:
            read = torch.cat([state, word, word.new_ones(len(word), 1)], dim=1)
            enter, show = (read @ layer.shared_gates[direction]).sigmoid().chunk(2, dim=1)
            composed = (read @ layer.shared_candidate[direction]).tanh()
            contents, scores = [], []
            for gate_weight, weight in zip(
                layer.type_gate[:, direction], layer.type_candidate[:, direction], strict=True
            ):
                gate, candidate = (read @ gate_weight).sigmoid(), (read @ weight).tanh()
                contents.append(gate * candidate + (1 - gate) * memory)
                scores.append((composed @ query + contents[-1] @ key).tanh() @ score)
            cells, attention = torch.stack(contents, dim=1), torch.stack(scores, dim=1)  # (B, l, H), (B, l)
            mixed = (attention.softmax(dim=1)[..., None] * cells).sum(dim=1)
            memory = enter * mixed + (1 - enter) * memory
            state = show * memory.tanh()
            given.append((state, cells, attention))
        return [torch.stack(values, dim=1) for values in zip(*given, strict=True)]


def measure(task: Task, side: str, seed: int) -> Measured:
    """Time ``repeats`` passes, after one that is not counted."""
    run = task.pass_of(side)
    run()
    began = time.perf_counter()
    for _ in range(task.repeats):
        run()
    return Measured(task.sentences * task.words * task.repeats, time.perf_counter() - began)


def share_of_products(task: Task, side: str) -> tuple[float, float]:
    """Milliseconds of a pass, and how many of them are matrix products, by PyTorch's profiler."""
    run = task.pass_of(side)
    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(task.repeats):
            run()
    spent = {event.key: event.self_cpu_time_total / 1e3 / task.repeats for event in profile.key_averages()}
    return sum(spent.values()), sum(spent.get(name, 0.0) for name in PRODUCTS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table; a ratio of 0.25 to ``nn.LSTM`` is four times its time."""
    parser = argparse.ArgumentParser(description="Time of the multi-cell recurrence beside a plain LSTM.")
    add: Any = parser.add_argument
    add("--rounds", type=int, default=11, help="measurements of each side, in turn")
    for name in ("sentences", "words", "width", "hidden", "cells", "repeats"):
        add(f"--{name}", type=int, default=getattr(Task, name))
    add("--threads", type=int, help="CPU threads; default: all cores")
    add("--compile", action="store_true", help="also what torch.compile makes of the layer; takes minutes to make")
    add("--products", action="store_true", help="instead: how much of the layer's time matrix products take")
    wanted = parser.parse_args(arguments)
    start_engine(Finetune(threads=wanted.threads, device="cpu"))
    keep_freed_memory()  # as where taggers are trained
    task = Task(**{name: getattr(wanted, name) for name in Task.__dataclass_fields__})
    if wanted.products:
        for side in (LAYER, LAYER_BF16):
            whole, products = share_of_products(task, side)
            print(f"{side}: {whole:.1f} ms a pass, {products:.1f} of them matrix products")
        return
    chosen = (*SIDES, COMPILED) if wanted.compile else SIDES
    sides: dict[str, Side] = {side: functools.partial(measure, task, side) for side in chosen}
    sizes = f"{task.width} values a word, {task.hidden} units a direction, {task.cells} cells"
    show(
        f"{task.sentences} sentences of {task.words} words, {sizes}",
        tabulate("words", measure_in_turn(sides, wanted.rounds), [LSTM]),
    )


if __name__ == "__main__":
    main()
