"""Speed of training under policies of how OpenMP's threads wait, alone and beside a busy process.

python benchmarks/threads.py [--rounds 5] [--threads 2] [--spins 0,1000,10000,100000]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from measuring import Measured, Side, measure_in_turn, show, tabulate

AS_IT_IS = "as it is"
WARM_UP, STEPS = 3, 30
VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")


def policies(spins: list[int]) -> dict[str, dict[str, str]]:
    """Environment variables of each policy."""
    return {
        AS_IT_IS: {},
        "OMP_WAIT_POLICY=PASSIVE": {"OMP_WAIT_POLICY": "PASSIVE"},
        **{f"GOMP_SPINCOUNT={count}": {"GOMP_SPINCOUNT": str(count)} for count in spins},
    }


def train(threads: int) -> None:
    """Train a small transformer and print the seconds of ``STEPS`` updates; run in a process of its own."""
    import torch
    from transformers import BertConfig, BertModel

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=1000, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512
    )
    model = BertModel(config, add_pooling_layer=False)
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    ids = torch.randint(0, 1000, (8, 32))
    began = 0.0
    for step in range(WARM_UP + STEPS):
        if step == WARM_UP:
            began = time.perf_counter()
        model(ids).last_hidden_state.square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    print(time.perf_counter() - began)


@contextmanager
def busy_process() -> Iterator[None]:
    """Keep one core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure(variables: Mapping[str, str], threads: int, is_busy: bool, seed: int) -> Measured:
    """Time the updates in a new process, since OpenMP reads its variables when torch is imported."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES} | dict(variables)
    command = [sys.executable, __file__, "--train", "--threads", str(threads)]
    if is_busy:
        with busy_process():
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    else:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return Measured(STEPS, float(done.stdout))


def main() -> None:
    """Print a table for the quiet machine and one beside a busy process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--spins", default="0,1000,10000,100000", help="values of GOMP_SPINCOUNT")
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        train(given.threads)
        return
    spins = [int(count) for count in given.spins.split(",")]
    for title, is_busy in (("Quiet", False), ("Beside a busy process", True)):
        sides: dict[str, Side] = {
            name: partial(measure, variables, given.threads, is_busy) for name, variables in policies(spins).items()
        }
        found = measure_in_turn(sides, given.rounds)
        show(f"{title}, {given.threads} threads", tabulate("updates", found, [AS_IT_IS]))


if __name__ == "__main__":
    main()
