"""Limits of time for work whose time must not grow with the square of its input."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail what takes longer; the limit is generous, as what it guards against takes minutes."""

    def fail(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
