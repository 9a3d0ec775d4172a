"""Reads time and memory of running processes (Linux)."""

import os
import pathlib
import re
import resource
import time

import psutil


def cpu_secs(pid: int) -> float:
    """Returns the CPU seconds of all threads of the process."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def pss_mb(pid: int) -> float:
    """Returns the proportional set size in MB: pages shared by n processes count 1/n in each."""
    return psutil.Process(pid).memory_full_info().pss / 1e6


def anonymous_mb(pid: int) -> float:
    """Returns the memory of the process in MB without file pages, which the kernel may drop."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    (kib,) = re.findall(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    return int(kib) * 1024 / 1e6


def secs_since_start() -> float:
    """Returns the seconds since this process started (to 0.01 s), including the interpreter's."""
    # psutil's create_time uses a boot time in whole seconds.
    fields = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22: time since boot
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def descendants_cpu_secs(timeout_secs: float = 60.0) -> float:
    """Waits for all descendants of this process; returns the CPU seconds of all so far.

    This process must be their subreaper (`harness.adopt_orphans`) to count those whose parents
    have ended.

    Raises:
      TimeoutError: If one still runs after `timeout_secs`.
    """
    deadline = time.monotonic() + timeout_secs
    while left := psutil.Process().children(recursive=True):
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {timeout_secs:g} s there are still {left}")
        psutil.wait_procs(left, timeout=1.0)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
