"""Reads time and memory of running processes (Linux)."""

import os
import pathlib
import re
import time

import psutil


def cpu_secs(pid: int) -> float:
    """CPU seconds the process has used, of all its threads."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def pss_mb(pid: int) -> float:
    """Proportional set size in MB: pages shared by n processes count 1/n in each."""
    return psutil.Process(pid).memory_full_info().pss / 1e6


def anonymous_mb(pid: int) -> float:
    """Memory of the process in MB without files, whose pages the kernel may drop and read again."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    (kib,) = re.findall(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    return int(kib) * 1024 / 1e6


def secs_since_start() -> float:
    """Seconds since this process was started (to 0.01 s), its interpreter's start included."""
    # psutil's create_time builds on a boot time in whole seconds.
    fields = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22 of all: since the boot
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
