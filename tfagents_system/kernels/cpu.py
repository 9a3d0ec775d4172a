"""Reads the CPU's features."""

import pathlib
from collections.abc import Collection

CPUINFO = pathlib.Path("/proc/cpuinfo")


def cpu_flags(cpuinfo: pathlib.Path = CPUINFO) -> frozenset[str]:
    """Returns the instruction sets of the first CPU by their Linux names; none if unknown."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except FileNotFoundError:  # as on macOS
        return frozenset()
    flags = (line.partition(":")[2] for line in lines if line.startswith("flags"))
    return frozenset(next(flags, "").split())


def missing_flags(needed: Collection[str], flags: Collection[str]) -> list[str]:
    """Returns the `needed` instruction sets that are not in `flags`, in order."""
    return sorted(set(needed) - set(flags))
