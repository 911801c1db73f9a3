"""The benchmarks run, and measure what they say; how fast anything is, is no matter of a test."""

import csv
import dataclasses
import importlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders.commands import crossner
from transformers.models.bert.modeling_bert import BertEmbeddings

from crossner_cli.data.domains import find_bundled, find_domain
from crossner_cli.data.labelled import read_domain
from crossner_cli.data.tags import TagSet
from crossner_cli.engine.devices import choose_precision, reset_accelerate
from crossner_cli.taggers.folder import save_tagger

FOLDER = Path(__file__).parents[2] / "benchmarks"
MODULES = sorted(path.stem for path in FOLDER.glob("*.py"))
SIZES = "--batch-size 4 --block-size 32 --threads 1"
TABLES = 6


@pytest.fixture(scope="module", autouse=True)
def benchmarks() -> Iterator[SimpleNamespace]:
    """The modules of the folder, importable as a script there imports them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        patch.delenv("CROSSNER_MIRROR", raising=False)
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    reset_accelerate()


@pytest.fixture(scope="module")
def task(benchmarks: SimpleNamespace, tiny_encoder_folder: Path) -> Any:
    """A few sentences of the bundled sample."""
    labelled = read_domain(find_domain("sample-source").files, name="sample-source")
    return benchmarks.fine_tuning.FineTuning(
        labelled.splits["train"][:20],
        labelled.splits["dev"][:6],
        TagSet({"sample-source": labelled.types}),
        str(tiny_encoder_folder),
        epochs=2,
        batch_size=8,
        threads=1,
    )


@pytest.fixture(scope="module")
def adapting(benchmarks: SimpleNamespace, tiny_encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A few blocks of the bundled raw text."""
    folder = tmp_path_factory.mktemp("adapting")
    benchmarks.speed.copy_lines(find_bundled("sample-target", "raw.txt"), folder / "corpus.txt", 5)
    blocks = benchmarks.adaptation.read_blocks(folder / "corpus.txt", str(tiny_encoder_folder), 32, folder / "blocks")
    return benchmarks.adaptation.Adaptation(blocks, str(tiny_encoder_folder), updates=3, batch_size=4, threads=1)


def test_every_side_of_fine_tuning_reads_the_same_words_and_is_scored(benchmarks: Any, task: Any) -> None:
    sides = benchmarks.fine_tuning.sides(task)
    bf16 = ["Trainer bf16"] if choose_precision("auto", "cpu") == "bf16" else []
    assert list(sides) == ["Trainer fp32", *bf16, "Trainer by length", "crossner"]
    for side in sides.values():
        measured = side(1)
        assert measured.words == 2 * sum(len(sentence.words) for sentence in task.train)
        assert measured.seconds > 0
        assert 0 <= measured.f1 <= 100


