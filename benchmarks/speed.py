"""Speed of crossner beside what a user would run instead, in one command; see README.md beside this file.

python benchmarks/speed.py [finetune|dapt|predict|all] [--data DIR] [--sentences 1600] [--rounds 3]
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import adaptation
import fine_tuning
import text_tagging
import torch
import transformers
from adaptation import Adaptation
from fine_tuning import FineTuning
from measuring import Measured, Side, Stopwatch, measure_in_turn, show, tabulate
from text_tagging import TextTagging

from crossner_cli.data.domains import find_bundled, find_domain
from crossner_cli.data.labelled import read_domain
from crossner_cli.data.tags import TagSet
from crossner_cli.engine.devices import count_cores
from crossner_cli.errors import CrossNERError
from crossner_cli.taggers.folder import save_tagger

DATA, CORPUS = "conll2003", Path("corpora") / "ai_abstracts.txt"
DEV_SENTENCES, CORPUS_LINES = 500, 2000
TRAINERS = ["Trainer fp32", "Trainer bf16", "Trainer bf16, no cuDNN", "Trainer by length"]
Task = TypeVar("Task", FineTuning, Adaptation, TextTagging)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparisons asked for and print a table of each."""
    wanted = read_arguments(arguments)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    compare = {"finetune": compare_fine_tuning, "dapt": compare_adaptation, "predict": compare_tagging}
    print(describe_machine(wanted.threads, wanted.device))
    for name in compare if wanted.task == "all" else [wanted.task]:
        compare[name](wanted)


def read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Speed of crossner beside transformers.Trainer and its pipeline.")
    add = parser.add_argument
    add("task", nargs="?", default="all", choices=["finetune", "dapt", "predict", "all"])
    add("--data", type=Path, help="folder with conll2003/ and corpora/; default: $CROSSNER_MIRROR, else the sample")
    add("--sentences", type=int, default=1600, help="training sentences, and sentences to tag: the first ones")
    add("--rounds", type=int, default=3, help="runs of each side, in turn; the round's number is the seed")
    add("--encoder", default="minilm", help="a Hugging Face name, a folder, or minilm")
    add("--epochs", type=int, default=3, help="finetune: passes over the sentences")
    add("--batch-size", type=int, default=32, help="sentences or blocks of an update")
    add("--learning-rate", type=float, default=1e-4, help="finetune: peak, of both sides and all weights")
    add("--head-learning-rate", type=float, help="finetune: peak of crossner's classifier; default: as all weights")
    add("--block-size", type=int, default=128, help="dapt: subwords of a block")
    add("--updates", type=int, default=40, help="dapt: updates of a run")
    add("--threads", type=int, help="CPU threads of every side; default: all cores")
    add("--device", default="cpu", help="cpu or cuda, of every side; cuda: all in bf16")
    add("--ablation", action="store_true", help="finetune: also with one acceleration after the other switched off")
    return parser.parse_args(arguments)


def describe_machine(threads: int | None, device: str) -> str:
    """What the numbers depend on, in one line."""
    card = f"{torch.cuda.get_device_name(device)}, " if device.startswith("cuda") else ""
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, Python {platform.python_version()}"
    return f"{card}{processor()}, {threads or count_cores()} threads; {versions}"


def processor() -> str:
    """Name of the processor."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def compare_fine_tuning(wanted: argparse.Namespace) -> None:
    """Train taggers on the first sentences of a data set."""
    task = fine_tuning_task(wanted)
    title = (
        f"finetune: {len(task.train)} sentences, {task.epochs} epochs, {task.words:,} words, batches of "
        f"{task.batch_size}; F1 on {len(task.dev)} dev sentences"
    )
    found = compare(fine_tuning.sides, task, wanted.rounds)
    show(title, tabulate("words", found, TRAINERS))
    if wanted.ablation:
        found = compare(fine_tuning.ablations, task, wanted.rounds)
        show("finetune: one acceleration switched off", tabulate("words", found, ["crossner"]))


def compare_adaptation(wanted: argparse.Namespace) -> None:
    """Train masked language models on raw text."""
    with tempfile.TemporaryDirectory() as name:
        task = adaptation_task(wanted, Path(name))
        title = f"dapt: {task.updates} updates of {task.batch_size} blocks of {task.blocks.block_size} subwords"
        found = compare(adaptation.sides, task, wanted.rounds)
        show(title, tabulate("subwords", found, TRAINERS))
        if wanted.device != "cpu":
            show_shares(found, task.operations)


def show_shares(found: Mapping[str, Sequence[Measured]], operations: float) -> None:
    """Print each side's share of the rate of a large matrix product in bf16, given the operations a subword."""
    fastest = measure_matrix_rate()
    print(f"matrix product in bf16: {fastest / 1e12:.0f} TFLOP/s")
    for name, measured in found.items():
        rate = operations * statistics.median(each.rate for each in measured)
        print(f"{name}: {rate / 1e12:.0f} TFLOP/s, {rate / fastest:.0%} of it")


