"""Divides the CPUs that this job may use among programs."""

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process import cgroups


def available_cpus() -> tuple[int, ...]:
    """Returns the ids in this process's affinity mask (SLURM and taskset narrow it), ascending."""
    return tuple(sorted(os.sched_getaffinity(0)))


def cpu_count() -> int:
    """Returns the number of CPUs that this job may use; a quota may make it fewer than it has."""
    return max(1, math.ceil(min(len(available_cpus()), cgroups.cpu_quota()) - 0.01))


def allot_cpus(available: Sequence[int], demand: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Assigns each program its own CPUs, in the order of `demand`.

    Args:
      available: CPU ids.
      demand: Number of CPUs by program name; `worker_0`, `worker_1`... are summed up as workers.

    Raises:
      ConfigError: If there are too few CPUs; the message shows the sum.
    """
    check_suffices(demand, len(available), available)
    ids = iter(available)
    return {program: tuple(itertools.islice(ids, count)) for program, count in demand.items()}


def check_suffices(demand: Mapping[str, int], num_cpus: int, available: Sequence[int]) -> None:
    """Raises ConfigError if the programs need more than `num_cpus` CPUs."""
    if (needed := sum(demand.values())) > num_cpus:
        has = f"{len(available)}: {cpu_list(available)}"
        if num_cpus < len(available):
            has = f"the time of {num_cpus} (its container's quota) of {has}"
        raise ConfigError(
            f"The programs need {_sum(demand)} = {needed} CPUs, but this job has "
            f"{has}. Request more, or lower (or set to auto) "
            "SAC_NUM_COLLECT_WORKERS, SAC_COLLECT_WORKER_CPUS, SAC_TRAIN_CPUS or SAC_REVERB_CPUS."
        )


def cpu_list(ids: Iterable[int]) -> str:
    """Returns ids as `taskset -c` reads them, such as `0-3,8`."""
    parts = []
    for _, run in itertools.groupby(enumerate(sorted(ids)), lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        parts.append(f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}")
    return ",".join(parts)


def _sum(demand: Mapping[str, int]) -> str:
    terms = []
    for (kind, count), group in itertools.groupby(
        demand.items(), lambda item: (item[0].partition("_")[0], item[1])
    ):
        number = len(list(group))
        terms.append(f"{kind} {count}" if number == 1 else f"{number} x {kind} {count}")
    return " + ".join(terms)
