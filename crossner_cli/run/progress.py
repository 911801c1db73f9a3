"""Progress of a stage: stages are generators of these events and return their manifest."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Progress:
    """The progress of a task, in units done."""

    task: str  # as ``finetune seed 1``
    done: float
    total: float | None = None  # if known
    unit: str = "steps"  # or ``sentences``, ``bytes``
    values: dict[str, float] = field(default_factory=dict)  # to show, as loss, dev F1, words a second
    is_milestone: bool = False  # worth a line in a log file, as the end of an epoch


@dataclass(frozen=True)
class Notice:
    """One sentence for the user, for instance on what was loaded, dropped or repaired."""

    text: str


Event = Progress | Notice
Work = Generator[Event, None, Result]


def exhaust(work: Generator[Any, None, Result]) -> Result:
    """Run a stage to its end without showing anything, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result
