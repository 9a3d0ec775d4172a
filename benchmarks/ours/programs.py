"""Starts single programs for a measurement, as the launcher starts them."""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfagents_system.core.process.cpus import available_cpus
from tfagents_system.core.process.ports import free_port
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.files import write_json_atomically
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import read_report
from tfagents_system.core.state.running import begin_run
from tfagents_system.launch.local.places import Service, place
from tfagents_system.launch.local.plan import everything, may_share_cpus

PROJECT = pathlib.Path(__file__).parents[2]
PARAMS = PROJECT / "benchmarks" / "params"
EXAMPLES = {
    "Pendulum-v1": ("tfagents_system/pendulum_params.py", "config/pendulum.json"),
    "MinitaurBulletEnv-v0": ("tfagents_system/minitaur_params.py", "config/minitaur.json"),
    "HalfCheetahBulletEnv-v0": (
        "benchmarks/params/half_cheetah.py",
        "benchmarks/params/half_cheetah.json",
    ),
    "HalfCheetahBulletEnv-v0, defaults": (
        "benchmarks/params/locomotion.py",
        "benchmarks/params/half_cheetah.json",
    ),
    "HopperBulletEnv-v0": ("benchmarks/params/locomotion.py", "benchmarks/params/hopper.json"),
    "InvertedDoublePendulumBulletEnv-v0": (
        "benchmarks/params/double_pendulum.py",
        "benchmarks/params/double_pendulum.json",
    ),
    "pendulum-p": ("zoo/partial_params.py", "zoo/pendulum_p.json"),
    "FreeEnv": ("benchmarks/params/free.py", "benchmarks/params/free.json"),
    "ImageEnv": ("benchmarks/params/image.py", "benchmarks/params/image.json"),
    "SleepingEnv": ("benchmarks/params/sleeping.py", "benchmarks/params/sleeping.json"),
}  # environment: params, config

PEERS_NETWORKS = (
    "TrainParams.actor_fc_layer_params = (256, 256)",
    "TrainParams.critic_joint_fc_layer_params = (256, 256)",
)  # bindings, so that measurements do the same work
UNPROTECTED = (
    "TrainParams.checkpoint_period_itrs = 1000000",
    "TrainParams.checkpoint_period_secs = 1e9",
    "TrainParams.journal_max_mb = 0",
)


@dataclasses.dataclass(frozen=True)
class ReplayServer:
    """A running replay_server.py."""

    pid: int
    port: int
    start_secs: float  # of the server alone, including restoring

    @property
    def address(self) -> str:
        """host:port."""
        return f"localhost:{self.port}"


@contextlib.contextmanager
def running(
    argv: Sequence[str], environ: Mapping[str, str] | None = None, log: pathlib.Path | None = None
) -> Iterator[subprocess.Popen]:
    """Runs a program until the end of the block, which kills it.

    Its standard output is a pipe; with `log`, output and error go to that file.
    """
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("w")) if log else subprocess.PIPE
        process = stack.enter_context(
            subprocess.Popen(
                argv,
                cwd=PROJECT,
                env=os.environ | dict(environ or {}),
                stdout=output,
                stderr=subprocess.STDOUT if log else None,
                text=True,
            )
        )
        stack.callback(process.kill)  # before Popen's own exit, which waits
        yield process


@contextlib.contextmanager
def replay_server(
    folder: pathlib.Path, capacity: int, layout: str = "ours", restore_from: str | None = None
) -> Iterator[ReplayServer]:
    """Runs a replay server whose rate limiter never makes anyone wait.

    Args:
      folder: Folder of its checkpoints.
      capacity: Maximum of transitions; the oldest are removed.
      layout: `ours` or `tf_agents`.
      restore_from: A checkpoint's folder.
    """
    port = free_port()
    argv = [
        sys.executable, "-m", "benchmarks.ours.replay_server", f"--layout={layout}",
        f"--port={port}", f"--folder={folder}", f"--capacity={capacity}",
        *([f"--restore_from={restore_from}"] if restore_from else []),
    ]  # fmt: skip
    with running(argv, {"TZ": "UTC"}) as process:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the replay server ended with {process.wait()}")
        yield ReplayServer(process.pid, port, json.loads(line)["start_secs"])


def make_experiment(
    root: pathlib.Path, environment: str, gin_bindings: Sequence[str] = (), seed: int = 1
) -> ExperimentPaths:
    """Makes the folder of an experiment as the launcher does."""
    params, config = (PROJECT / name for name in EXAMPLES[environment])
    paths = ExperimentPaths(root)
    root.mkdir(parents=True)
    paths.stdout("learner").parent.mkdir()
    paths.config.write_text(config.read_text())
    paths.params.write_text(params.read_text())
    provenance = {
        "seed": seed, "gin_bindings": list(gin_bindings), "params_dir": str(params.parent),
        "params_name": params.name,
    }  # fmt: skip
    write_json_atomically(paths.provenance, provenance)
    begin_run(paths, gin_bindings=gin_bindings)
    return paths


def program_specs(paths: ExperimentPaths, address: str, num_workers: int = 1) -> dict[str, Service]:
    """Returns the launcher's programs by name, with their arguments and environments.

    Args:
      paths: Paths of the experiment.
      address: Address of the replay server, such as `localhost:PORT`.
      num_workers: Number of workers.
    """
    settings = Settings.from_environ(
        {"SAC_EXP_NAME": "benchmark", "SAC_PARAMS": str(paths.params),
         "SAC_CONFIG": str(paths.config), "SAC_NUM_COLLECT_WORKERS": str(num_workers)}
    )  # fmt: skip
    cpus = available_cpus()
    programs = everything(settings, paths.root, len(cpus))
    services = place(programs, cpus, may_share_cpus(settings), address)
    return {service.name: service for service in services}


def next_report(
    paths: ExperimentPaths,
    program: str,
    is_wanted: Callable[[Any], bool] = lambda report: True,
    check: Callable[[], None] = lambda: None,
    timeout_secs: float = 300.0,
) -> Any:
    """Waits for a status report of `program` that is newer than this call and `is_wanted`.

    Args:
      paths: Paths of the experiment.
      program: Such as `worker_0`.
      is_wanted: Called with each new report.
      check: Called about 50 times a second; raises to end the wait.
      timeout_secs: Longest wait.

    Raises:
      TimeoutError: If there is none in time; the message has the last one.
    """
    deadline = time.monotonic() + timeout_secs
    asked_at = time.time()
    while True:
        check()
        report = read_report(paths, program)
        if report is not None and report.written_at >= asked_at and is_wanted(report):
            return report
        if time.monotonic() > deadline:
            raise TimeoutError(f"{program} did not get there in {timeout_secs:g} s: {report}")
        time.sleep(0.02)


def check_runs(process: subprocess.Popen, log: pathlib.Path) -> None:
    """Raises RuntimeError with the end of its log if the process has ended."""
    if process.poll() is not None:
        raise RuntimeError(
            f"{log.stem} ended with {process.returncode}:\n{log.read_text()[-2000:]}"
        )
