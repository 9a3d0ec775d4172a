"""The actors of a run on Ray: their names, CPUs and commands. Pure."""

import dataclasses
from collections.abc import Mapping, Sequence

from tfagents_system.launch.clusters.demand import Demand

# Variables of one host or one job, by prefix or whole name.
NOT_PASSED_ON_PREFIXES = ("RAY_", "SLURM_")
NOT_PASSED_ON = {"HOSTNAME", "OLDPWD", "PWD", "SHLVL", "_"}


@dataclasses.dataclass(frozen=True)
class PlannedActor:
    """The request to Ray for a share."""

    roles: str  # its roles in the run: replay_buffer+..., rollout_4-7, test_0
    arguments: tuple[str, ...]  # arguments of run_share.py
    num_cpus: int


def actors(demand: Demand) -> list[PlannedActor]:
    """Returns the actors of a run, the core's first."""
    core = PlannedActor("replay_buffer+parameter_server+learner", ("core",), demand.cpus("core"))
    size = demand.workers_per_share
    firsts = range(0, demand.num_workers, size)
    rollouts = [_rollout(demand, first, min(size, demand.num_workers - first)) for first in firsts]
    tests = [
        PlannedActor(f"test_{k}", ("evaluators", str(k), "1"), demand.cpus("evaluators"))
        for k in range(demand.num_evaluators)
    ]
    return [core, *rollouts, *tests]


def _rollout(demand: Demand, first: int, count: int) -> PlannedActor:
    ids = str(first) if count == 1 else f"{first}-{first + count - 1}"
    return PlannedActor(
        f"rollout_{ids}", ("workers", str(first), str(count)), count * demand.worker_cpus
    )


def share_environ(environ: Mapping[str, str], demand: Demand, experiment: str) -> dict[str, str]:
    """Returns the variables of a share: the driver's, with numbers in place of `auto`."""
    passed_on = {
        name: value
        for name, value in environ.items()
        if name not in NOT_PASSED_ON and not name.startswith(NOT_PASSED_ON_PREFIXES)
    }
    return passed_on | demand.environ() | {"SAC_EXP_NAME": experiment}


def shortage(planned: Sequence[PlannedActor], cpus_of_nodes: Sequence[float]) -> str | None:
    """Describes what a cluster of these nodes lacks even if it is idle; None if nothing."""
    wanted = [actor.num_cpus for actor in planned]
    if sum(wanted) <= sum(cpus_of_nodes) and max(wanted) <= max(cpus_of_nodes):
        return None
    parts = " + ".join(f"{actor.roles} {actor.num_cpus}" for actor in planned)
    nodes = ", ".join(f"{cpus:g}" for cpus in cpus_of_nodes)
    return f"{parts} = {sum(wanted)} CPUs, but Ray's nodes have {nodes or 'none'}"
