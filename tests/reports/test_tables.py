"""What a person sees: lines in pipes, bars on terminals, tables whose numbers are never cut."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from crossner_cli import console, figures
from crossner_cli.console import Bars, Lines, follow, print_blocks
from crossner_cli.options import PrepareData
from crossner_cli.reports.tables import Line, Table, manifest_tables
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.progress import Event, Notice, Progress, Work, exhaust
from crossner_cli.stages import prepare_data

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines_of(events: list[tuple[float, Event]], *, verbose: bool = False) -> list[str]:
    """What ``Lines`` writes of events at given times."""
    stream, clock = io.StringIO(), Clock()
    with Lines(stream, verbose=verbose, clock=clock) as display:
        for clock.now, event in events:
            display.show(event)
    return stream.getvalue().splitlines()


def steps(count: int, total: int, seconds: float = 1.0, task: str = "train") -> list[tuple[float, Event]]:
    return [(number * seconds, Progress(task, number, total)) for number in range(1, count + 1)]


def test_a_log_gets_at_most_one_line_in_ten_seconds_and_task() -> None:
    assert lines_of(steps(35, 1000)) == [
        "train  1/1,000 steps",
        "train  11/1,000 steps  16:29 left",
        "train  21/1,000 steps  16:19 left",
        "train  31/1,000 steps  16:09 left",
    ]


def test_a_log_gets_every_milestone_and_notice() -> None:
    events: list[tuple[float, Event]] = [
        (0, Notice("start")),
        *[(0.1 * number, Progress("train", number, 9, is_milestone=True)) for number in range(1, 4)],
        (1, Notice("stop")),
    ]
    assert len(lines_of(events)) == 5


def test_a_milestone_that_says_what_the_line_before_said_is_not_repeated() -> None:
    events: list[tuple[float, Event]] = [(0, Progress("train", 1, 2)), (0, Progress("train", 1, 2, is_milestone=True))]
    assert lines_of(events) == ["train  1/2 steps"]


def test_verbose_logs_every_sign_of_life() -> None:
    assert len(lines_of(steps(35, 1000), verbose=True)) == 35


def test_tasks_have_their_own_lines() -> None:
    events = sorted(steps(5, 100, task="one") + steps(5, 100, task="two"), key=lambda item: item[0])
    assert lines_of(events) == ["one  1/100 steps", "two  1/100 steps"]


def test_a_finished_task_is_told_once() -> None:
    assert lines_of([*steps(3, 3), (4, Notice("next"))]) == ["train  1/3 steps", "train  3/3 steps", "next"]
    milestone = Progress("train", 3, 3, values={"dev_f1": 61.2}, is_milestone=True)
    assert lines_of([*steps(3, 3), (4, milestone)]) == ["train  1/3 steps", "train  3/3 steps  dev_f1 61.20"]


def test_values_told_once_stay_in_the_line() -> None:
    events = [
        (0.0, Progress("train", 1, 9, values={"words/s": 2950.0, "loss": 0.4121})),
        (20.0, Progress("train", 2, 9, values={"dev_f1": 55.1})),
    ]
    assert lines_of(list(events))[1] == "train  2/9 steps  loss 0.412  dev_f1 55.10  2,950 words/s  2:20 left"


def test_time_left_of_a_continued_task_counts_from_where_it_continued() -> None:
    events: list[tuple[float, Event]] = [(0, Progress("train", 900, 1000)), (50, Progress("train", 950, 1000))]
    assert lines_of(events)[-1].endswith("0:50 left")


def test_nothing_is_said_of_time_left_without_a_total() -> None:
    assert lines_of([(0, Progress("read", 1)), (20, Progress("read", 5))]) == ["read  1 steps", "read  5 steps"]


def working(*events: Event, closed: list[str] | None = None) -> Work[Manifest]:
    try:
        yield from events
    finally:
        if closed is not None:
            closed.append("closed")
    return {"stage": "done"}


def test_following_returns_the_manifest_and_writes_to_stderr_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert follow(working(Notice("[bold]as it is[/bold]"), Progress("read", 1, 1))) == (
        {"stage": "done"}, frozenset({"[bold]as it is[/bold]"}),
    )  # fmt: skip
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "[bold]as it is[/bold]\nread  1/1 steps\n"


def test_quiet_following_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert follow(working(Notice("x"), Progress("read", 1, 1)), quiet=True) == ({"stage": "done"}, frozenset())
    assert capsys.readouterr() == ("", "")


def test_abandoned_work_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Lines, event: Event) -> None:
        raise KeyboardInterrupt

    closed: list[str] = []
    monkeypatch.setattr(Lines, "show", interrupt)
    with pytest.raises(KeyboardInterrupt):
        follow(working(Notice("x"), closed=closed))
    assert closed == ["closed"]


def draw(events: list[Event], width: int) -> str:
    """What is on a terminal at the end, without its codes."""
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=width, legacy_windows=False)
    with Bars(console=terminal) as display:
        for event in events:
            display.show(event)
    return ANSI.sub("", stream.getvalue())


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_bars_show_every_number_at_any_width(width: int) -> None:
    values = {"epoch": 3.0, "loss": 0.412, "dev_f1": 55.1, "words/s": 2950.0}
    drawn = draw([Progress("finetune seed 1", 123, 4567, "updates", values)], width)
    assert all(text in drawn for text in ("finetune seed 1", "123/4,567", "0.412", "55.10", "2,950"))
    assert "…" not in drawn


def test_a_finished_task_leaves_a_line_and_no_bar() -> None:
    drawn = draw([Progress("one", 2, 2), Notice("note [x]"), Progress("two", 1, 2)], 100)
    assert "one  2/2 steps\n" in drawn and "note [x]\n" in drawn
    assert "one" not in drawn[drawn.rindex("note [x]") :]


def run_in_terminal(code: str, columns: int) -> str:
    """Run Python with all streams on a terminal of this width; return what it wrote."""
    mine, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    written = b""
    while piece := read_piece(mine):
        written += piece
    assert process.wait(timeout=60) == 0, written
    os.close(mine)
    return written.decode().replace("\r\n", "\n")


def read_piece(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux says so when the other side is closed
        return b""


FOLLOWING = """
import sys, warnings
from crossner_cli.console import follow
from crossner_cli.run.progress import Notice, Progress
def work():
    for number in range(1, 6):
        yield Progress("train", number, 9, values={"loss": 0.5})
        print(f"data {number}")
        print(f"warning {number}", file=sys.stderr)
    yield Notice("noted")
    return {}
