"""Guards our programs against user code that runs inside them.

    with guest.visit("TrainParams.env_ctor"):
        environment = params.env_ctor()

Whatever the block raises, even SystemExit, leaves it as a UserCodeError; a ConfigError stays one.
Process state that the block has changed is restored (process_state.py) and reported, once for each
kind. Some of it, such as the working directory, is lent: user code finds its own value again at its
next visit.
"""

import contextlib
import os
import pathlib
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from tfagents_system.core.errors import ConfigError, Interrupt, StorageError, SupersededError
from tfagents_system.core.process.process_state import STATE_ITEMS
from tfagents_system.core.process.state_item import StateItem
from tfagents_system.core.process.watchdog import Watchdog

T = TypeVar("T")

LOOK_PERIOD_SECS = 0.05  # between checks of the state after frequent calls, such as env steps
_BY_NAME = {each.name: each for each in STATE_ITEMS}
PATIENCE = 10  # an import, or making networks, may take this many times as long as an env step
_OURS = pathlib.Path(__file__).parents[2]
# Libraries that user code calls: a message names the frame that called them.
_LIBRARIES = ("tf_agents", "tensorflow", "keras", "numpy", "gym", "gymnasium", "gin")


class UserCodeError(Exception):
    """User code raised, or asked the program to exit; `__cause__` is its exception."""

    kept_nothing = False  # True if this start of the program has kept no env step

    def __init__(self, message: str, reason: str, place: tuple[str, int] | None = None):
        """`reason` is the exception's type and message, `place` its file and line."""
        super().__init__(message)
        self.reason, self.place = reason, place

    @property
    def reason_and_place(self) -> str:
        """The reason with the file and line that raised it: a bare assert gives no reason."""
        return _with_place(self.reason, self.place)


def _with_place(reason: str, place: tuple[str, int] | None) -> str:
    return f"{reason} ({place[0]}:{place[1]})" if place else reason


def failure_of(what: str, error: BaseException) -> BaseException:
    """Returns the exception to raise after `what` raised `error`: `error` itself if it is ours."""
    if isinstance(error, (ConfigError, StorageError, SupersededError, UserCodeError, Interrupt)):
        return error
    text = str(error).strip() or "no message"
    if isinstance(error, SystemExit) and not isinstance(error.code, str):
        text = f"exit code {error.code or 0}"
    reason = f"{type(error).__name__}: {text}"
    place = place_of(error)
    return UserCodeError(f"{what} raised {_with_place(reason, place)}", reason, place)


def place_of(error: BaseException) -> tuple[str, int] | None:
    """Returns file and line of the innermost frame outside our code and known libraries.

    None if there is no such frame because our code has raised, on a value from user code.
    """
    frames = [(frame.filename, frame.lineno or 0) for frame in _frames(error)]
    theirs = [frame for frame in frames if not _is_library(frame[0])]
    if not theirs and frames and _is_ours(frames[-1][0]):
        return None
    others = [frame for frame in frames if not _is_ours(frame[0])]
    found = theirs or others or frames
    return found[-1] if found else None


def user_traceback(error: BaseException) -> str:
    """Returns the traceback of user code's exception, without our frames above it."""
    cause = error
    while isinstance(cause, UserCodeError) and cause.__cause__:
        cause = cause.__cause__
    frames = list(_frames(cause))
    while frames and _is_ours(frames[0].filename):
        frames.pop(0)
    head = "Traceback (most recent call last):\n" if frames else ""
    shown = traceback.format_list(frames) + traceback.format_exception_only(cause)
    return head + "".join(shown)


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _is_ours(filename: str) -> bool:
    return pathlib.Path(filename).is_relative_to(_OURS)


def _is_library(filename: str) -> bool:
    parts = pathlib.Path(filename).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts[:-1]:
            package = parts[parts.index(folder) + 1]
            return package.removesuffix(".py") in _LIBRARIES
    return _is_ours(filename) or filename.startswith(("<", sysconfig.get_path("stdlib")))


