"""Reads time and memory of running processes (Linux)."""

import os
import pathlib
import re
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
