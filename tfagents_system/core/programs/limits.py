"""Checks the limits of the shell or container: open files, threads, shared memory."""

import math
import os
import resource
from collections.abc import Callable
from typing import NamedTuple

from tfagents_system.core.process.cgroups import tasks_left
from tfagents_system.core.state.disk import format_bytes

ENOUGH_FILES = 4096  # enough for any number of programs on one host
FILES_PER_PROGRAM, THREADS_PER_PROGRAM = 64, 32  # lower bounds of what a program uses
MAPPED_BYTES = 4e9  # address space that TensorFlow may map, far more than it uses
SHARED_BYTES = 128e6  # of /dev/shm; containers have 64 MB by default


class Shortage(NamedTuple):
    """A limit that is too low."""

    text: str
    advice: str
    is_fatal: bool  # programs would fail; otherwise some environments


def raise_file_limit() -> None:
    """Raises the soft limit of open files, if it is low, for this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < ENOUGH_FILES:  # -1 is no limit
        wanted = ENOUGH_FILES if hard < 0 else min(hard, ENOUGH_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def shortages(
    num_programs: int,
    limit_of: Callable[[int], tuple[int, int]] = resource.getrlimit,
    left: Callable[[], float] = tasks_left,
    shared_memory: str = "/dev/shm",
) -> list[Shortage]:
    """Returns the limits of this process that are too low for a run of `num_programs` programs.

    Args:
      num_programs: On this host.
      limit_of: Returns soft and hard limit; see `resource.getrlimit`.
      left: Returns the number of threads that the container has left.
      shared_memory: Folder of shared memory.
    """
    found = []
    files = _bound(limit_of(resource.RLIMIT_NOFILE)[1])
    if files < (needed := num_programs * FILES_PER_PROGRAM):
        found.append(Shortage(f"{files:.0f} open files (ulimit -Hn) for {needed}",
                              "Raise ulimit -n, or have fewer workers.", True))  # fmt: skip
    # The limit is per user, over all their programs, and does not apply to root.
    user = _bound(limit_of(resource.RLIMIT_NPROC)[0]) if os.geteuid() else math.inf
    threads = min(user, left())
    if threads < (needed := num_programs * THREADS_PER_PROGRAM):
        found.append(Shortage(f"{threads:.0f} threads (ulimit -u, pids.max) for {needed}",
                              "Raise ulimit -u or the container's limit (docker: --pids-limit), "
                              "or have fewer workers.", True))  # fmt: skip
    mapped = _bound(limit_of(resource.RLIMIT_AS)[0])
    if mapped < MAPPED_BYTES:
        found.append(Shortage(f"{format_bytes(mapped)} of addresses (ulimit -v) a program",
                              "TensorFlow may need more: ulimit -v unlimited.", False))  # fmt: skip
    shared = _size_of_disk(shared_memory)
    if shared < SHARED_BYTES:
        found.append(Shortage(f"{format_bytes(shared)} of shared memory ({shared_memory})",
                              "Environments of several processes may need more "
                              "(docker: --shm-size=1g).", False))  # fmt: skip
    return found


def _bound(limit: int) -> float:
    return math.inf if limit == resource.RLIM_INFINITY else float(limit)


def _size_of_disk(folder: str) -> float:
    try:
        disk = os.statvfs(folder)
    except OSError:  # there is none
        return 0.0
    return float(disk.f_blocks) * disk.f_frsize
