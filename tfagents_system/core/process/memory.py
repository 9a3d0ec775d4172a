"""Reads the memory of this process and of this machine."""

import os
import pathlib

from tfagents_system.core.process import cgroups


def resident_mb() -> float:
    """Returns the resident memory of this process in MB; 0 if the system does not report it."""
    return _resident_and_files()[0]


def own_mb() -> float:
    """Returns the resident memory in MB without pages of files (shared libraries)."""
    resident, files = _resident_and_files()
    return resident - files


def _resident_and_files() -> tuple[float, float]:
    try:
        _, resident, files, *_ = pathlib.Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0.0, 0.0
    page_mb = os.sysconf("SC_PAGE_SIZE") / 1e6
    return int(resident) * page_mb, int(files) * page_mb


def available_bytes() -> float:
    """Returns the memory that is free for programs of this machine or container, in bytes."""
    return min(_meminfo("MemAvailable"), cgroups.memory_left())


def total_bytes() -> float:
    """Returns the memory of this machine or container, in bytes."""
    return min(_meminfo("MemTotal"), cgroups.memory_limit())


def _meminfo(key: str) -> float:
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith(f"{key}:"))
    return 1024.0 * int(kilobytes)