def measure_matrix_rate(size: int = 8192, repeats: int = 20) -> float:
    """Additions and multiplications a second of square matrix products of bf16 on the GPU, random numbers."""
    one, two = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(repeats):
        stopwatch = Stopwatch()
        with stopwatch.running("cuda"):
            one @ two
        seconds.append(stopwatch.seconds)
    return 2 * size**3 / statistics.median(seconds)


def compare_tagging(wanted: argparse.Namespace) -> None:
    """Tag text with a tagger that was trained on the same sentences for an epoch."""
    with tempfile.TemporaryDirectory() as name:
        tagging = tagging_task(wanted, Path(name))
        found = compare(text_tagging.sides, tagging, wanted.rounds)
        title = f"predict: {len(tagging.sentences)} sentences, {tagging.words:,} words"
        show(title, tabulate("words", found, ["pipeline", "crossner, words to tags"]))


def compare(sides: Callable[[Task], Mapping[str, Side]], task: Task, rounds: int) -> dict[str, list[Measured]]:
    """Measure all sides in turn, after a few updates that are not counted: first calls load code and make threads."""
    for side in sides(task.shortened()).values():
        side(1)
    return measure_in_turn(sides(task), rounds)


def fine_tuning_task(wanted: argparse.Namespace) -> FineTuning:
    """The first sentences of CoNLL-2003, or those of the bundled sample where there is no mirror."""
    folder = data_folder(wanted.data) / DATA
    name, files = (DATA, {split: [folder / f"{split}.txt"] for split in ("train", "dev")})
    if not files["train"][0].is_file():
        name, files = "sample-source", find_domain("sample-source").files
        note(f"there is no {folder}; the bundled {name} is used: too small to tell the F1 of two sides apart")
    labelled = read_domain(files, name=name)
    return FineTuning(
        labelled.splits["train"][: wanted.sentences],
        labelled.splits["dev"][:DEV_SENTENCES],
        TagSet({name: labelled.types}),
        wanted.encoder,
        wanted.epochs,
        wanted.batch_size,
        wanted.learning_rate,
        wanted.head_learning_rate,
        wanted.threads,
        wanted.device,
    )


def adaptation_task(wanted: argparse.Namespace, folder: Path) -> Adaptation:
    """The first lines of the raw text as blocks, below ``folder``."""
    corpus = folder / "corpus.txt"
    copy_lines(find_corpus(wanted.data), corpus, CORPUS_LINES)
    blocks = adaptation.read_blocks(corpus, wanted.encoder, wanted.block_size, folder / "blocks")
    return Adaptation(
        blocks, wanted.encoder, wanted.updates, wanted.batch_size, threads=wanted.threads, device=wanted.device
    )


def tagging_task(wanted: argparse.Namespace, folder: Path) -> TextTagging:
    """The sentences of fine-tuning, and a tagger in ``folder`` that was trained on them for an epoch."""
    task = fine_tuning_task(wanted)
    tagger, _ = fine_tuning.train_tagger(task, 1, epochs=1)
    save_tagger(tagger, folder)
    return TextTagging(task.train, folder, wanted.batch_size, wanted.threads, wanted.device)


def find_corpus(data: Path | None) -> Path:
    """Raw text of the mirror, or that of the bundled sample."""
    path = data_folder(data) / CORPUS
    bundled = find_bundled("sample-target", "raw.txt")
    if path.is_file() or bundled is None:
        return path
    note(f"there is no {path}; the raw text of the bundled sample-target is used, again and again")
    return bundled


def data_folder(data: Path | None) -> Path:
    """``--data``, else ``$CROSSNER_MIRROR``."""
    return data or Path(os.environ.get("CROSSNER_MIRROR") or "no-mirror")


def copy_lines(source: Path, target: Path, lines: int) -> None:
    """Copy the first lines of a text file."""
    with source.open(encoding="utf-8") as given, target.open("w", encoding="utf-8") as taken:
        taken.writelines(itertools.islice(given, lines))


def note(text: str) -> None:
    """Tell what a reader of the numbers should know."""
    print(f"note: {text}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except CrossNERError as error:
        sys.exit(f"{error.problem}\n{error.hint}")
