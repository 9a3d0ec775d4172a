"""Plans the programs of each share of a run. Pure; placement does not change it.

A share is the part of a run that one host runs. On one machine a single share has everything; on a
cluster the core share has the replay server and the learner, and the others have workers or
evaluators. The host decides on which CPUs a program runs (places.py).
"""

import dataclasses
import math
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence

from tfagents_system.core.settings.variables import ENV_TIMEOUT_SECS, MLAGENTS_TAGS, Settings

CORE_BYTES, WORKER_BYTES = 1.0e9, 0.2e9  # lower bounds (core: learner, server)
REPLAY_ADDRESS = "--replay_address="  # arguments that the host fills in
REPLAY_PORT = "--port="


@dataclasses.dataclass(frozen=True)
class Program:
    """One program of a share."""

    name: str  # replay, learner, worker_<k>, evaluator_<k>
    argv: tuple[str, ...]
    num_cpus: int
    env: Mapping[str, str]  # set on top of the launcher's environment


def everything(
    settings: Settings, exp_dir: pathlib.Path, num_cpus: int, memory_bytes: float = math.inf
) -> list[Program]:
    """Returns the replay server, the learner, the workers and evaluators of a run on one host.

    Args:
      settings: The user's settings.
      exp_dir: Absolute folder of the experiment.
      num_cpus: CPUs that this job may use, which `auto` divides. If explicit numbers do not fit,
        the plan needs more CPUs, which places.py rejects.
      memory_bytes: Memory limit of this job, in which `auto` workers must fit.
    """
    replay, learner, num_workers = _divide(settings, num_cpus, memory_bytes)
    collectors = [*workers(settings, exp_dir, range(num_workers)),
                  *evaluators(settings, exp_dir, range(settings.eval_workers))]  # fmt: skip
    demand = replay + learner + sum(program.num_cpus for program in collectors)
    if demand > num_cpus and may_share_cpus(settings):
        replay = learner = num_cpus
    return [*_core(settings, exp_dir, replay, learner), *collectors]


def core(settings: Settings, exp_dir: pathlib.Path, num_cpus: int) -> list[Program]:
    """Returns the replay server and the learner for a host with `num_cpus`; see `everything`."""
    alone = dataclasses.replace(settings, num_collect_workers=0, eval_workers=0)
    replay, learner, _ = _divide(alone, num_cpus, math.inf)
    if replay + learner > num_cpus and may_share_cpus(settings):
        replay = learner = num_cpus
    return _core(settings, exp_dir, replay, learner)


def workers(settings: Settings, exp_dir: pathlib.Path, ids: Iterable[int]) -> list[Program]:
    """Returns the workers with these numbers; see `everything`."""
    flags = ("--noevaluates",) if settings.eval_workers else ()
    return [_collector(settings, exp_dir, f"worker_{k}", k, *flags) for k in ids]


def evaluators(settings: Settings, exp_dir: pathlib.Path, ids: Iterable[int]) -> list[Program]:
    """Returns the evaluators with these numbers; see `everything`."""
    return [_collector(settings, exp_dir, f"evaluator_{k}", k, "--nocollects") for k in ids]


def may_share_cpus(settings: Settings) -> bool:
    """Returns whether programs may share CPUs: if the user gave no number of CPUs."""
    asked_for = (settings.collect_worker_cpus, settings.train_cpus, settings.reverb_cpus)
    return asked_for == (None, None, None)


def _core(
    settings: Settings, exp_dir: pathlib.Path, replay_cpus: int, learner_cpus: int
) -> list[Program]:
    environ = {"TZ": "UTC"}  # Reverb orders its checkpoints by local time
    server = ("sac_replay_buffer", REPLAY_PORT)
    learner = ("sac_train", REPLAY_ADDRESS, f"--num_cpus={learner_cpus}")
    return [
        _program(settings, exp_dir, "replay", server, replay_cpus, environ),
        _program(settings, exp_dir, "learner", learner, learner_cpus, {}),
    ]


def _collector(
    settings: Settings, exp_dir: pathlib.Path, name: str, number: int, *flags: str
) -> Program:
    num_cpus = settings.collect_worker_cpus or 1
    argv = (
        "sac_collect",
        REPLAY_ADDRESS,
        f"--num_cpus={num_cpus}",
        f"--env_timeout_secs={settings.env_timeout_secs or ENV_TIMEOUT_SECS}",
        *flags,
    )
    environ = {"SLURM_PROCID": str(number), "CUDA_VISIBLE_DEVICES": "-1"}
    return _program(settings, exp_dir, name, argv, num_cpus, environ)


def _program(
    settings: Settings,
    exp_dir: pathlib.Path,
    name: str,
    command: Sequence[str],
    num_cpus: int,
    environ: Mapping[str, str],
) -> Program:
    module, *arguments = command
    mode = ("--deterministic",) if settings.deterministic else ()
    start = (sys.executable, "-m", f"tfagents_system.{module}")
    argv = (*start, f"--exp_dir={exp_dir}", *arguments, *mode)
    # The order of sets of strings depends on the hash seed.
    common = {"PYTHONHASHSEED": "0"} if settings.deterministic else {}
    if settings.mlagents_tags:
        common[MLAGENTS_TAGS] = "1"
    return Program(name, argv, num_cpus, {**_common_env(num_cpus), **common, **environ})


def _divide(settings: Settings, num_cpus: int, memory_bytes: float) -> tuple[int, int, int]:
    """Returns the CPUs of the replay server and of the learner, and the number of workers."""
    per_worker = settings.collect_worker_cpus or 1
    # The learner's critics, target critics and actor are a few branches: more CPUs would idle.
    train = settings.train_cpus or (4 if num_cpus >= 16 else 2 if num_cpus >= 4 else 1)
    reverb = settings.reverb_cpus or (2 if num_cpus >= 32 else 1)
    num_workers = settings.num_collect_workers
    left = num_cpus - settings.eval_workers * per_worker
    if num_workers is None:
        fitting = min(left, (memory_bytes - CORE_BYTES) // WORKER_BYTES)
        num_workers = max(1, int(min(fitting, (left - train - reverb) // per_worker)))
    left -= num_workers * per_worker  # an explicit number of workers leaves fewer for the others
    if settings.train_cpus is None:
        train = max(1, min(train, left - (settings.reverb_cpus or 1)))
    if settings.reverb_cpus is None:
        reverb = max(1, min(reverb, left - train))
    return reverb, train, num_workers


def _common_env(num_threads: int) -> dict[str, str]:
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {variable: str(num_threads) for variable in threads} | {
        # gRPC's default, epollex, leaks two open files for each stream whose server has died.
        "GRPC_POLL_STRATEGY": "epoll1",
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",  # each import logs three "errors" about missing GPUs
    }
