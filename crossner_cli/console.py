"""What a person sees: bars or lines while a stage works, tables when it is done. The only module that imports rich."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from crossner_cli import figures
from crossner_cli.reports.blocks import WARNING, Line, Table
from crossner_cli.reports.catalogue import known_domain_tables, method_details, method_tables
from crossner_cli.reports.tables import manifest_tables
from crossner_cli.run.directory import Manifest
from crossner_cli.run.progress import Event, Notice, Progress, Work
from crossner_cli.run.storage import to_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID
    from rich.table import Table as RichTable

WIDTH_OF_PIPES = 100
SECONDS_BETWEEN_LINES = 10.0
BARS = (24, 8)  # widths
NARROWEST_TEXT, UNLIMITED = 12, 10_000


class Display(contextlib.AbstractContextManager["Display"], Protocol):
    """Shows events one by one, between entering and leaving."""

    def show(self, event: Event) -> None:
        """Show one event."""
        ...


@dataclass
class Task:
    """What is known of a task from its signs of life: the values told last, and its speed here and now.

    Speed is counted from the first sign, so that a task continued from a checkpoint does not look fast.
    """

    first: float
    started: float
    values: dict[str, float] = field(default_factory=dict)
    shown: float | None = None

    def seconds_left(self, progress: Progress, now: float) -> float | None:
        """Time left at the speed so far, if it can be told."""
        if progress.total is None or progress.done <= self.first or progress.done >= progress.total:
            return None
        return (now - self.started) * (progress.total - progress.done) / (progress.done - self.first)


class Tasks:
    """The tasks seen so far, by name."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.by_name: dict[str, Task] = {}

    def update(self, progress: Progress) -> Task:
        """Take note of a sign of life; a task that starts over is a new one."""
        task = self.by_name.get(progress.task)
        if task is None or progress.done < task.first:
            task = self.by_name[progress.task] = Task(progress.done, self.clock())
        task.values.update(progress.values)
        return task

    def describe(self, progress: Progress, task: Task) -> tuple[str, str, str]:
        """How far it is, its values, and the time left (empty where it cannot be told)."""
        left = task.seconds_left(progress, self.clock())
        rates_last = sorted(task.values.items(), key=lambda item: item[0].endswith("/s"))
        values = "  ".join(figures.value(name, number) for name, number in rates_last)
        return (
            figures.amount(progress.done, progress.total, progress.unit),
            values,
            "" if left is None else f"{figures.duration(left)} left",
        )


def is_finished(progress: Progress) -> bool:
    """Whether nothing of a task is left to do."""
    return progress.total is not None and progress.done >= progress.total


class Silence(contextlib.AbstractContextManager["Silence"]):
    """Shows nothing."""

    def show(self, event: Event) -> None:
        """Drop the event."""

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""


