"""Runs threads that end the program when one of them fails."""

import threading
from collections.abc import Callable

_failures: list[BaseException] = []


def start_thread(function: Callable[[], object], name: str) -> threading.Thread:
    """Runs `function` in a daemon thread; returns the thread.

    `raise_failures` raises its exception in the program's loop: without the thread, the program
    would silently do something other than intended.
    """

    def run() -> None:
        try:
            function()
        except BaseException as error:
            print(f"The thread {name!r} has failed ({error!r}): the program ends.", flush=True)
            _failures.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def raise_failures() -> None:
    """Raises the exception that has ended one of the threads. The program's loop calls it."""
    if _failures:
        raise _failures.pop(0)


class BackgroundCall:
    """A function call in its own thread, which can be polled for completion.

    call = BackgroundCall(compile_for_long)
    while not call.is_done(wait_secs=0.1):
        ...
    """

    def __init__(self, function: Callable[[], object]):
        """Begins the call."""
        self._function = function
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def is_done(self, wait_secs: float = 0.0) -> bool:
        """Returns whether the call has ended within `wait_secs`; raises its exception."""
        self._thread.join(wait_secs)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def _run(self) -> None:
        try:
            self._function()
        except BaseException as error:
            self._error = error
