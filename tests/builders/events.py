"""What the work of a stage tells on its way."""

from collections.abc import Generator
from typing import Any


def drain(work: Generator[Any, None, Any]) -> tuple[Any, list[Any]]:
    """Do the work to its end: its result, and its events."""
    events = []
    while True:
        try:
            events.append(next(work))
        except StopIteration as end:
            return end.value, events