@pytest.mark.parametrize("side", ["Trainer fp32", "crossner"])
def test_every_side_of_adaptation_reads_the_subwords_it_is_credited_with(
    benchmarks: Any, adapting: Any, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    read: list[int] = []
    forward = BertEmbeddings.forward

    def counting(self: Any, input_ids: Any, *rest: Any, **named: Any) -> Any:
        read.append(input_ids.numel())
        return forward(self, input_ids, *rest, **named)

    monkeypatch.setattr(BertEmbeddings, "forward", counting)
    # Two whole updates and a smaller one make an epoch, so the fourth update is of a second epoch.
    task = dataclasses.replace(adapting, batch_size=(len(adapting.blocks) - 1) // 2, updates=4)
    assert benchmarks.adaptation.sides(task)[side](1).words == sum(read)
    assert len(read) == 4


def test_every_side_of_tagging_tags_the_same_words(benchmarks: Any, task: Any, tmp_path: Path) -> None:
    tagger, _ = benchmarks.fine_tuning.train_tagger(task, 1, epochs=1)
    save_tagger(tagger, tmp_path)
    tagging = benchmarks.text_tagging.TextTagging(task.train, tmp_path, batch_size=8, threads=1)
    for side in benchmarks.text_tagging.sides(tagging).values():
        measured = side(1)
        assert measured.words == sum(len(sentence.words) for sentence in task.train)
        assert measured.seconds > 0


@pytest.mark.parametrize(
    ("name", "arguments", "pattern", "count"),
    [
        ("speed", f"all --sentences 8 --rounds 1 --epochs 1 --updates 1 --encoder ENCODER {SIZES}", r"\| crossner", 6),
        ("memory", f"--megabytes 1 --updates 2 --encoder ENCODER --folder FOLDER {SIZES}", "MB peak", 4),
        ("vector_reading", "--megabytes 1 --values 20 --words 100", "50 of 100 words kept, 0 MB; memory beyond", 1),
        ("vector_reading", "--megabytes 1 --values 20 --words 100 --binary", "50 of 100 words kept, 0 MB;", 1),
        ("label_reading", "--sentences 5", r"^[\w-]+: 5 sentences in \d", 14),
        ("start_time", "--runs 1", r"crossner .*: \d+\.\d\d s \(best of 1\)", 3),
        ("generation_speed", "--rounds 1 --repeats 1 --width 4 --hidden 3", "times as long as nn.LSTM,", TABLES),
        ("wikitext", "--pages 3 --rounds 1", r"^(\|[^|]*){4}\|$", 8),
        ("comparison_speed", "--sentences 40 --types 2 --runs 1,2 --nulls 2", "of these taggers alone", 4),
    ],
)
def test_a_script_prints_what_it_measures(
    benchmarks: Any,
    tiny_encoder_folder: Path,
    tmp_path: Path,
    capsys: Any,
    name: str,
    arguments: str,
    pattern: str,
    count: int,
) -> None:
    if name == "wikitext":
        pytest.importorskip("mwparserfromhell")
    places = {"ENCODER": str(tiny_encoder_folder), "FOLDER": str(tmp_path)}
    getattr(benchmarks, name).main([places.get(word, word) for word in arguments.split()])
    lines = capsys.readouterr().out.splitlines()
    assert sum(re.search(pattern, line) is not None for line in lines) == count
    assert not list(tmp_path.iterdir())


def test_the_readme_calls_scripts_with_the_options_they_have(
    benchmarks: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = re.findall(r"python benchmarks/(\w+)\.py([^`\n]*)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert len(calls) >= 3
    for name, arguments in calls:
        with pytest.raises(SystemExit):
            getattr(benchmarks, name).main(["--help"])
        told = capsys.readouterr().out
        assert all(flag in told for flag in re.findall(r"--[a-z][a-z-]*", arguments)), name


def test_every_method_is_timed_beside_the_linear_tagger(benchmarks: Any, tiny_encoder_folder: Path) -> None:
    task = benchmarks.method_speed.Task(3, 5, str(tiny_encoder_folder), repeats=1, threads=1)
    found = benchmarks.method_speed.sides(task, ("linear", "crf", "laner", "bilstm-crf"))
    assert list(found["training"])[4:] == ["label LSTM, naive", "CRF and Viterbi alone"]
    for side in (*found["training"].values(), *found["decoding"].values()):
        measured = side(1)
        assert measured.words == 15 and measured.seconds > 0
    assert [len(sentence.words) for sentence in task.batch()] == [5, 5, 5]


def test_the_selection_of_sentences_is_measured_on_a_generated_corpus(
    benchmarks: SimpleNamespace, tmp_path: Path
) -> None:
    module = benchmarks.corpus_selection
    corpus, names = module.generate(tmp_path, 300, 100)
    few = module.head(corpus, 50, tmp_path / "few.txt")
    costs = [module.select(corpus, names, True), module.select(few, names, False), module.search(corpus, names)]
    assert [cost.sentences for cost in costs] == [300, 50, 300] and costs[-1].mentions >= 600
    assert all(cost.list_seconds > 0 and cost.mebibytes > 10 for cost in costs)


def test_our_side_and_an_adapted_tagger_are_compared_on_a_bundled_sample(
    benchmarks: SimpleNamespace,
    tiny_encoder_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_process = benchmarks.peers.run

    def run_side_alone(command: list[str], **changes: str) -> None:
        if "prepare-data" in command:  # a new process would have to import everything
            crossner(*command[3:])
        else:
            run_process(command, **changes)

    monkeypatch.setattr(benchmarks.peers, "run", run_side_alone)
    output = tmp_path / "peers.csv"
    arguments = f"--targets sample-target --tools ours --seeds 3 --threads 1 --sentences 6 --updates 2 --encoder \
        {tiny_encoder_folder} --epochs 2 --output {output}".split()
    monkeypatch.setitem(benchmarks.peers.TOOLS, "ours", replace_rates(benchmarks.peers.TOOLS["ours"], (1e-3,)))
    benchmarks.peers.main(arguments)
    shown = capsys.readouterr().out
    assert re.search(
        r"\| crossner finetune \| +\d+\.\d\d \| 0\.001 \| +\d+\.\d\d \| +\d+ \| +[\d,]+ \| +[\d,]+ \|", shown
    )
    with output.open(encoding="utf-8") as stream:
        by_defaults, tuned = csv.DictReader(stream)
    assert (by_defaults["rate"], tuned["rate"], tuned["seed"], tuned["epochs"]) == ("", "0.001", "3", "2")
    assert 0 <= float(tuned["dev_f1"]) <= 100 and int(tuned["megabytes"]) > 100
    monkeypatch.setattr(benchmarks.peers.Comparison, "request", None)  # what was run is not run again
    benchmarks.peers.main(arguments)
    assert capsys.readouterr().out == shown
    with pytest.raises(TypeError):  # under other conditions it would be
        benchmarks.peers.main([*arguments, "--epochs", "3"])


def replace_rates(tool: Any, rates: tuple[float, ...]) -> Any:
    """The tool with these learning rates to choose from."""
    return dataclasses.replace(tool, rates=rates, first=rates[0], last=rates[-1])


@pytest.mark.parametrize(
    ("best", "tried"),
    [
        (1e-4, {5e-5, 1e-4, 3e-4, 1e-3}),
        (1e-3, {5e-5, 1e-4, 3e-4, 1e-3, 3e-3}),
        (1e-2, {5e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2}),
        (2e-5, {1e-5, 2e-5, 5e-5, 1e-4, 3e-4, 1e-3}),
    ],
)
def test_the_rate_that_is_best_on_dev_is_taken_and_the_grid_grows_where_it_is_at_the_edge(
    benchmarks: SimpleNamespace, tmp_path: Path, best: float, tried: set[float]
) -> None:
    peers, seen = benchmarks.peers, set()
    options = peers.read_arguments(["--seeds", "2,3", "--output", str(tmp_path / "peers.csv")])

    def measure(wanted: Any) -> Any:
        assert wanted.seed == 2
        seen.add(wanted.rate)
        return peers.Found(-abs(math.log(wanted.rate / best)), 0.0, 1.0, 1.0, 1)

    comparison = peers.Comparison(options, {}, tmp_path)
    comparison.measure = measure
    assert comparison.choose_rate("ai", "trainer") == best
    assert seen == tried
