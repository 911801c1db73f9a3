"""Bars or lines while a stage works, tables when it is done. The only module that imports rich."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Table
from crossner_cli.run.directory import Manifest
from crossner_cli.run.progress import Event, Notice, Progress, Work
from crossner_cli.run.storage import to_json
from crossner_cli.stages.table import make_tables

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID
    from rich.table import Table as RichTable

Result = TypeVar("Result")

WIDTH_OF_PIPES = 100
WIDTH_WITH_BARS = 110  # leaves room for the numbers beside a bar
SECONDS_BETWEEN_LINES = 10.0
BREAKS = re.compile(r" (?=± |to )")
LONGEST_WORD, UNLIMITED = 16, 10_000  # longer words of a table, such as paths, may be cut in two


@dataclass
class Task:
    """A task in progress: its latest values, its last line, and its speed, counted since a continuation."""

    first: float
    started: float
    values: dict[str, float] = field(default_factory=dict)
    shown: float = -math.inf
    text: str = ""


class Lines(contextlib.AbstractContextManager["Lines"]):
    """Lines for log files and pipes: notices, milestones and ends of tasks always, other events now and then.

    With ``verbose`` every event is a line. Without a stream nothing is shown. The clock counts seconds, from anywhere.
    """

    def __init__(
        self, stream: TextIO | None, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stream, self.verbose, self.clock = stream, verbose, clock
        self.tasks: dict[str, Task] = {}

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def show(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, Notice):
            self.write(event.text)
        else:
            self.show_progress(event, *self.describe(event))

    def describe(self, progress: Progress) -> tuple[Task, str]:
        """Describe the progress of a task, with its latest values and the time left at the speed so far.

        A task that starts over is a new one.
        """
        now = self.clock()
        task = self.tasks.get(progress.task)
        if task is None or progress.done < task.first:
            task = self.tasks[progress.task] = Task(progress.done, now)
        task.values.update(progress.values)
        rates_last = sorted(task.values.items(), key=lambda item: item[0].endswith("/s"))
        parts = [figures.value(name, number) for name, number in rates_last]
        if progress.total is not None and task.first < progress.done < progress.total:
            left = (now - task.started) * (progress.total - progress.done) / (progress.done - task.first)
            parts.append(f"{figures.duration(left)} left")
        return task, "  ".join([figures.amount(progress.done, progress.total, progress.unit), *parts])

    def show_progress(self, progress: Progress, task: Task, text: str) -> None:
        """Write a line, unless the task had one recently, or the same one."""
        if not progress.done and progress.total is None:
            return  # nothing is known yet
        now = self.clock()
        is_due = self.verbose or progress.is_milestone or is_finished(progress)
        if text != task.text and (is_due or now - task.shown >= SECONDS_BETWEEN_LINES):
            self.write(f"{progress.task}  {text}")
            task.shown, task.text = now, text

    def write(self, text: str) -> None:
        """Write a line."""
        if self.stream is not None:
            print(figures.message(text), file=self.stream, flush=True)


def is_finished(progress: Progress) -> bool:
    """Return whether a task is finished."""
    return progress.total is not None and progress.done >= progress.total


class Bars(Lines):
    """One bar per task for terminals; a finished task becomes a line above the bars, as notices do."""

    def __init__(
        self, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic, console: Console | None = None
    ) -> None:
        super().__init__(None, verbose=verbose, clock=clock)
        self.bars: dict[str, TaskID] = {}
        self.waiting: TaskID | None = None
        self.progress = rich_progress(console)

    def __enter__(self) -> Bars:
        """Start drawing."""
        self.progress.start()
        self._show_waiting()
        return self

    def _show_waiting(self) -> None:
        """While no task has a bar, show a moving one, so that the command does not seem to hang."""
        if self.bars and self.waiting is not None:
            self.progress.remove_task(self.waiting)
            self.waiting = None
        elif not self.bars and self.waiting is None:
            self.waiting = self.progress.add_task("working", total=None, text="")

    def __exit__(self, *_: object) -> None:
        """Leave the bars as they are."""
        if self.waiting is not None:
            self.progress.remove_task(self.waiting)
        self.progress.stop()

    def show_progress(self, progress: Progress, task: Task, text: str) -> None:
        """Move a bar, or write a line above the bars."""
        if is_finished(progress):
            if progress.task in self.bars:
                self.progress.remove_task(self.bars.pop(progress.task))
                self._show_waiting()
                self.progress.refresh()  # else the bar would be drawn again below the line
            if text != task.text:
                self.write(f"{progress.task}  {text}")
        else:
            if progress.is_milestone and self.verbose:
                self.write(f"{progress.task}  {text}")
            if progress.task not in self.bars:
                self.bars[progress.task] = self.progress.add_task(progress.task, text="")
                self._show_waiting()
            bar = self.bars[progress.task]
            self.progress.update(bar, total=progress.total, completed=progress.done, text=text)
        task.text = text

    def write(self, text: str) -> None:
        """Write a line above the bars."""
        whole, text = bool(figures.COMMAND.search(text)), figures.message(text)
        self.progress.console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=whole)


def rich_progress(console: Console | None = None) -> RichProgress:
    """Make rich's bars with our columns; stdout is left alone, since data may go there."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as RichProgress
    from rich.table import Column

    console = console or Console(stderr=True, markup=False, emoji=False, highlight=False)
    bar = BarColumn(24, complete_style="cyan", finished_style="cyan", pulse_style="cyan")
    return RichProgress(
        SpinnerColumn(),
        TextColumn("{task.description}", style="bold", markup=False),
        *([bar] if console.width >= WIDTH_WITH_BARS else []),
        # Wraps on narrow terminals, where cutting would lose numbers.
        TextColumn("{task.fields[text]}", markup=False, table_column=Column(overflow="fold")),
        console=console,
        redirect_stdout=False,
        redirect_stderr=True,
    )


