"""Handles processes that user code starts: they inherit nothing of ours, and we end them.

A process belongs to a program if it descends from it (the nearest ancestor that is a subreaper
adopts orphans), or if its environment has the mark that each start of a program passes on. Only
Linux shows this; elsewhere no process is found.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

MARK_VARIABLE = "SERVICE_MARK"  # unique to one start of a program, and inherited by what it starts
GRACE_SECS = 2.0  # from SIGTERM to SIGKILL
POLL_SECS = 0.02
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37  # linux/prctl.h


class Process(NamedTuple):
    """A process, distinguished from a later one with the same id."""

    pid: int
    began: int  # clock ticks since the machine's start


def adopt_orphans() -> Callable[[], None]:
    """Makes this process the subreaper of its descendants, also after an exec.

    Returns:
      A function that undoes it.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    library = ctypes.CDLL(None)
    before = ctypes.c_int(0)
    library.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    library.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return lambda: library.prctl(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def keep_descriptors() -> None:
    """Keeps child processes from inheriting this process's locks, pipes and other descriptors.

    That holds for every program that is executed, by whatever means, and for forks by Python.
    """
    inherited = []
    for number in _open_descriptors():
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            if number > 2 and os.get_inheritable(number):
                os.set_inheritable(number, False)
                inherited.append((number, os.fstat(number)))

    def close_inherited() -> None:
        for number, known in inherited:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(number), known):  # it may be another file by now
                    os.close(number)

    os.register_at_fork(after_in_child=close_inherited)


def close_descriptors() -> None:
    """Closes all inherited descriptors except standard input, output and error."""
    for number in _open_descriptors():
        if number > 2:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(number)


def _open_descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]
    except OSError:  # a system or sandbox without this folder
        return []


def began(pid: int) -> int:
    """Returns the start time of a living process; see `Process`."""
    return int(_stat(pathlib.Path(f"/proc/{pid}"))[19])


def descendants(pid: int | None = None) -> set[Process]:
    """Returns the living processes that descend from `pid`, by default from this process."""
    children: dict[int, list[Process]] = {}
    for process, parent in _living():
        children.setdefault(parent, []).append(process)
    found: set[Process] = set()
    left = [os.getpid() if pid is None else pid]
    while left:
        new = [process for process in children.get(left.pop(), []) if process not in found]
        found.update(new)
        left += [process.pid for process in new]
    return found


def marked(marks: Collection[str]) -> set[Process]:
    """Returns the living processes with one of `marks`, except this one."""
    wanted = {f"{MARK_VARIABLE}={mark}".encode() for mark in marks}
    return {
        process
        for process, _ in _living()
        if process.pid != os.getpid() and wanted & set(_environ(process.pid))
    }


def leftovers() -> set[Process]:
    """Returns the living processes that this start of the program has started."""
    mark = os.environ.get(MARK_VARIABLE)
    return descendants() | (marked([mark]) if mark else set())


def end(
    find: Callable[[], set[Process]], grace_secs: float = GRACE_SECS, kill_secs: float = 5.0
) -> int:
    """Terminates the processes that `find` returns, repeatedly, then kills them.

    Blocks until none is left, at most `grace_secs` + `kill_secs`. Returns how many there were.
    """
    asked: set[Process] = set()
    kill_at = time.monotonic() + grace_secs
    give_up_at = kill_at + kill_secs
    while (left := find()) and time.monotonic() < give_up_at:
        if time.monotonic() >= kill_at:
            _signal(left, signal.SIGKILL)
        else:
            _signal(left - asked, signal.SIGTERM)
            _signal(left - asked, signal.SIGCONT)  # wakes a stopped one
        asked |= left
        time.sleep(POLL_SECS)
    return len(asked)


@contextlib.contextmanager
def leaving_none_behind() -> Iterator[None]:
    """Ends processes that the block leaves running, in any group or session, at any depth."""
    before = descendants()
    undo = adopt_orphans()
    try:
        yield
    finally:
        end(lambda: descendants() - before)
        undo()


def _signal(processes: Collection[Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            os.kill(process.pid, number)


def _living() -> Iterator[tuple[Process, int]]:
    """Yields each process that is not a zombie, and its parent's id."""
    try:
        pids = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:  # not Linux
        return
    for pid in pids:
        folder = pathlib.Path("/proc", pid)
        try:
            fields = _stat(folder)
        except OSError:  # ended meanwhile
            continue
        state, parent, began = fields[0], int(fields[1]), int(fields[19])
        if state not in (b"Z", b"X"):
            yield Process(int(pid), began), parent


def _stat(folder: pathlib.Path) -> list[bytes]:
    """Returns the fields of /proc/PID/stat from the third, its state, on."""
    return (folder / "stat").read_bytes().rpartition(b")")[2].split()


def _environ(pid: int) -> list[bytes]:
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # ended meanwhile, or another user's
        return []
