"""Waits with a deadline and a reason."""

import time
from collections.abc import Callable


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
