"""Keeps failures of reporting (records, films, status) from ending a run."""

import contextlib
import traceback
from types import TracebackType

from tfagents_system.core.errors import SupersededError

_said: set[tuple[str, type[BaseException]]] = set()
_num_failed = 0


def num_failed() -> int:
    """Returns how many reports of this process have failed."""
    return _num_failed


class OnlyReports(contextlib.ContextDecorator):
    """Suppresses and reports exceptions of its block, or of the function that it decorates.

        @OnlyReports("TensorBoard events")
        def write(self, ...) -> None: ...

    The first exception of a kind is printed with its traceback; all are counted for the status.
    `SpaceGuard`, used inside, handles a full disk. SupersededError is not suppressed.
    """

    def __init__(self, what: str):
        """`what` names the report in the message."""
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, SupersededError):
            return False
        global _num_failed
        _num_failed += 1
        if (self._what, type(error)) not in _said:
            _said.add((self._what, type(error)))
            lines = "".join(traceback.format_exception(error)).rstrip()
            print(f"{lines}\nREPORT FAILED: {self._what} ({type(error).__name__}: {error}). Work "
                  "continues; further ones are counted.", flush=True)  # fmt: skip
        return True
