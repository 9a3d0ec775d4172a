"""Work that takes seconds, beside a thread that has to answer sooner."""

import threading
from collections.abc import Callable


class BackgroundCall:
    """A call of a function in a thread of its own, which dies with the process.

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
        """Returns whether the call has ended within `wait_secs`; raises what it has raised."""
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
