"""Records when the training state was last saved, and why not since."""

import threading
import time
from collections.abc import Callable

from tfagents_system.core.meters import format_duration

LONG_SAVE_SECS = 120.0  # a save that lasts longer is reported


class SaveRecord:
    """Records the result of each attempt to save; any thread may call it.

    record.begin()
    record.succeed(train_step)   # or record.fail("No space left on device")
    record.problem               # "4 min (3 attempts): No space left on device"; None if saved
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        """Starts without a save."""
        self._clock = clock
        self._lock = threading.Lock()
        self._saved_at = clock()
        self._began_at: float | None = None
        self._num_failures, self._reason = 0, ""
        self.train_step: int | None = None  # of the newest complete checkpoint

    def begin(self) -> None:
        """Records the start of a save."""
        with self._lock:
            self._began_at = self._clock()

    def succeed(self, train_step: int) -> None:
        """Records that the state of `train_step` is completely on the disk."""
        with self._lock:
            self._saved_at, self._began_at = self._clock(), None
            self._num_failures, self.train_step = 0, train_step

    def fail(self, reason: str) -> None:
        """Records that the save was abandoned, with the reason."""
        with self._lock:
            self._began_at = None
            self._num_failures, self._reason = self._num_failures + 1, reason

    @property
    def failed(self) -> bool:
        """Whether the last attempt failed."""
        return self._num_failures > 0

    @property
    def reason(self) -> str:
        """Why the last attempt failed."""
        return self._reason

    @property
    def problem(self) -> str | None:
        """The time since the last save, and the reason; None if the last attempt succeeded."""
        with self._lock:
            now = self._clock()
            age = format_duration(now - self._saved_at)
            if self._began_at is not None and now - self._began_at >= LONG_SAVE_SECS:
                writing = format_duration(now - self._began_at)
                return f"{age}: the replay server has been writing for {writing}"
            if self._num_failures:
                plural = "s" if self._num_failures > 1 else ""
                return f"{age} ({self._num_failures} attempt{plural}): {self._reason}"
            return None