@contextlib.contextmanager
def show_waiting(text: str) -> Iterator[None]:
    """Show on stderr what is waited for: a spinner on a terminal, else a line."""
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True, highlight=False).status(text):
            yield
    else:
        print(text, file=sys.stderr)
        yield


def follow(work: Work[Result], *, quiet: bool = False, verbose: bool = False, bars: bool = True) -> Result:
    """Run a stage to its end with its progress on stderr; return its result.

    The stage is closed in any case, so that its files and locks are released. Bars are drawn on terminals only.
    """
    draws = bars and sys.stderr.isatty() and not quiet
    with (
        contextlib.closing(work),
        Bars(verbose=verbose) if draws else Lines(None if quiet else sys.stderr, verbose=verbose) as display,
    ):
        while True:
            try:
                display.show(next(work))
            except StopIteration as end:
                result: Result = end.value
                return result


def show_manifest(
    manifest: Manifest, *, run: Path | None = None, step: str | None = None, json: bool = False, to_stderr: bool = False
) -> None:
    """Show the result of a stage: tables for people, or the manifest as one JSON object.

    With the run directory, the stage's folder is named, and the next step is below. If data go to stdout, the result
    goes to stderr.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    if json:
        print_json(dict(manifest), stream)
        return
    blocks = make_tables(manifest)
    if run is not None and "outputs" in manifest:
        blocks.append(Line(f"Written to {run / manifest['name']}"))
    if step is not None:
        blocks.append(Line(f"Next: {step}"))
    print_blocks(blocks, stream)


def show_warnings(manifest: Manifest) -> None:
    """Show on stderr only what changes the meaning of a result."""
    blocks = make_tables(manifest)
    print_blocks([block for block in blocks if isinstance(block, Line) and block.is_warning], sys.stderr)


def show(blocks: Sequence[Block], record: dict[str, Any], *, json: bool) -> None:
    """Show lines and tables on stdout, or the record they are made from as one JSON object."""
    if json:
        print_json(record, sys.stdout)
    else:
        print_blocks(blocks, sys.stdout)


def print_json(record: dict[str, Any], stream: TextIO) -> None:
    """Write one JSON object on one line, in ASCII, which every encoding of the stream can hold."""
    print(to_json(record), file=stream, flush=True)


def print_blocks(blocks: Sequence[Block], stream: TextIO) -> None:
    """Write lines and tables, one below the other; lines wrap at words on terminals and stay whole in pipes."""
    from rich.console import Console
    from rich.text import Text

    is_terminal = stream.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else WIDTH_OF_PIPES
    console = Console(file=stream, width=width, markup=False, emoji=False, highlight=False, force_terminal=is_terminal)
    for number, block in enumerate(blocks):
        if number and (isinstance(block, Table) or isinstance(blocks[number - 1], Table)):
            console.print()
        if isinstance(block, Line):
            text = Text(figures.message(block.text), style="bold" if block.is_headline else "")
            console.print(text, soft_wrap=not is_terminal or bool(figures.COMMAND.search(block.text)))
            continue
        console.print(Text(figures.printable(block.title), style="bold"))
        console.print(fit_table(block, console))


def fit_table(table: Table, console: Console) -> RichTable:
    """Draw a table as wide as the console allows: whole, with numbers and heads broken at words, or row by row."""
    for each in (table, break_at_words(table)):
        drawn = rich_table(each)
        if console.measure(drawn, options=console.options.update(width=UNLIMITED)).minimum <= console.width:
            return drawn
    return stacked_table(table)


def break_at_words(table: Table) -> Table:
    """Put deviations and ends of intervals below their numbers, and the words of heads below each other."""

    def narrow(row: tuple[str, ...]) -> tuple[str, ...]:
        cells = (cell if number in table.texts else BREAKS.sub("\n", cell) for number, cell in enumerate(row))
        return tuple(cells)

    return dataclasses.replace(
        table,
        columns=tuple(name.replace(" ", "\n") for name in table.columns),
        rows=[narrow(row) for row in table.rows],
        summary=[narrow(row) for row in table.summary],
    )


def stacked_table(table: Table) -> RichTable:
    """Draw a table for narrow consoles: below the name of each row, one line per cell."""
    from rich.table import Table as RichTable

    drawn = RichTable(box=None, pad_edge=False, show_edge=False, show_header=False)
    drawn.add_column()
    drawn.add_column(overflow="fold")
    for number, row in enumerate((*table.rows, *table.summary)):
        if number:
            drawn.add_row()
        for place, (name, cell) in enumerate(zip(table.columns, row, strict=True)):
            heading = " ".join(name.split("\n"))
            drawn.add_row(f"  {heading}" if place else heading, figures.printable(cell), style="" if place else "cyan")
    return drawn


def rich_table(table: Table) -> RichTable:
    """Draw a table with numbers to the right, and a summary below a rule; only words wrap."""
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table as RichTable

    drawn = RichTable(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for number, name in enumerate(table.columns):
        is_text = number in table.texts
        cells = [row[number] for row in (*table.rows, *table.summary)]
        parts = [part for cell in cells for part in (cell.split() if is_text else cell.split("\n"))]
        longest = max(map(cell_len, parts), default=0)
        drawn.add_column(
            figures.printable(name),
            justify="left" if is_text else "right",
            overflow="fold",
            no_wrap=not is_text,
            min_width=max(*map(cell_len, name.split("\n")), min(longest, LONGEST_WORD) if is_text else longest),
            header_style="bold",
            style="cyan" if number == 0 else "",
        )
    for row in table.rows:
        drawn.add_row(*map(figures.printable, row))
    if table.summary:
        drawn.add_section()
    for row in table.summary:
        drawn.add_row(*map(figures.printable, row), style="bold")
    return drawn
