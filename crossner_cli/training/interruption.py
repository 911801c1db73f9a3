"""Ctrl-C and SIGTERM during training: the current update is finished first, so that its result is kept."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """A context in which a first SIGINT or SIGTERM is noted, and a second SIGINT raises KeyboardInterrupt.

    A launcher sends SIGTERM after the SIGINT of the terminal.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._is_at_once = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():  # other threads cannot handle signals
            self._before = {each: signal.signal(each, self._take) for each in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Raise KeyboardInterrupt at the first signal inside, or at one from before."""
        self._is_at_once = True
        try:
            if self.is_asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._is_at_once = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._is_at_once or (self.is_asked and number == signal.SIGINT):
            raise KeyboardInterrupt
        self.is_asked = True
