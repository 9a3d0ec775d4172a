"""Reads the CPU's features, and chooses the instructions that the compiled ops use."""

import pathlib
from collections.abc import Collection
from typing import NamedTuple

CPUINFO = pathlib.Path("/proc/cpuinfo")


class InstructionSet(NamedTuple):
    """Instructions that the source of the compiled ops can be built for."""

    cpu_flags: tuple[str, ...]  # names in /proc/cpuinfo
    compiler_flags: tuple[str, ...]


# The fastest first. CPUs without the last one cannot run the compiled ops.
INSTRUCTION_SETS = (
    InstructionSet(
        ("avx512f", "avx512bw", "avx512_vnni"), ("-mavx512f", "-mavx512bw", "-mavx512vnni")
    ),
    InstructionSet(("avx2", "fma"), ("-mavx2", "-mfma")),
)


def cpu_flags(cpuinfo: pathlib.Path = CPUINFO) -> frozenset[str]:
    """Returns the features of the first CPU by their Linux names; none if unknown."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except FileNotFoundError:  # as on macOS
        return frozenset()
    flags = (line.partition(":")[2] for line in lines if line.startswith("flags"))
    return frozenset(next(flags, "").split())


def instruction_set(flags: Collection[str]) -> InstructionSet | None:
    """Returns the fastest set that a CPU with `flags` has; None if it has none."""
    return next((one for one in INSTRUCTION_SETS if not _missing(one, flags)), None)


def missing_flags(flags: Collection[str]) -> list[str]:
    """Returns what a CPU with `flags` lacks for the compiled ops, in order; nothing if it can."""
    return [] if instruction_set(flags) else _missing(INSTRUCTION_SETS[-1], flags)


def _missing(wanted: InstructionSet, flags: Collection[str]) -> list[str]:
    return sorted(set(wanted.cpu_flags) - set(flags))
