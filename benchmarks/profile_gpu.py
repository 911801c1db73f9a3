"""What a GPU does in adaptation, fine-tuning and prediction: the ten kernels that take longest, and how busy it is.

python benchmarks/profile_gpu.py [finetune|dapt|predict|all] [--device cuda] and the other options of speed.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import adaptation
import fine_tuning
import text_tagging
import torch
from measuring import Side, show
from rich.box import MARKDOWN
from rich.table import Table
from speed import adaptation_task, fine_tuning_task, read_arguments, tagging_task
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

MOST, LONGEST_NAME = 10, 90


def main(arguments: Sequence[str] | None = None) -> None:
    """Profile crossner's side of each comparison, and print a table of each."""
    wanted = read_arguments(arguments)
    sides: dict[str, Callable[[Path], Mapping[str, Side]]] = {
        "dapt": lambda folder: adaptation.sides(adaptation_task(wanted, folder)),
        "finetune": lambda _: fine_tuning.sides(fine_tuning_task(wanted)),
        "predict": lambda folder: text_tagging.sides(tagging_task(wanted, folder)),
    }
    for task in sides if wanted.task == "all" else [wanted.task]:
        with tempfile.TemporaryDirectory() as name:
            found = sides[task](Path(name))
            own = [side for side in found if side.startswith("crossner")]
            show_kernels(task, found[own[-1 if task == "dapt" else 0]], wanted.device)


def show_kernels(task: str, side: Side, device: str) -> None:
    """Profile a side once, after a run that is not counted."""
    side(1)
    on_gpu = device.startswith("cuda")
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, acc_events=True) as profiled:
        began = time.perf_counter()
        measured = side(1)
        whole = time.perf_counter() - began
    wanted = DeviceType.CUDA if on_gpu else DeviceType.CPU
    kernels = [each for each in profiled.key_averages() if each.device_type == wanted]

    def seconds(kernel: object) -> float:
        return float(getattr(kernel, "self_device_time_total" if on_gpu else "self_cpu_time_total")) / 1e6

    busy = sum(map(seconds, kernels))
    table = Table("kernel", "calls", "ms", "share", box=MARKDOWN)
    for kernel in sorted(kernels, key=seconds, reverse=True)[:MOST]:
        name = kernel.key[:LONGEST_NAME]
        table.add_row(name, f"{kernel.count:,}", f"{1000 * seconds(kernel):,.1f}", f"{seconds(kernel) / busy:.0%}")
    show(
        f"{task}: {sum(each.count for each in kernels):,} kernels take {busy:.2f} s of {measured.seconds:.2f} s "
        f"({whole:.2f} s with loading)",
        table,
    )


if __name__ == "__main__":
    torch.manual_seed(1)
    main()
