"""Assigns CPUs and the replay server's address to the programs of a share on this host."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from tfagents_system.core.process.cpus import (
    allot_cpus,
    available_cpus,
    check_suffices,
    cpu_count,
    cpu_list,
)
from tfagents_system.core.settings.variables import Settings
from tfagents_system.launch.local.plan import (
    REPLAY_ADDRESS,
    REPLAY_PORT,
    Program,
    may_share_cpus,
)


@dataclasses.dataclass(frozen=True)
class Service:
    """A program with its CPUs and environment, as daemontools runs it."""

    name: str
    argv: tuple[str, ...]
    cpus: tuple[int, ...]
    env: Mapping[str, str]  # added to the launcher's environment
    is_alone: bool = False  # in its own private network, not in the share's


def place(
    programs: Sequence[Program],
    available: Sequence[int],
    may_share: bool,
    address: str,
    are_all_ours: bool = True,
    num_cpus: int | None = None,
) -> list[Service]:
    """Assigns CPUs to each program, or all CPUs to all of them if there are too few.

    Args:
      programs: The programs of the share.
      available: CPU ids that this job may use on this host.
      may_share: Whether programs may share CPUs if there are too few; otherwise that is an error.
      address: Address of the replay server from this host, such as `localhost:PORT`.
      are_all_ours: Whether `available` belongs to this share alone. If not, as on Ray, which counts
        CPUs but assigns no ids, programs get their own CPUs only if they need all of them;
        otherwise they share all, and the kernel schedules them.
      num_cpus: How many of `available` may be used at once, by a container's quota; the kernel
        schedules the programs then, too. None for all.

    Raises:
      ConfigError: If there are too few CPUs; the message shows the sum.
    """
    limit = len(available) if num_cpus is None else min(num_cpus, len(available))
    has_quota = limit < len(available)
    demand = {program.name: program.num_cpus for program in programs}
    total = sum(demand.values())
    if has_quota and not may_share:
        check_suffices(demand, limit, available)
    are_known = are_all_ours and not has_quota
    if (may_share and total > limit) or (not are_known and total != len(available)):
        cpus = {program: tuple(available) for program in demand}
    else:
        cpus = allot_cpus(available, demand)
    values = {REPLAY_ADDRESS: address, REPLAY_PORT: address.rpartition(":")[2]}
    return [
        Service(
            program.name,
            tuple(argument + values.get(argument, "") for argument in program.argv),
            cpus[program.name],
            program.env,
        )
        for program in programs
    ]


def place_here(settings: Settings, programs: Sequence[Program], address: str) -> list[Service]:
    """Assigns the CPUs that this job may use on this host; see `place`."""
    may_share, are_all_ours = may_share_cpus(settings), settings.placement != "ray"
    return place(programs, available_cpus(), may_share, address, are_all_ours, cpu_count())


def in_incarnation(service: Service, incarnation: int) -> Service:
    """Returns the service with the number of this start, if it is the replay server or learner."""
    if service.name not in ("replay", "learner"):
        return service
    return dataclasses.replace(service, argv=(*service.argv, f"--incarnation={incarnation}"))


def cpu_table(services: Sequence[Service]) -> str:
    """Returns the table of CPUs by kind of program, one line each."""
    lines = []
    beside = ("relay", "mirror-")  # these take little time
    programs = [service for service in services if not service.name.startswith(beside)]
    for _, group in itertools.groupby(programs, lambda service: service.name.partition("_")[0]):
        first, *others = group
        name = f"{first.name} to {others[-1].name}" if others else first.name
        cpus = {cpu for service in (first, *others) for cpu in service.cpus}
        note = f"  ({len(first.cpus)} each)" if others and others[0].cpus != first.cpus else ""
        lines.append(f"  {name:<28}CPU {cpu_list(cpus)}{note}")
    if len(programs) > 1 and programs[0].cpus == programs[1].cpus:
        is_short = len(programs) > len(programs[0].cpus)
        why = "there are fewer CPUs than programs" if is_short else "which are theirs is unknown"
        lines[-1] += f"  (shared: {why})"
    return "\n".join(lines)