class Guest:
    """Keeps our process state and user code's, and times visits."""

    def __init__(self) -> None:
        """Knows no state before `remember`, and has no time limit before `watch`."""
        self._ours: dict[str, Any] = {}  # steady items, since `remember`
        self._theirs: dict[str, Any] = {}  # user code's values of lent items
        self._lent: dict[str, Any] = {}  # our programs' values of the same items
        self._told: set[str] = set()
        self._is_inside = False
        self._look_at = 0.0
        self._watchdog: Watchdog | None = None
        self.was_visited = False
        self.has_stepped = False  # an env step of this process has succeeded
        self.mark: Callable[[bool], object] | None = None  # told of visits before that step

    def remember(self) -> None:
        """Records the current state of the process as ours, when a program or command begins."""
        sys.path[:] = map(os.path.abspath, sys.path)  # "" is the working directory
        required = {each.name: each.required for each in STATE_ITEMS if each.required is not None}
        self._put_back("an import, a variable of the shell, or ~/.keras/keras.json", required)
        self._ours = {each.name: each.read() for each in STATE_ITEMS if each.is_steady} | required

    @contextlib.contextmanager
    def watching(self, timeout_secs: float) -> Iterator[None]:
        """Ends the process if a visit within the block takes longer than `timeout_secs`.

        A frequent call is watched until the next one, or until a visit, such as calling `close`.
        """
        before = self._watchdog
        self.watch(timeout_secs)
        try:
            yield
        finally:
            if self._watchdog:
                self._watchdog.rest()
            self._watchdog = before

    def watch(self, timeout_secs: float) -> Watchdog:
        """Limits each call of user code to this time from now on; returns the watchdog."""
        self._watchdog = Watchdog(timeout_secs)
        return self._watchdog

    def visit(self, what: str, is_patient: bool = False) -> "Visit":
        """Returns a context for a call of user code that is not made in every env step.

        Args:
          what: Name of the call, for messages.
          is_patient: Whether it may take longer than an env step.
        """
        return Visit(self, what, PATIENCE if is_patient else 1)

    def call_often(self, what: str, function: Callable[..., T], *arguments: Any) -> T:
        """Returns `function(*arguments)`, a call too frequent for a full visit: an env step."""
        if self.mark:
            with self.visit(what):
                return function(*arguments)
        if self._watchdog:
            self._watchdog.feed()
        lends = bool(self._theirs) and not self._is_inside and _is_main_thread()
        if lends:
            self._lend()
        try:
            return function(*arguments)
        except BaseException as error:
            if (failure := failure_of(what, error)) is error:
                raise
            raise failure from error
        finally:
            if lends:
                self._take_back()
            if time.monotonic() >= self._look_at:
                self._look(what)

    def note_step(self) -> None:
        """Records that an env step has succeeded."""
        self.has_stepped, self.mark = True, None

    def _lend(self) -> None:
        for name, value in self._theirs.items():
            with contextlib.suppress(Exception):  # such as a folder that is gone
                _BY_NAME[name].write(value)

    def _take_back(self) -> None:
        for name in self._theirs:
            self._theirs[name] = _BY_NAME[name].read()
            with contextlib.suppress(Exception):
                _BY_NAME[name].write(self._lent[name])

    def _look(self, what: str) -> None:
        self._look_at = time.monotonic() + LOOK_PERIOD_SECS
        if not self._is_inside and _is_main_thread():
            is_lent = self._theirs.keys()  # lent items have been taken back
            self._put_back(what, {n: v for n, v in self._ours.items() if n not in is_lent})

    def _put_back(self, what: str, ours: dict[str, Any]) -> None:
        changed: list[tuple[StateItem, bool]] = []
        for each in STATE_ITEMS:
            if each.name not in ours:
                continue
            now = each.read()
            if now == ours[each.name]:
                self._theirs.pop(each.name, None)
                continue
            with contextlib.suppress(Exception):  # such as a folder that is gone
                each.write(ours[each.name])
            if each.is_lent:
                self._theirs[each.name] = now
                self._lent[each.name] = ours[each.name]
            changed.append((each, each.read() == ours[each.name]))
        for each, is_back in changed:
            if each.name not in self._told:
                self._told.add(each.name)
                kept = " for our programs; user code keeps its own" if each.is_lent else ""
                print(
                    f"Note: {what} changed {each.name}, which was put back{kept}."
                    if is_back
                    else f"Note: {what} changed {each.name}, which could not be put back.",
                    file=sys.stderr,
                    flush=True,
                )


class Visit:
    """One call of user code; see `Guest.visit`. A visit within a visit changes nothing."""

    def __init__(self, guest: Guest, what: str, patience: float):
        """Begins with the block."""
        self._guest, self._what, self._patience = guest, what, patience
        self._ours: dict[str, Any] | None = None  # of the outermost visit of the main thread

    def __enter__(self) -> None:
        guest = self._guest
        if guest._is_inside or not _is_main_thread():
            return
        self._ours = {each.name: each.read() for each in STATE_ITEMS} | guest._ours
        guest._is_inside = guest.was_visited = True
        if guest.mark:
            guest.mark(True)
        if guest._watchdog:
            guest._watchdog.rest()
            guest._watchdog.feed(self._patience)
        guest._lend()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        guest = self._guest
        if self._ours is not None:
            if guest._watchdog:
                guest._watchdog.rest()
            guest._put_back(self._what, self._ours)
            if guest.mark:
                guest.mark(False)
            guest._is_inside = False
            self._ours = None
        if error is not None and (failure := failure_of(self._what, error)) is not error:
            raise failure from error


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


GUEST = Guest()  # one per process, like the state that it guards
