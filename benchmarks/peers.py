"""crossner beside the tools that people would use instead: F1, training time, speed and memory; see README.md.

python benchmarks/peers.py [--targets ai,politics] [--seeds 1,2,3] [--tools ours,trainer,flair,spacy,span-marker]

Every tool gets the same sentences and, if it reads one, the same encoder. Each is run in two ways: tuned, with the same
number of passes, the epoch that is best on dev and a learning rate that was chosen on dev; and by its documented
defaults. Each run is a process started by the Python of the tool's own environment; the scripts of the processes are in
``peer_sides/``.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from environments import python_of, run
from measuring import show
from rich.box import MARKDOWN
from rich.table import Table

from crossner_cli.data.domains import cache_folder, find_domain
from crossner_cli.data.labelled import read_domain
from crossner_cli.data.sentences import SPLITS, read_sentences, write_sentences
from crossner_cli.encoders.names import resolve_encoder
from crossner_cli.engine.devices import count_cores
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import score
from crossner_cli.run.storage import write_json

SIDES = Path(__file__).parent / "peer_sides"
TORCH = "torch==2.13.0"
# Learning rates, from low to high. Those between the first and the last of a tool's own are always tried.
RATES = (1e-5, 2e-5, 5e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
SPACY_RATES = (1.25e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)
COLUMNS = ("tool", "F1", "rate", "F1 by defaults", "training, s", "words/s", "memory, MB")


@dataclass(frozen=True)
class Tool:
    """One side.

    Args:
        shown: Its name in the tables.
        script: In ``peer_sides``.
        requirements: Packages of its environment; none is the environment of crossner.
        rates: All learning rates, from low to high.
        first: The lowest of those that are always tried.
        last: The highest of those.
        default: The rate at which a tuned run is the same as one by defaults, if there is one.
    """

    shown: str
    script: str
    requirements: tuple[str, ...] = ()
    rates: tuple[float, ...] = RATES
    first: float = 5e-5
    last: float = 1e-3
    default: float | None = None


TOOLS = {
    "ours": Tool("crossner finetune", "our_side.py"),
    "trainer": Tool(
        "transformers Trainer",
        "trainer.py",
        (TORCH, "transformers==5.23.0", "accelerate==1.15.0", "seqeval==1.2.2"),
    ),
    "flair": Tool("flair", "flair_side.py", (TORCH, "transformers==4.57.6", "flair==0.15.1")),
    "spacy": Tool("spaCy, no transformer", "spacy_side.py", ("spacy==3.8.18",), SPACY_RATES, 5e-4, 2e-3, 1e-3),
    "span-marker": Tool(
        "SpanMarker",
        "span_marker_side.py",
        (TORCH, "transformers==4.57.6", "datasets==5.0.1", "span-marker==1.8.1"),
    ),
}


@dataclass(frozen=True)
class Run:
    """One run of one tool on one target.

    Args:
        target: Name of the data set.
        tool: Key of ``TOOLS``.
        seed: Of the tool.
        rate: Learning rate, with the passes and the choice of epoch that all tools share; None is the tool's defaults.
    """

    target: str
    tool: str
    seed: int
    rate: float | None = None


@dataclass(frozen=True)
class Found:
    """What a run gave: F1 in percent, seconds, words a second and megabytes."""

    dev_f1: float
    test_f1: float
    training_seconds: float
    words_per_second: float
    megabytes: int


class Comparison:
    """Runs tools, each run in a process of its own and once only, and adds a line to the output after each run.

    Args:
        options: The command line.
        pythons: The Python of each tool.
        folder: For data and taggers.
    """

    def __init__(self, options: argparse.Namespace, pythons: dict[str, Path], folder: Path) -> None:
        self.options, self.pythons, self.folder = options, pythons, folder
        self.found: dict[Run, Found] = read_runs(options.output, conditions(options))

    def prepare(self, target: str) -> str:
        """Write the sentences of a target for all tools, and prepare a run directory of them; return its short name."""
        found = find_domain(target)
        labelled = read_domain(found.files, name=found.name)
        data = self.folder / "data" / found.name
        data.mkdir(parents=True)
        for split in SPLITS:
            write_sentences(data / f"{split}.jsonl", labelled.splits[split][: self.options.sentences])
        arguments = ["--target", str(data), "--run", str(self.folder / "runs" / found.name), "--quiet"]
        run([sys.executable, "-m", "crossner_cli", "prepare-data", *arguments])
        return found.name

    def measure(self, wanted: Run) -> Found:
        """Run a tool, unless that was done before; score its tags.

        Raises:
            subprocess.CalledProcessError: It failed; what it printed is shown.
        """
        if wanted.rate is not None and wanted.rate == TOOLS[wanted.tool].default:
            wanted = dataclasses.replace(wanted, rate=None)
        if wanted in self.found:
            return self.found[wanted]
        folder = self.folder / "sides" / f"{wanted.target}-{wanted.tool}-{len(self.found)}"
        folder.mkdir(parents=True)
        asked, answered = folder / "request.json", folder / "answer.json"
        write_json(asked, self.request(wanted, folder))
        command = [str(self.pythons[wanted.tool]), str(SIDES / TOOLS[wanted.tool].script), str(asked), str(answered)]
        threads = {name: str(self.options.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        own_packages = {"PYTHONPATH": ""} if TOOLS[wanted.tool].requirements else {}
        run(command, HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", **threads, **own_packages)
        answer = json.loads(answered.read_text(encoding="utf-8"))
        shutil.rmtree(folder)
        for split in ("dev", "test"):
            sentences = read_sentences(self.folder / "data" / wanted.target / f"{split}.jsonl")
            answer[f"{split}_f1"] = score([each.tags or () for each in sentences], answer.pop(split)).f1
        self.found[wanted] = found = Found(**answer)
        append_run(self.options.output, wanted, found, conditions(self.options))
        print(f"{wanted}: F1 {found.test_f1:.2f}, {found.training_seconds:.0f} s", file=sys.stderr, flush=True)
        return found

    def request(self, wanted: Run, folder: Path) -> dict[str, object]:
        """What a side is asked."""
        return {
            "data": str(self.folder / "data" / wanted.target),
            "folder": str(folder),
            "encoder": resolve_encoder(self.options.encoder),
            "seed": wanted.seed,
            "threads": self.options.threads,
            "learning_rate": wanted.rate,
            "epochs": self.options.epochs if wanted.rate else None,
            "updates": self.options.updates,
            "run": str(self.folder / "runs" / wanted.target),
        }

    def choose_rate(self, target: str, tool: str) -> float:
        """The learning rate with the best F1 on dev with the first seed.

        Rates below the tool's first and above its last are tried while the best one is the lowest or highest so far.
        """
        rates = TOOLS[tool].rates
        low, high = rates.index(TOOLS[tool].first), rates.index(TOOLS[tool].last)
        while True:
            tried = range(low, high + 1)
            runs = {place: Run(target, tool, self.options.seeds[0], rates[place]) for place in tried}
            scores = {place: self.measure(each).dev_f1 for place, each in runs.items()}
            best = max(tried, key=lambda place: scores[place])
            if best == low > 0:
                low -= 1
            elif best == high < len(rates) - 1:
                high += 1
            else:
                return rates[best]


def conditions(options: argparse.Namespace) -> dict[str, str]:
    """What must be the same for two runs of the same tool to be one."""
    names = ("encoder", "epochs", "threads", "sentences", "updates")
    given = {name: getattr(options, name) for name in names}
    return {name: "" if value is None else str(value) for name, value in given.items()}


def read_runs(path: Path, under: Mapping[str, str]) -> dict[Run, Found]:
    """The runs of a file that were made under these conditions."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if under.items() <= row.items()]
    return {
        Run(row["target"], row["tool"], int(row["seed"]), float(row["rate"]) if row["rate"] else None): Found(
            megabytes=int(row["megabytes"]),
            **{each.name: float(row[each.name]) for each in dataclasses.fields(Found) if each.name != "megabytes"},
        )
        for row in rows
    }


