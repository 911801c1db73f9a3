"""What a GPU does in adaptation, fine-tuning and prediction: the ten kernels that take longest, and how busy it is.

python benchmarks/profile_gpu.py [finetune|dapt|predict|all] [--device cuda] and the other options of speed.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import adaptation
import fine_tuning
import text_tagging
import torch
from measuring import Side, show
from rich.box import MARKDOWN
from rich.table import Table
from speed import CORPUS_LINES, copy_lines, find_corpus, fine_tuning_task, read_arguments
from text_tagging import TextTagging
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from crossner_cli.taggers.folder import save_tagger

MOST, LONGEST_NAME = 10, 90


def main(arguments: Sequence[str] | None = None) -> None:
    """Profile crossner's side of each comparison, and print a table of each."""
    wanted = read_arguments(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_lines(find_corpus(wanted.data), folder / "corpus.txt", CORPUS_LINES)
        blocks = adaptation.read_blocks(folder / "corpus.txt", wanted.encoder, wanted.block_size, folder / "blocks")
        adapting = adaptation.Adaptation(
            blocks, wanted.encoder, wanted.updates, wanted.batch_size, threads=wanted.threads, device=wanted.device
        )
        tuning = fine_tuning_task(wanted)
        tagger, _ = fine_tuning.train_tagger(tuning, 1, epochs=1)
        save_tagger(tagger, folder / "tagger")
        tagging = TextTagging(tuning.train, folder / "tagger", threads=wanted.threads, device=wanted.device)
        sides: dict[str, dict[str, Side]] = {
            "dapt": adaptation.sides(adapting),
            "finetune": fine_tuning.sides(tuning),
            "predict": text_tagging.sides(tagging),
        }
        for task, found in sides.items():
            if wanted.task in (task, "all"):
                own = [name for name in found if name.startswith("crossner")]
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
