"""Measures env steps/s of one worker program and a replay server on the same cores, no learner.

Example: python -m benchmarks.ours.collection --environment FreeEnv
The worker is sac_collect.py as the launcher starts it, after its random fill. In place of the
learner, this program publishes the untrained policy twice a second.
"""

import pathlib
import tempfile
import time
from typing import Annotated

import reverb

from benchmarks import program
from benchmarks.ours.programs import (
    EXAMPLES,
    PEERS_NETWORKS,
    check_runs,
    make_experiment,
    next_report,
    program_specs,
    replay_server,
    running,
)
from tfagents_system.assembly import assemble_apart
from tfagents_system.core.programs.command_line import AtLeast, OneOf
from tfagents_system.core.programs.params_loader import load_run
from tfagents_system.core.state.reports import Phase
from tfagents_system.services.variables import VariablePublisher

PUBLISH_PERIOD_SECS = 0.5
WARMUP_SECS = 3.0
CAPACITY = 100_000


class Publisher:
    """Replaces a learner for workers: writes the run's spec, and publishes policies."""

    def __init__(self, exp_dir: pathlib.Path, address: str):
        """Builds the agent and writes the run's spec, for which workers wait."""
        run = load_run(str(exp_dir))
        made = assemble_apart(run.params, seed=1)
        self.reader = made.reader
        made.view_of(run, "float32").agree(run.paths.run_spec)
        self._publisher = VariablePublisher(
            reverb.Client(address), made.agent.collect_policy.variables()
        )
        self._num_published = 0
        self._due_at = time.monotonic()

    def tick(self) -> None:
        """Publishes a policy if due; its train step is the number of versions so far."""
        if time.monotonic() >= self._due_at:
            self._publisher.publish(self._num_published)
            self._num_published += 1
            self._due_at = time.monotonic() + PUBLISH_PERIOD_SECS


def measure(folder: pathlib.Path, environment: str, secs: float, envs_per_worker: int) -> float:
    """Returns env steps per second."""
    bindings = [
        "TrainParams.n_eval_episodes = 0",
        "TrainParams.num_iter = 1000000",
        f"TrainParams.envs_per_worker = {envs_per_worker}",
        *PEERS_NETWORKS,
    ]
    paths = make_experiment(folder / "experiment", environment, bindings)
    with replay_server(folder / "replay", CAPACITY) as server:
        publisher = Publisher(paths.root, server.address)
        spec = program_specs(paths, server.address)["worker_0"]
        log = paths.stdout("worker_0")
        with running(spec.argv, spec.env, log) as worker:

            def tick() -> None:
                publisher.tick()
                check_runs(worker, log)

            def next_collecting():
                return next_report(paths, "worker_0", lambda r: r.phase == Phase.COLLECTING, tick)

            next_collecting()
            _keep(tick, WARMUP_SECS)
            first = next_collecting()
            _keep(tick, secs)
            last = next_collecting()
    return (last.env_steps - first.env_steps) / (last.written_at - first.written_at)


def _keep(tick, secs: float) -> None:
    deadline = time.monotonic() + secs
    while time.monotonic() < deadline:
        tick()
        time.sleep(0.1)


def main(
    environment: Annotated[str, OneOf(EXAMPLES)],
    secs: Annotated[float, AtLeast(0)] = 15.0,
    envs_per_worker: Annotated[int, AtLeast(1)] = 1,
) -> None:
    """Measures and prints the result.

    Args:
      environment: Environment to measure on.
      secs: How long to measure.
      envs_per_worker: Environments of the worker.
    """
    with tempfile.TemporaryDirectory() as folder:
        rate = measure(pathlib.Path(folder), environment, secs, envs_per_worker)
    program.print_result("env_steps_per_sec", rate, "1/s")


if __name__ == "__main__":
    program.run(main)
