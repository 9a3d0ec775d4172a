"""What a program tells the status line about its progress."""

import time
from collections.abc import Callable
from typing import Any

from tfagents_system.core.files import write_json_atomically
from tfagents_system.core.paths import ExperimentPaths


class StatusReporter:
    """Replaces `status/<program>.json` at most once every `period_secs`."""

    def __init__(
        self,
        paths: ExperimentPaths,
        program: str,
        period_secs: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Makes the status folder."""
        self._path = paths.status(program)
        self._path.parent.mkdir(exist_ok=True)
        self._period_secs = period_secs
        self._clock = clock
        self._reported_at = float("-inf")

    def report(self, phase: str, make_fields: Callable[[], dict[str, Any]] = dict) -> None:
        """Writes the phase, the time and `make_fields()`, called only if a report is due."""
        if self._clock() - self._reported_at >= self._period_secs:
            self.report_now(phase, make_fields())

    def report_now(self, phase: str, fields: dict[str, Any]) -> None:
        """Writes whether due or not."""
        write_json_atomically(self._path, {"time": time.time(), "phase": phase} | fields)
        self._reported_at = self._clock()


class RateMeter:
    """Events per second over the time between two readings."""

    def __init__(self, count: int = 0, clock: Callable[[], float] = time.monotonic):
        """Starts measuring at `count` events."""
        self._clock = clock
        self._count, self._time = count, clock()

    def rate_at(self, count: int) -> float:
        """Returns the mean rate since the last reading, and begins the next one."""
        now = self._clock()
        elapsed = max(now - self._time, 1e-9)
        rate = (count - self._count) / elapsed
        self._count, self._time = count, now
        return rate