follow(work(), bars=BARS)
"""


def test_log_rows_do_not_interleave_with_bars() -> None:
    written = run_in_terminal(FOLLOWING.replace("BARS", "True").replace('print(f"data {number}")', "pass"), 80)
    assert "━" in written
    rows = [row for row in re.split(r"[\n\r]", ANSI.sub("", written)) if "warning" in row or "noted" in row]
    assert rows == [*(f"warning {number}" for number in range(1, 6)), "noted"]


@pytest.mark.parametrize(("width", "has_bar"), [(80, False), (90, False), (110, True), (140, True)])
def test_a_bar_leaves_the_numbers_beside_it_room(width: int, has_bar: bool) -> None:
    shown = Console(file=io.StringIO(), width=width, force_terminal=True)
    values = {"epoch": 2.0, "loss": 11.717, "dev_f1": 50.0, "words/s": 7187.0}
    with Bars(console=shown) as bars:
        for name in ("joint-train, seed 1", "joint-train, seed 2"):
            bars.show(Progress(name, 19, 38, "updates", values))
        shown.print(bars.progress.get_renderable())
    lines = ANSI.sub("", shown.file.getvalue()).splitlines()[-2:]  # type: ignore[attr-defined]
    assert all(("━" in line) == has_bar for line in lines)
    assert ("7,187 words/s" in lines[-1]) == (width >= 90)


WARNING = """
import sys
from crossner_cli.console import follow, show_manifest
from crossner_cli.run.progress import Notice
manifest = {"stage": "prepare-data", "name": "prepare-data", "folder": "run/prepare-data", "result": {
    "domains": {}, "statistics": {"vocabulary_overlap": None}, "repairs": {}, "corpus": {},
    "warnings": ["few sentences"],
}}
def work():
    yield Notice("few sentences")
    return manifest
