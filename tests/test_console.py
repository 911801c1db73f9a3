"""Lines in pipes, bars on terminals, and tables whose numbers are never cut."""

import io
import os
import pickle
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builders.results import evaluated, trained
from rich.console import Console

from crossner_cli import console
from crossner_cli.console import Bars, Lines
from crossner_cli.reports.blocks import Block, Line, Table
from crossner_cli.run.progress import Event, Notice, Progress

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def lines_of(events: list[tuple[float, Event]], *, verbose: bool = False) -> list[str]:
    """What ``Lines`` writes of events at given times."""
    stream, times = io.StringIO(), [0.0]
    with Lines(stream, verbose=verbose, clock=lambda: times[-1]) as display:
        for time, event in events:
            times.append(time)
            display.show(event)
    return stream.getvalue().splitlines()


def steps(count: int, total: int, seconds: float = 1.0, task: str = "train") -> list[tuple[float, Event]]:
    return [(number * seconds, Progress(task, number, total)) for number in range(1, count + 1)]


def test_a_log_gets_at_most_one_line_in_ten_seconds_and_task_unless_it_is_verbose() -> None:
    assert lines_of(steps(35, 1000)) == [
        "train  1/1,000 steps",
        "train  11/1,000 steps  16:29 left",
        "train  21/1,000 steps  16:19 left",
        "train  31/1,000 steps  16:09 left",
    ]
    assert len(lines_of(steps(35, 1000), verbose=True)) == 35
    events = sorted(steps(5, 100, task="one") + steps(5, 100, task="two"), key=lambda item: item[0])
    assert lines_of(events) == ["one  1/100 steps", "two  1/100 steps"]


def test_a_log_gets_every_milestone_and_notice_and_the_end_of_a_task_once() -> None:
    milestones: list[tuple[float, Event]] = [
        (0.1 * number, Progress("train", number, 9, is_milestone=True)) for number in range(1, 4)
    ]
    assert len(lines_of([(0, Notice("start")), *milestones, (1, Notice("stop"))])) == 5
    same: list[tuple[float, Event]] = [(0, Progress("train", 1, 2)), (0, Progress("train", 1, 2, is_milestone=True))]
    assert lines_of(same) == ["train  1/2 steps"]
    assert lines_of([*steps(3, 3), (4, Notice("next"))]) == ["train  1/3 steps", "train  3/3 steps", "next"]
    milestone = Progress("train", 3, 3, values={"dev_f1": 61.2}, is_milestone=True)
    assert lines_of([*steps(3, 3), (4, milestone)])[1:] == ["train  3/3 steps", "train  3/3 steps  dev_f1 61.20"]


def test_a_line_keeps_values_and_tells_the_time_left_where_it_can_be_told() -> None:
    events: list[tuple[float, Event]] = [
        (0.0, Progress("train", 1, 9, values={"words/s": 2950.0, "loss": 0.4121})),
        (20.0, Progress("train", 2, 9, values={"dev_f1": 55.1})),
    ]
    assert lines_of(events)[1] == "train  2/9 steps  loss 0.412  dev_f1 55.10  2,950 words/s  2:20 left"
    continued: list[tuple[float, Event]] = [(0, Progress("train", 900, 1000)), (50, Progress("train", 950, 1000))]
    assert lines_of(continued)[-1].endswith("0:50 left")
    assert lines_of([(0, Progress("read", 1)), (20, Progress("read", 5))]) == ["read  1 steps", "read  5 steps"]


def draw(events: list[Event], width: int) -> str:
    """What is on a terminal at the end, without its codes."""
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=width, legacy_windows=False)
    with Bars(console=terminal) as display:
        for event in events:
            display.show(event)
    return ANSI.sub("", stream.getvalue())


@pytest.mark.parametrize(("width", "has_bar"), [(60, False), (80, False), (120, True), (200, True)])
def test_bars_show_every_number_at_any_width(width: int, has_bar: bool) -> None:
    values = {"epoch": 3.0, "loss": 0.412, "dev_f1": 55.1, "words/s": 2950.0}
    drawn = draw([Progress("finetune seed 1", 123, 4567, "updates", values)], width)
    assert all(text in drawn for text in ("finetune seed 1", "123/4,567", "0.412", "55.10", "2,950"))
    assert "…" not in drawn and ("━" in drawn) == has_bar


def test_messages_wrap_at_words_on_a_terminal_and_commands_stay_whole() -> None:
    code = "from crossner_cli.errors import write_problem; write_problem('word ' * 30, 'crossner finetune ' + '-' * 60)"
    written = ANSI.sub("", run_in_terminal(code, 40)).splitlines()
    assert written[0] == "Problem: word word word word" and set(" ".join(written[1:-1]).split()) == {"word"}
    assert all(len(line) <= 40 for line in written[:-1])
    assert written[-1] == f"Way out: crossner finetune {'-' * 60}"