class Lines(contextlib.AbstractContextManager["Lines"]):
    """One line an event for log files and pipes: milestones and notices always, others now and then.

    The last sign of life of a task is held back until it is sure that no milestone says the same and more.

    Args:
        stream: Where to.
        verbose: Show every sign of life.
        clock: Seconds, from anywhere.
    """

    def __init__(self, stream: TextIO, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.verbose = stream, verbose
        self.tasks = Tasks(clock)
        self.held: dict[str, str] = {}
        self.written: dict[str, str] = {}

    def show(self, event: Event) -> None:
        """Write a line, or none if the task had one lately."""
        if isinstance(event, Notice):
            self._release()
            self._write(event.text)
            return
        task, now = self.tasks.update(event), self.tasks.clock()
        text = "  ".join(part for part in (event.task, *self.tasks.describe(event, task)) if part)
        self.held.pop(event.task, None)
        self._release()
        if is_finished(event) and not event.is_milestone and not self.verbose:
            self.held[event.task] = text
        elif event.is_milestone or self.verbose or task.shown is None or now - task.shown >= SECONDS_BETWEEN_LINES:
            task.shown = now
            if self.written.get(event.task) != text:  # the first update may end an epoch, too
                self._write(text)
            self.written[event.task] = text

    def _release(self) -> None:
        for text in self.held.values():
            self._write(text)
        self.held.clear()

    def _write(self, text: str) -> None:
        print(text, file=self.stream, flush=True)

    def __exit__(self, *_: object) -> None:
        """Write what is held back."""
        self._release()


class Bars(contextlib.AbstractContextManager["Bars"]):
    """One bar a task for terminals; a finished task becomes a line above the bars, as notices do.

    Args:
        verbose: Also leave a line at each milestone.
        clock: Seconds, from anywhere.
        console: Terminal to draw on; default: stderr.
    """

    def __init__(
        self, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic, console: Console | None = None
    ) -> None:
        self.verbose = verbose
        self.tasks = Tasks(clock)
        self.bars: dict[str, TaskID] = {}
        self.finished: dict[str, str] = {}
        self.progress = rich_progress(console)

    def __enter__(self) -> Bars:
        """Start drawing."""
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Turn finished bars into lines and leave the others as they are."""
        self._settle()
        self.progress.stop()

    def show(self, event: Event) -> None:
        """Move a bar, or write a line above the bars."""
        if isinstance(event, Notice):
            self._settle()
            self._write(event.text)
            return
        task = self.tasks.update(event)
        amount, values, left = self.tasks.describe(event, task)
        text = "  ".join(part for part in (event.task, amount, values, left) if part)
        self.finished.pop(event.task, None)
        self._settle()
        if is_finished(event):
            self.finished[event.task] = text
        elif event.is_milestone and self.verbose:
            self._write(text)
        fields: dict[str, Any] = {
            "total": event.total,
            "completed": event.done,
            "amount": amount,
            "values": values,
            "left": left,
        }
        if event.task in self.bars:
            self.progress.update(self.bars[event.task], **fields)
        else:
            self.bars[event.task] = self.progress.add_task(event.task, **fields)

    def _settle(self) -> None:
        for name, text in self.finished.items():
            self.progress.remove_task(self.bars.pop(name))
            self.progress.refresh()  # or the bar would be drawn once more, below the line
            self._write(text)
        self.finished.clear()

    def _write(self, text: str) -> None:
        self.progress.console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)


def rich_progress(console: Console | None = None) -> RichProgress:
    """Bars of rich with our columns; stdout is left alone, since data may go there."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress
    from rich.table import Column

    class Bar(BarColumn):
        """A bar as wide as what is told beside it leaves room for, in all rows alike."""

        def render(self, task: Any) -> Any:
            fields = ("amount", "values", "left")
            told = zip(*([each.description, *map(each.fields.get, fields)] for each in progress.tasks), strict=True)
            room = progress.console.width - sum(max(cell_len(text or "") + 1 for text in column) for column in told)
            self.bar_width = next((width for width in BARS if width <= room), 0)
            return super().render(task) if self.bar_width else ""

    progress = RichProgress(
        TextColumn("{task.description}", style="bold", markup=False),
        Bar(complete_style="cyan", finished_style="cyan", pulse_style="cyan"),
        TextColumn("{task.fields[amount]}", markup=False),
        # Wraps on narrow terminals, where cutting would lose numbers.
        TextColumn("{task.fields[values]}", markup=False, table_column=Column(overflow="fold")),
        TextColumn("{task.fields[left]}", style="dim", markup=False),
        console=console or Console(stderr=True, markup=False, emoji=False, highlight=False),
        redirect_stdout=False,
        redirect_stderr=True,
    )
    return progress


def follow(
    work: Work[Manifest], *, quiet: bool = False, verbose: bool = False, bars: bool = True
) -> tuple[Manifest, frozenset[str]]:
    """Run a stage to its end and show on stderr how it goes; return its manifest, and the notices that were shown.

    Args:
        work: The stage. It is closed whatever happens, so that its files and locks are let go.
        quiet: Show nothing.
        verbose: Show more.
        bars: Allow bars, where stderr is a terminal.
    """
    told: set[str] = set()
    with contextlib.closing(work), open_display(quiet=quiet, verbose=verbose, bars=bars) as display:
        while True:
            try:
                event = next(work)
            except StopIteration as end:
                manifest: Manifest = end.value
                return manifest, frozenset() if quiet else frozenset(told)
            if isinstance(event, Notice):
                told.add(event.text)
            display.show(event)


def open_display(*, quiet: bool, verbose: bool, bars: bool) -> Display:
    """Bars on a terminal, lines elsewhere."""
    if quiet:
        return Silence()
    return Bars(verbose=verbose) if bars and sys.stderr.isatty() else Lines(sys.stderr, verbose=verbose)


def show_manifest(
    manifest: Manifest, *, json: bool = False, to_stderr: bool = False, told: frozenset[str] = frozenset()
) -> None:
    """Show the result of a stage: tables for people, or the manifest as one JSON object.

    Args:
        manifest: Of the stage.
        json: Whether it is to be the JSON object.
        to_stderr: Where to: data may go to stdout.
        told: Notices that stand on stderr already. Where both are one terminal, warnings among them are not repeated.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    if json:
        print_json(dict(manifest), stream)
        return
    repeated = {f"{WARNING}{text}" for text in told} if stream.isatty() and sys.stderr.isatty() else set()
    blocks = manifest_tables(manifest)
    print_blocks([block for block in blocks if not (isinstance(block, Line) and block.text in repeated)], stream)


def show_known_domains(*, json: bool = False) -> None:
    """Show the data sets known by name."""
    from crossner_cli.data.known_domains import bundled_domains, known_domains

    known = known_domains()
    if json:
        record = {name: dataclasses.asdict(domain) for name, domain in known.items()}
        print_json({"known": record, "bundled": list(bundled_domains())}, sys.stdout)
    else:
        print_blocks(known_domain_tables(known, bundled_domains()), sys.stdout)


def show_methods(names: Sequence[str] = (), *, json: bool = False) -> None:
    """Show the methods named in full, or all in brief."""
    from crossner_cli.reports.method_facts import describe_methods

    methods = describe_methods(names)
    if json:
        print_json({"methods": [dataclasses.asdict(facts) for facts in methods]}, sys.stdout)
    elif names:
        for number, facts in enumerate(methods):
            print("\n" * bool(number), end="")
            print_blocks(method_details(facts), sys.stdout)
    else:
        print_blocks(method_tables(methods), sys.stdout)


def print_json(record: dict[str, Any], stream: TextIO) -> None:
    """Write one JSON object on one line, in ASCII, so that any encoding of the stream will do."""
    print(to_json(record), file=stream, flush=True)


def print_blocks(blocks: list[Line | Table], stream: TextIO) -> None:
    """Write lines and tables, one below the other."""
    from rich.console import Console
    from rich.text import Text

    is_terminal = stream.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else WIDTH_OF_PIPES
    console = Console(file=stream, width=width, markup=False, emoji=False, highlight=False, force_terminal=is_terminal)
    for number, block in enumerate(blocks):
        if number and (isinstance(block, Table) or isinstance(blocks[number - 1], Table)):
            console.print()
        if isinstance(block, Line):
            console.print(Text(block.text, style="bold" if block.is_headline else ""), soft_wrap=not is_terminal)
            continue
        drawn = rich_table(block)
        narrowest = console.measure(drawn, options=console.options.update(width=UNLIMITED)).minimum
        if is_terminal and narrowest > width:  # wrapped, its rows could not be read
            drawn = stacked_table(block)
            narrowest = console.measure(drawn, options=console.options.update(width=UNLIMITED)).minimum
        # What cannot be made narrow enough is left to the terminal to wrap: no number is ever cut.
        console.width = max(width, narrowest)
        console.print(Text(block.title, style="bold"))
        console.print(drawn)
        console.width = width


def stacked_table(table: Table) -> RichTable:
    """A table for narrow terminals: below the name of each row a line for each of its cells."""
    from rich.table import Table as RichTable

    drawn = RichTable(box=None, pad_edge=False, show_edge=False, show_header=False)
    drawn.add_column(no_wrap=True)
    drawn.add_column(overflow="fold", min_width=NARROWEST_TEXT)
    for number, row in enumerate((*table.rows, *table.summary)):
        if number:
            drawn.add_row()
        for place, (name, cell) in enumerate(zip(table.columns, row, strict=True)):
            drawn.add_row(f"  {name}" if place else name, cell, style="" if place else "cyan")
    return drawn


def rich_table(table: Table) -> RichTable:
    """A table as rich draws it: numbers to the right, below a rule what sums them up; only words may be wrapped."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    drawn = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(table.columns):
        texts = (row[number] for row in (table.columns, *table.rows, *table.summary))
        longest = max(len(line) for text in texts for line in text.split("\n"))
        may_wrap = number in table.texts and number > 0
        drawn.add_column(
            name, justify="left" if number in table.texts else "right", overflow="fold", no_wrap=not may_wrap,
            min_width=min(longest, NARROWEST_TEXT) if may_wrap else longest,
            header_style="bold", style="cyan" if number == 0 else "",
        )  # fmt: skip
    for row in table.rows:
        drawn.add_row(*row)
    if table.summary:
        drawn.add_section()
    for row in table.summary:
        drawn.add_row(*row, style="bold")
    return drawn