manifest, told = follow(work(), quiet=QUIET)
show_manifest(manifest, told=told)
"""


@pytest.mark.parametrize("quiet", [False, True])
def test_a_warning_stands_on_a_terminal_once(quiet: bool) -> None:
    assert run_in_terminal(WARNING.replace("QUIET", str(quiet)), 80).count("few sentences") == 1


def test_no_bars_are_drawn_where_data_goes_to_the_same_terminal() -> None:
    written = run_in_terminal(FOLLOWING.replace("BARS", "False"), 80)
    assert "━" not in written and "\x1b" not in written
    assert "data 5\n" in written


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The manifest of the bundled sample."""
    run = tmp_path_factory.mktemp("run")
    options = PrepareData(
        run=run, source="sample-source", target="sample-target", corpus=[Path("sample-target")],
        entities=[Path("sample-target")],
    )  # fmt: skip
    return exhaust(prepare_data.run(RunDirectory(run), options))


def trained(*scores: float, **options: Any) -> Manifest:
    """A manifest as the training stages write it."""
    start = {
        "start": "pretrain-source", "loaded": 103, "new": 2, "left": 1, "carried_types": ["person"],
        "fresh_types": ["politician"],
    }  # fmt: skip
    seeds = {
        str(seed): {
            "folder": f"tagger-seed-{seed}", "dev_f1": score, "epoch": 7, "epochs": 15, "updates": 12345,
            "words_per_second": 3100, "start": start,
        }
        for seed, score in enumerate(scores, start=1)
    }  # fmt: skip
    result = {"seeds": seeds, "dev_f1": sum(scores) / len(scores), "start": start}
    result["dev_f1_deviation"] = 1.25 if len(scores) > 1 else None
    return {"stage": "finetune", "name": "finetune", "options": options, "result": result, "seconds": 3725.0}


ADAPTED: dict[str, Any] = {
    "stage": "dapt",
    "name": "dapt-token",
    "seconds": 61.0,
    "result": {
        "perplexity_before": 5432.1, "perplexity_after": 12.3, "updates": 1500, "epochs": 3,
        "losses": [3.25, 2.5, 2.125], "subwords_per_second": 40321, "start": {},
        "corpus": {"level": "integrated", "blocks": 4000, "block_size": 128, "cut_lines": 17},
    },
}  # fmt: skip


def scored(**models: list[float]) -> Manifest:
    """A manifest as ``evaluate`` writes it: F1 of each seed of each model."""
    records = {}
    for label, values in models.items():
        mean = {"mean": sum(values) / len(values), "deviation": 0.75 if len(values) > 1 else None}
        types = [
            {"type": "planet", "f1": 1.25, "precision": 2.5, "recall": 3.75, "support": 12},
            {"type": "star", "f1": 4.25, "precision": 5.5, "recall": 6.75, "support": 3456},
        ]
        records[label] = {
            **dict.fromkeys(("f1", "precision", "recall", "macro_f1"), mean),
            "other_mode": {"mode": "strict", "f1": mean},
            "support": 4321, "repaired": 1234, "unreadable_words": 0, "shortened_words": 0, "words_per_second": None,
            "discarded_sequences": 2345,
            "per_type": types, "seeds": {str(seed): {} for seed in range(len(values))}, "unknown_types": ["moon"],
            "extra_types": [],
        }  # fmt: skip
    result = {
        "domain": "politics", "split": "test", "mode": "conll", "tool": "seqeval 1", "repair": "rule", "sentences": 651,
        "words": 27585, "warnings": ["mind the gap"], "models": records,
    }  # fmt: skip
    return {"stage": "evaluate", "name": "evaluate", "result": result, "seconds": 1.0}


TAGGED: dict[str, Any] = {
    "stage": "predict",
    "name": "predict",
    "result": {
        "unsure_documents": 1300, "entities": {"star": 1200, "planet": 34}, "sentences": 5000,
        "words": 98765, "words_per_second": 4321,
        "blank_documents": 2, "repaired": 0, "rewritten_words": 0, "unreadable_words": 7, "shortened_words": 0,
        "discarded_sequences": 11,
        "repairs": {"odd lines": 3}, "is_complete": True, "output": "out/entities.jsonl",
    },
}  # fmt: skip


