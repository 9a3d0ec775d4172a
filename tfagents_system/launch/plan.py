"""Turns settings and CPU ids into the list of programs to run; pure."""

import dataclasses
import pathlib
import sys
from collections.abc import Mapping, Sequence

from tfagents_system.core.cpus import allot_cpus, cpu_list
from tfagents_system.core.settings import Settings

ENV_TIMEOUT_SECS = 600  # unless the user knows better; a dead robot or simulator, not a slow one


@dataclasses.dataclass(frozen=True)
class ProcessSpec:
    """One program of a run."""

    name: str  # replay, learner, worker_0, worker_1, ...
    argv: tuple[str, ...]
    cpus: tuple[int, ...]
    env: Mapping[str, str]  # set on top of the launcher's environment


def make_plan(
    settings: Settings, exp_dir: pathlib.Path, available: Sequence[int], port: int
) -> list[ProcessSpec]:
    """Returns the replay server, the learner and the workers, with the CPUs of each.

    Args:
      settings: What the user asked for.
      exp_dir: Absolute folder of the experiment.
      available: CPU ids this job may use.
      port: TCP port of the replay server.

    Raises:
      ConfigError: If explicit numbers of CPUs do not fit.
    """
    cpus = divide_cpus(settings, available)
    workers = [name for name in cpus if name.startswith("worker_")]
    num_threads = {name: len(ids) for name, ids in cpus.items()}
    # A worker has CPUs of its own if their number was asked for; otherwise it may share them all.
    num_threads |= dict.fromkeys(workers, settings.collect_worker_cpus or 1)
    folder = f"--exp_dir={exp_dir}"
    address = f"--replay_address=localhost:{port}"
    arguments = {
        "replay": ("sac_replay_buffer.py", folder, f"--port={port}"),
        "learner": ("sac_train.py", folder, address, f"--num_cpus={num_threads['learner']}"),
    } | {
        worker: (
            "sac_collect.py",
            folder,
            address,
            f"--num_workers={len(workers)}",
            f"--num_cpus={num_threads[worker]}",
            f"--env_timeout_secs={settings.env_timeout_secs or ENV_TIMEOUT_SECS}",
        )
        for worker in workers
    }
    # Sets of texts have an order that depends on the hash seed.
    common = {"PYTHONHASHSEED": "0"} if settings.deterministic else {}
    mode = ("--deterministic",) if settings.deterministic else ()
    environs = {
        "replay": {"TZ": "UTC"},  # Reverb orders its checkpoints by local time
        "learner": {},
    } | {
        worker: {"SLURM_PROCID": str(worker_id), "CUDA_VISIBLE_DEVICES": "-1"}
        for worker_id, worker in enumerate(workers)
    }
    return [
        ProcessSpec(
            name=name,
            argv=(sys.executable, f"tfagents_system/{program}", *flags, *mode),
            cpus=ids,
            env=_common_env(num_threads[name]) | common | environs[name],
        )
        for name, ids in cpus.items()
        for program, *flags in [arguments[name]]
    ]


def divide_cpus(settings: Settings, available: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Returns the CPU ids of each program: disjoint, or all of them where `auto` has to share.

    Raises:
      ConfigError: If explicit numbers of CPUs do not fit.
    """
    demand = _demand(settings, len(available))
    explicit = (settings.collect_worker_cpus, settings.train_cpus, settings.reverb_cpus)
    if sum(demand.values()) > len(available) and explicit == (None, None, None):
        return {program: tuple(available) for program in demand}
    return allot_cpus(available, demand)


def cpu_table(plan: Sequence[ProcessSpec]) -> str:
    """Returns three lines: which CPUs the replay server, the learner and the workers run on."""
    replay, learner, *workers = plan
    names = workers[0].name if len(workers) == 1 else f"worker_0 to {workers[-1].name}"
    each = len(workers[0].cpus)
    if replay.cpus == learner.cpus:
        note = "  (shared: there are fewer CPUs than programs)"
    else:
        note = f"  ({each} each)" if len(workers) > 1 else ""
    rows = [
        ("replay", replay.cpus),
        ("learner", learner.cpus),
        (names, {cpu for worker in workers for cpu in worker.cpus}),
    ]
    lines = [f"  {name:<22}CPU {cpu_list(cpus)}" for name, cpus in rows]
    return "\n".join(lines) + note


def _demand(settings: Settings, num_cpus: int) -> dict[str, int]:
    per_worker = settings.collect_worker_cpus or 1
    # The learner's critics, targets and actor are a few independent branches: more CPUs idle.
    train = settings.train_cpus or (4 if num_cpus >= 16 else 2 if num_cpus >= 4 else 1)
    reverb = settings.reverb_cpus or (2 if num_cpus >= 32 else 1)
    num_workers = settings.num_collect_workers or max(1, (num_cpus - train - reverb) // per_worker)
    left = num_cpus - num_workers * per_worker  # an explicit number of workers narrows the others
    if settings.train_cpus is None:
        train = max(1, min(train, left - (settings.reverb_cpus or 1)))
    if settings.reverb_cpus is None:
        reverb = max(1, min(reverb, left - train))
    workers = {f"worker_{worker_id}": per_worker for worker_id in range(num_workers)}
    return {"replay": reverb, "learner": train} | workers


def _common_env(num_threads: int) -> dict[str, str]:
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {variable: str(num_threads) for variable in threads} | {
        # gRPC's own choice, epollex, keeps two open files of each stream whose server has died.
        "GRPC_POLL_STRATEGY": "epoll1",
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",  # warnings and errors only
    }
