"""Prints lines on standard output above one line that changes in place."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

from tfagents_system.core.display import printable, printable_lines


class Terminal:
    """Prints lines; on a terminal, also the current state as a line that is overwritten."""

    def __init__(
        self,
        stream: TextIO | None = None,
        period_secs: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
    ):
        """`stream` defaults to standard output; states are at least `period_secs` apart."""
        self._stream = stream or sys.stdout
        self._is_terminal = self._stream.isatty()
        self._period_secs = period_secs
        self._clock = clock
        self._shown_at: float | None = None  # None: no state is on the screen

    def print(self, text: str) -> None:
        """Prints a permanent line, in place of the current state."""
        clear = "" if self._shown_at is None else "\r\033[K"
        self._shown_at = None
        print(clear + printable_lines(text), file=self._stream, flush=True)

    def show(self, make_text: Callable[[], str]) -> None:
        """Shows `make_text()` as the current state, if the last one is old enough."""
        if not self._is_terminal:
            return
        now = self._clock()
        if self._shown_at is None or now - self._shown_at >= self._period_secs:
            self._shown_at = now
            width = shutil.get_terminal_size().columns - 1  # a second line would not be overwritten
            text = printable(make_text())[:width]
            print(f"\r\033[K{text}", end="", file=self._stream, flush=True)
