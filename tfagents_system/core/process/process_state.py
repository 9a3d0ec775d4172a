"""Reads and restores process state that programs depend on and user code may change."""

import ctypes
import dataclasses
import faulthandler
import functools
import gc
import locale
import os
import pathlib
import re
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from tfagents_system.core.process.package_state import PACKAGE_ITEMS
from tfagents_system.core.process.state_item import StateItem

SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE")
_ACTION_BYTES = 256  # more than any system's struct sigaction
_STATUS = pathlib.Path("/proc/self/status")


def _all() -> Iterator[StateItem]:
    for name in SIGNALS:
        if hasattr(signal, name):
            number = getattr(signal, name)
            yield StateItem(
                f"the handler of {name}",
                functools.partial(_handler, number),
                functools.partial(_set_handler, number),
            )
    yield StateItem("the signals that are blocked", _mask, _set_mask)
    yield StateItem("the alarm", _has_alarm, _set_alarm)  # its handler would raise in our code
    yield StateItem("the file that signals wake up", _wakeup_file, _set_wakeup_file)
    yield StateItem("the fault handler", faulthandler.is_enabled, _set_fault_handler)
    yield StateItem("the warnings that are errors", _strict_filters, _set_strict_filters)
    yield _attribute(sys, "excepthook")
    yield _attribute(threading, "excepthook")
    yield StateItem("the thread switch interval", sys.getswitchinterval, sys.setswitchinterval)
    yield StateItem("the garbage collector", gc.isenabled, _set_garbage_collector)
    if hasattr(os, "sched_getaffinity"):
        yield StateItem(
            "the CPUs that it may use",
            functools.partial(os.sched_getaffinity, 0),
            functools.partial(os.sched_setaffinity, 0),
        )
    yield StateItem("the working directory", _working_directory, os.chdir, is_lent=True)
    yield StateItem("the umask", _umask, os.umask, is_lent=True)
    yield StateItem("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit, True)
    yield StateItem("the locale", _locale, _set_locale, is_lent=True)
    yield StateItem(
        "the time-out of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout, True
    )
    yield StateItem("sys.argv", lambda: list(sys.argv), _set_arguments, is_lent=True)
    for stream in ("stdin", "stdout", "stderr"):
        yield _attribute(sys, stream, is_lent=True, is_steady=False)  # progress bars change them


def _attribute(owner: Any, name: str, **kind: bool) -> StateItem:
    read = functools.partial(getattr, owner, name)
    return StateItem(f"{owner.__name__}.{name}", read, functools.partial(setattr, owner, name),
                     **kind)  # fmt: skip


@functools.cache
def _libc() -> Any:
    """C's library; None where it has no `sigaction`."""
    try:
        libc = ctypes.CDLL(None)
        return libc if libc.sigaction else None
    except (OSError, AttributeError):
        return None


@dataclasses.dataclass(frozen=True)
class _Handler:
    """A signal's handler, in Python and in C: C libraries set theirs without Python's knowledge."""

    python: Any
    c: int | None = None  # address
    action: bytes = dataclasses.field(default=b"", compare=False)  # C's struct, with its padding


def _handler(number: int) -> _Handler:
    libc = _libc()
    if libc is None:
        return _Handler(signal.getsignal(number))
    action = ctypes.create_string_buffer(_ACTION_BYTES)
    libc.sigaction(int(number), None, action)
    address = ctypes.c_void_p.from_buffer(action).value
    return _Handler(signal.getsignal(number), address, action.raw)


def _set_handler(number: int, handler: _Handler) -> None:
    if handler.python is not None:  # None: it was not installed from Python
        signal.signal(number, handler.python)
    if handler.action:
        _libc().sigaction(int(number), handler.action, None)


def _mask() -> set[Any]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def _set_mask(mask: set[Any]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _has_alarm() -> bool:
    return signal.getitimer(signal.ITIMER_REAL)[0] > 0


def _set_alarm(is_set: bool) -> None:
    if not is_set:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _wakeup_file() -> int:
    descriptor = signal.set_wakeup_fd(-1)
    _set_wakeup_file(descriptor)
    return descriptor


def _set_wakeup_file(descriptor: int) -> None:
    try:
        signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    except (OSError, ValueError):  # closed meanwhile
        signal.set_wakeup_fd(-1)


def _set_fault_handler(is_enabled: bool) -> None:
    if is_enabled:
        faulthandler.enable(sys.__stderr__ or 2)
    else:
        faulthandler.disable()


def _set_garbage_collector(is_enabled: bool) -> None:
    (gc.enable if is_enabled else gc.disable)()


def _strict_filters() -> list[Any]:
    return [each for each in warnings.filters if each[0] == "error"]


def _set_strict_filters(strict: list[Any]) -> None:
    """Drops filters that were not there before; the others are the user's choice."""
    filters: Any = warnings.filters
    filters[:] = [f for f in filters if f[0] != "error" or f in strict]
    warnings._filters_mutated()  # type: ignore[attr-defined]  # private: clears a cache


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return None


def _umask() -> int:
    try:
        found = re.search(rb"^Umask:\s*([0-7]+)", _STATUS.read_bytes(), re.MULTILINE)
    except OSError:
        found = None
    if found:
        return int(found[1], 8)
    umask = os.umask(0o077)  # can only be read by setting it; 077 protects files made meanwhile
    os.umask(umask)
    return umask


def _locale() -> str:
    return locale.setlocale(locale.LC_ALL)


def _set_locale(name: str) -> None:
    locale.setlocale(locale.LC_ALL, name)


def _set_arguments(arguments: list[str]) -> None:
    sys.argv[:] = arguments


STATE_ITEMS = (*_all(), *PACKAGE_ITEMS)