def shown(manifest: Manifest, capsys: pytest.CaptureFixture[str]) -> str:
    console.show_manifest(manifest)
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_prepared_data_are_counted_by_domain_split_and_type(
    prepared: Manifest, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(prepared, capsys)
    for domain in prepared["result"]["domains"].values():
        assert domain["name"] in text
        for counts in domain["splits"].values():
            assert f"{counts['words']:,}" in text
        assert all(name in text for name in domain["types"])
    for level, counts in prepared["result"]["corpus"]["levels"].items():
        assert re.search(rf"{level} +{counts['sentences']:,} ", text)
    assert "Vocabulary overlap" in text


def test_prepared_data_of_one_domain_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = prepare_data.run(RunDirectory(tmp_path), PrepareData(run=tmp_path, target="sample-target"))
    text = shown(exhaust(work), capsys)
    assert "sample-target" in text and "source" not in text


def test_repairs_and_warnings_are_shown(prepared: Manifest, capsys: pytest.CaptureFixture[str]) -> None:
    result = {**prepared["result"], "repairs": {"source": {"odd [x] tags": 1234}}, "warnings": ["mind [the] gap"]}
    text = shown({**prepared, "result": result}, capsys)
    assert re.search(r"odd \[x\] tags +1,234", text)
    assert "Warning: mind [the] gap" in text


def test_the_number_that_matters_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(trained(61.2), capsys).startswith("finetune: dev F1 61.20\n")
    assert shown(trained(60.0, 62.5), capsys).startswith("finetune: dev F1 61.25 ± 1.25 over 2 seeds\n")
    assert shown(ADAPTED, capsys).startswith("dapt-token: held-out perplexity 5,432.10 -> 12.30\n")


def test_training_shows_a_row_a_seed_then_the_mean(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(trained(60.0, 62.5), capsys)
    assert re.search(r"1 +60\.00 +7/15 +12,345 +3,100 +tagger-seed-1", text)
    assert re.search(r"2 +62\.50 +7/15", text)
    assert re.search(r"mean +61\.25 ± 1\.25", text)
    assert "mean" not in shown(trained(60.0), capsys)
    assert "103 tensors loaded, 2 new, 1 left" in text
    assert "1:02:05" in text


def test_one_model_is_shown_with_precision_and_recall_by_type_the_frequent_ones_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(scored(finetune=[61.0, 62.0]), capsys)
    assert text.startswith("F1 61.50 ± 0.75 on politics test\n")
    assert re.search(r"F1 +61\.50 ± 0\.75\n", text)
    assert re.search(r"repaired tags +1,234\n", text)
    assert "repaired tags in gold" not in text
    assert re.search(r"discarded sequences +2,345\n", text)
    assert re.search(r"star +3,456 +4\.25 +5\.50 +6\.75\nplanet +12 +1\.25", text)
    assert "unreadable" not in text
    assert "types it does not know: moon" in text and "Warning: mind the gap" in text
    assert "Read as conll, seqeval 1: rule" in text


def test_several_models_are_shown_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(scored(finetune=[61.0], joint=[63.0, 64.0]), capsys)
    assert "best of 2: joint" in text.splitlines()[0]
    assert re.search(r"score +finetune +joint\n", text)
    assert re.search(r"F1 +61\.00 +63\.50 ± 0\.75\n", text)
    assert re.search(r"star +3,456 +4\.25 +4\.25\n", text)


def test_a_long_path_of_a_model_is_called_by_its_end_and_told_whole(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(scored(**{"some/long/path/to/predictions.jsonl": [61.0]}), capsys)
    assert re.search(r"\nscore +predictions\.jsonl\n", text)
    assert "\npredictions.jsonl is some/long/path/to/predictions.jsonl\n" in text
    several = {f"a/long/{name}/path/to/predictions.jsonl": [61.0] for name in ("one", "two")}
    text = shown(scored(**several), capsys)
    assert re.search(r" one/path/to/ +two/path/to/ *\nscore +predictions\.jsonl +predictions\.jsonl\n", text)


def test_tagging_tells_what_it_found_and_what_it_could_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_manifest(TAGGED, to_stderr=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "predict: 1,234 entities in 5,000 sentences, 98,765 words, 4,321 words/s",
        "star 1,200, planet 34",
        "documents left out by --min-score: 1,300",
        "blank documents: 2",
        "unreadable words: 7",
        "discarded sequences: 11",
        "odd lines: 3",
        "Written to out/entities.jsonl",
    ]


def test_adaptation_without_held_out_text_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    result = {**ADAPTED["result"], "perplexity_before": None, "perplexity_after": None}
    assert "no held-out text" in shown({**ADAPTED, "result": result}, capsys)


def test_json_is_the_manifest_on_one_ascii_line(prepared: Manifest, capsys: pytest.CaptureFixture[str]) -> None:
    console.show_manifest({**prepared, "name": "päckchen"}, json=True)
    text = capsys.readouterr().out
    assert json.loads(text)["name"] == "päckchen"
    assert text.isascii() and text.count("\n") == 1


def test_pipes_get_no_codes_and_no_cut_numbers(prepared: Manifest, capsys: pytest.CaptureFixture[str]) -> None:
    for manifest in (prepared, trained(60.0, 62.5), ADAPTED, scored(one=[1.0], two=[2.0, 3.0]), TAGGED):
        text = shown(manifest, capsys)
        assert "\x1b" not in text and "…" not in text


def test_the_width_of_pipes_is_fixed(
    prepared: Manifest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = set()
    for columns in ("20", "80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        texts.add(shown(prepared, capsys))
    assert len(texts) == 1


def test_tables_show_their_numbers_whole_on_narrow_terminals() -> None:
    code = """
from crossner_cli.console import print_blocks
from crossner_cli.reports.tables import Table
import sys
row = ("a name", *["12,345,678.90"] * 9, "some words that may be wrapped onto lines")
print_blocks([Table("T", ("name", *["a long heading"] * 9, "text"), [row], [row], texts=(0, 10))], sys.stdout)
"""
    narrow = run_in_terminal(code, 40)
    assert narrow.count("12,345,678.90") == 18
    lines = re.sub(r"\x1b\[[0-9;]*m", "", narrow).splitlines()
    assert all(len(line) <= 40 for line in lines), "row by row, a line for each cell"
    assert "name" in narrow and "  a long heading" in narrow


def text_of(blocks: list[Line | Table]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Line):
            yield block.text
        else:
            for row in (block.columns, *block.rows, *block.summary):
                assert len(row) == len(block.columns)
                yield from row


def test_an_epoch_that_dev_did_not_choose_is_not_called_the_best() -> None:
    for keep, told, other in (("best", "best epoch", "epoch kept"), ("last", "epoch kept", "best epoch")):
        shown = list(text_of(manifest_tables(trained(60.0, keep=keep))))
        assert told in shown and other not in shown


def test_the_time_of_a_stage_that_was_interrupted_is_that_since_it_was_continued() -> None:
    for continued in (False, True):
        stream = io.StringIO()
        print_blocks(manifest_tables({**trained(60.0), "continued": continued}), stream)
        assert (" since it was continued" in stream.getvalue()) == continued


def test_every_cell_of_every_table_is_printed(prepared: Manifest) -> None:
    for manifest in (prepared, trained(60.0, 62.5), ADAPTED, scored(one=[1.0], two=[2.0, 3.0]), TAGGED):
        blocks = manifest_tables(manifest)
        stream = io.StringIO()
        print_blocks(blocks, stream)
        printed = stream.getvalue()
        assert all(part in printed for text in text_of(blocks) for part in text.split())


@given(st.floats(min_value=0, max_value=10**7))
def test_durations_read_back_to_the_second(seconds: float) -> None:
    parts = [int(part) for part in figures.duration(seconds).split(":")]
    hours, minutes, rest = [0] * (3 - len(parts)) + parts
    assert hours * 3600 + minutes * 60 + rest == round(seconds)
    assert minutes < 60 and rest < 60


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (figures.duration(41.2), "0:41"),
        (figures.duration(None), "–"),
        (figures.duration(float("inf")), "–"),
        (figures.score(61.196), "61.20"),
        (figures.score(None), "–"),
        (figures.spread(61.2, 0.4), "61.20 ± 0.40"),
        (figures.spread(61.2, None), "61.20"),
        (figures.count(1234567), "1,234,567"),
        (figures.percent(1, 0), "–"),
        (figures.value("loss", 1.0), "loss 1.000"),
        (figures.value("loss", float("nan")), "loss nan"),
        (figures.value("learning_rate", 0.00005), "learning_rate 5.0e-05"),
        (figures.value("dev_f1", 100.0), "dev_f1 100.00"),
        (figures.value("epoch", 3.0), "epoch 3"),
        (figures.value("words/s", 2950.4), "2,950 words/s"),
        (figures.amount(1234, 5000, "updates"), "1,234/5,000 updates"),
        (figures.amount(1_200_000, 3_400_000_000, "bytes"), "0.0/3.4 GB"),
        (figures.amount(10, 999, "bytes"), "10/999 bytes"),
        (figures.amount(10, None, "files"), "10 files"),
    ],
)
def test_numbers_read_alike_everywhere(found: str, wanted: str) -> None:
    assert found == wanted
