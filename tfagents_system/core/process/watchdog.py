"""Ends a program that hangs, with a dump of its stacks."""

import faulthandler
import time
from collections.abc import Callable

_STDERR = 2  # the real standard error; a progress bar or a test may have replaced sys.stderr


class Watchdog:
    """Ends the process with exit code 1 if `feed` is not called for about `timeout_secs`.

        watchdog.feed()   # before each call that may hang; far cheaper than an env step
        watchdog.rest()   # before a wait that may take longer

    Works while other code holds Python's lock, because it uses faulthandler's thread. A process
    has only one of these, so only one watchdog may be fed.
    """

    def __init__(self, timeout_secs: float, clock: Callable[[], float] = time.monotonic):
        """Rests until the first `feed`; `timeout_secs` > 0 is kept to within a tenth."""
        self._timeout_secs = timeout_secs
        self._clock = clock
        self._fed_until = -float("inf")

    @property
    def is_fed(self) -> bool:
        """Whether it waits for the next `feed`."""
        return self._fed_until > -float("inf")

    def feed(self, times: float = 1) -> None:
        """Restarts the timeout; if the watchdog rested, with `times` the usual timeout."""
        now = self._clock()
        if now >= self._fed_until:  # arming starts a thread, so not at every call
            faulthandler.dump_traceback_later(times * self._timeout_secs, exit=True, file=_STDERR)
            self._fed_until = now + 0.1 * self._timeout_secs

    def rest(self) -> None:
        """Suspends the timeout until the next `feed`."""
        if self.is_fed:
            faulthandler.cancel_dump_traceback_later()
            self._fed_until = -float("inf")