def append_run(path: Path, done: Run, found: Found, under: Mapping[str, str]) -> None:
    """Write a run below those that the file holds."""
    numbers = {name: value if isinstance(value, int) else f"{value:.2f}" for name, value in vars(found).items()}
    row = {**vars(done), **numbers, **under}
    is_new = not path.is_file()
    with path.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, row, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the tools on each target, and print a table of each."""
    options = read_arguments(arguments)
    pythons = find_pythons(options)
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(options, pythons, Path(folder))
        for target in map(comparison.prepare, options.targets):
            title = f"{target}, {options.encoder}, {options.epochs} passes, {options.threads} threads"
            show(title, tabulate(compare(comparison, target)))


def read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="F1, training time, speed and memory of crossner and other tools.")
    add = parser.add_argument
    add("--targets", type=words, default=["ai", "politics"], help="data sets, known by name or folders")
    add("--seeds", type=numbers, default=[1, 2, 3], help="seeds of each tool; the first chooses the rate")
    add("--tools", type=words, default=list(TOOLS), help=f"of: {','.join(TOOLS)}")
    add("--encoder", default="minilm", help="a folder, or minilm")
    add("--epochs", type=int, default=15, help="passes of the tuned runs, but for spaCy's, which stop by dev")
    add("--threads", type=int, default=count_cores(), help="CPU threads of every tool; default: all cores")
    add("--environments", type=Path, default=cache_folder() / "peers", help="folder of the tools' environments")
    output = "file to add a line a run to; what it holds is not run again"
    add("--output", type=Path, default=Path("peers.csv"), help=output)
    add("--sentences", type=int, help="first sentences of each split, for a quick look")
    add("--updates", type=int, help="most updates of each tool, for a quick look")
    options = parser.parse_args(arguments)
    unknown = set(options.tools) - set(TOOLS)
    if unknown:
        parser.error(f"no such tool: {', '.join(sorted(unknown))}")
    return options


def words(text: str) -> list[str]:
    """Parts between commas."""
    return text.split(",")


def numbers(text: str) -> list[int]:
    """Numbers between commas."""
    return [int(part) for part in text.split(",")]


def find_pythons(options: argparse.Namespace) -> dict[str, Path]:
    """The Python of each tool asked for, without those tools that cannot be installed."""
    found = {"ours": Path(sys.executable)}
    for name in options.tools:
        try:
            if TOOLS[name].requirements:
                found[name] = python_of(name, TOOLS[name].requirements, options.environments)
        except subprocess.CalledProcessError:
            print(f"note: {name} is left out: it cannot be installed", file=sys.stderr)
    return found


def compare(comparison: Comparison, target: str) -> list[tuple[str, ...]]:
    """A row for each tool: its tuned runs, and its F1 by defaults. Training time, speed and memory are of the tuned."""
    seeds, rows = comparison.options.seeds, []
    for tool in comparison.options.tools:
        if tool not in comparison.pythons:
            continue
        by_defaults = [comparison.measure(Run(target, tool, seed)) for seed in seeds]
        rate = comparison.choose_rate(target, tool)
        tuned = [comparison.measure(Run(target, tool, seed, rate)) for seed in seeds]
        rows.append(
            (
                TOOLS[tool].shown,
                mean_f1(tuned),
                f"{rate:g}",
                mean_f1(by_defaults),
                f"{statistics.fmean(each.training_seconds for each in tuned):,.0f}",
                f"{statistics.fmean(each.words_per_second for each in tuned):,.0f}",
                f"{max(each.megabytes for each in tuned):,}",
            )
        )
    return rows


def mean_f1(found: Sequence[Found]) -> str:
    """Mean and deviation of F1 on test."""
    scores = [each.test_f1 for each in found]
    deviation = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.2f}{deviation}"


def tabulate(rows: Sequence[Sequence[str]]) -> Table:
    """The rows as a table that can be put into Markdown."""
    table = Table(*COLUMNS, box=MARKDOWN)
    for column in table.columns:
        column.no_wrap = True
        column.justify = "left" if column is table.columns[0] else "right"
    for row in rows:
        table.add_row(*row)
    return table


if __name__ == "__main__":
    try:
        main()
    except CrossNERError as error:
        sys.exit(f"{error.problem}\n{error.hint}")
