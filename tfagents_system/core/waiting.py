"""Waits with a deadline and a reason, and limits how often a function is called."""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], object], timeout_secs: float, what: str, poll_secs: float = 0.05
) -> None:
    """Blocks until `condition()` is true; calls it every `poll_secs`.

    Raises:
      TimeoutError: After `timeout_secs`; the message says that it waited for `what`.
    """
    deadline = time.monotonic() + timeout_secs
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Gave up after {timeout_secs:g} s waiting for {what}")
        time.sleep(poll_secs)


class Throttled(Generic[T]):
    """Caches the result of a function that is called at most once per period.

    is_finished = Throttled(paths.finished.exists, period_secs=2.0)
    while not is_finished(): ...
    """

    def __init__(
        self, ask: Callable[[], T], period_secs: float, clock: Callable[[], float] = time.monotonic
    ):
        """Does not call the function yet."""
        self._ask, self._period_secs, self._clock = ask, period_secs, clock
        self._ask_at = clock()
        self._answer: T

    def __call__(self) -> T:
        """Returns the answer, at most `period_secs` old."""
        if (now := self._clock()) >= self._ask_at:
            self._ask_at = now + self._period_secs
            self._answer = self._ask()
        return self._answer