@pytest.mark.parametrize(
    "show",
    [
        "console.print_blocks([Line(f'Next: {command}')], sys.stdout)",
        "console.follow(each for each in [Notice(f'  {command}')])",
        "write_problem('The run is out of date.', f'Bring it up to date.\\n{command}')",
    ],
)
def test_a_command_to_copy_is_never_cut(show: str) -> None:
    command = " ".join(["crossner adapt", *(f"--corpus /data/{number:03}/raw.txt" for number in range(60))])
    imports = (
        "import sys\nfrom crossner_cli import console\nfrom crossner_cli.errors import write_problem\n"
        "from crossner_cli.reports.blocks import Line\nfrom crossner_cli.run.progress import Notice\n"
    )
    written = ANSI.sub("", run_in_terminal(f"{imports}command = {command!r}\n{show}", 60))
    assert [line for line in re.split(r"[\r\n]", written) if line.rstrip().endswith(command)]


def test_the_next_command_of_status_is_whole_on_a_narrow_terminal(tmp_path: Path) -> None:
    command = f"crossner prepare-data --source DATASET --target DATASET --run {tmp_path / 'run'}"
    code = f"from crossner_cli.cli import app; app(['status', '--run', {str(tmp_path / 'run')!r}])"
    assert f"Next: {command}\n" in ANSI.sub("", run_in_terminal(code, 60))


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


def test_log_rows_do_not_interleave_with_bars_and_without_bars_nothing_steers_the_terminal() -> None:
    written = run_in_terminal(FOLLOWING.replace("BARS", "True").replace('print(f"data {number}")', "pass"), 120)
    assert "━" in written
    rows = [row for row in re.split(r"[\n\r]", ANSI.sub("", written)) if "warning" in row or "noted" in row]
    assert rows == [*(f"warning {number}" for number in range(1, 6)), "noted"]
    written = run_in_terminal(FOLLOWING.replace("BARS", "False"), 80)
    assert "━" not in written and "\x1b" not in written
    assert "data 5\n" in written


def rendered(blocks: list[Block], width: int) -> list[str]:
    """The lines of blocks on a terminal of this width."""
    code = (
        "import pickle, sys\nfrom crossner_cli.console import print_blocks\n"
        f"print_blocks(pickle.loads({pickle.dumps(blocks)!r}), sys.stdout)"
    )
    return [line.rstrip() for line in ANSI.sub("", run_in_terminal(code, width)).splitlines()]


def test_tables_and_lines_stay_whole_on_narrow_terminals() -> None:
    row = ("a name", *["12,345,678.90"] * 9, "some words that may be wrapped onto lines")
    table = Table("T", ("name", *["a long heading"] * 9, "text"), [row], [row], texts=(0, 10))
    lines = rendered([table], 40)
    assert sum(line.count("12,345,678.90") for line in lines) == 18
    assert all(len(line) <= 40 for line in lines), "row by row, a line for each cell"
    assert "name" in lines[1] and any(line.startswith("  a long heading ") for line in lines)
    lines = rendered([Table("T", ("model", *["politics"] * 5), [("linear", *["61.25 ± 1.25"] * 5)])], 70)
    assert lines[1].split() == ["model", *["politics"] * 5]
    # Deviations move below their means before a table is taken apart.
    assert [line.split() for line in lines[3:]] == [["linear", *["61.25"] * 5], ["±", "1.25"] * 5]
    assert rendered([Line("a few words and more of them")], 12) == ["a few words", "and more of", "them"]


def test_control_characters_from_outside_never_reach_a_terminal() -> None:
    hostile = "\x1b[2Jx\x9b\r"
    blocks = [Line(hostile), Table(hostile, (hostile,), [(hostile,)])]
    stream = io.StringIO()
    console.print_blocks(blocks, stream)
    with Lines(stream) as lines:
        lines.show(Notice(hostile))
    written = stream.getvalue()
    assert written.count("\ufffd[2Jx\ufffd\ufffd") == 5 and "\x1b" not in written and "\r" not in written
    assert "\x1b[2J" not in draw([Notice(hostile)], 80)


def test_the_folder_of_a_stage_is_named_at_its_end_and_quiet_shows_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_manifest(trained(60.0, outputs={}), run=Path("run"))
    assert capsys.readouterr().out.endswith("\nWritten to run/finetune\n")
    console.show_manifest(trained(60.0), run=Path("run"))
    assert "Written to" not in capsys.readouterr().out, "a record without outputs is no stage's"
    console.show_warnings(evaluated(("dev is test",), finetune=[61.0]))
    assert capsys.readouterr() == ("", "Warning: dev is test\n")
