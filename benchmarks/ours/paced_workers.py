"""Stands in for several workers: one process makes their exact traffic.

Example: python -m benchmarks.ours.paced_workers logs/hosts localhost:8000 2 8
Each has a worker's adder, reader of variables and status reports. It sends a burst when a worker
does, after the previous one is confirmed, and asks for the newest policy before each episode. Its
simulator takes 10 ms per step and never catches up. Simulator, acting and journal are left out.
"""

import pathlib
import random
import threading
import time
from typing import Annotated, Any

import numpy as np
import reverb
from tf_agents.trajectories import time_step as ts

from benchmarks import program
from benchmarks.environments import FreeEnv, SleepingEnv
from tfagents_system.assembly import assemble_apart
from tfagents_system.collection.newest_policies import PULL_TIMEOUT_SECS
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.programs.params_loader import load_run
from tfagents_system.core.state.reports import Phase
from tfagents_system.core.state.status_reporter import StatusReporter
from tfagents_system.sac_collect import VARIABLES_PERIOD_SECS
from tfagents_system.services.adder import Adder
from tfagents_system.services.variables import VariableReader


class PacedWorker:
    """Makes one worker's traffic, in a thread of its own."""

    def __init__(
        self,
        adder: Adder,
        reader: VariableReader,
        reporter: StatusReporter,
        horizon: int,
        seed: int,
    ):
        """Sends nothing yet. `horizon` is the env steps of an episode."""
        self._adder, self._reader, self._reporter = adder, reader, reporter
        self._steps = _random_episode(horizon, seed)
        self._num_steps = self._num_unpaid = 0  # unpaid: steps whose time has not passed yet

    def run(self) -> None:
        """Collects until the process ends, staggered against the other workers."""
        time.sleep(random.uniform(0.0, 1.0))
        while True:
            self._reader.refresh(PULL_TIMEOUT_SECS)
            self._collect_episode()

    def _collect_episode(self) -> None:
        for time_step, action, next_time_step in self._steps:
            self._adder.add(time_step, action, next_time_step)
            self._num_unpaid += 1
            if self._adder.is_burst_due:
                self._send()
        self._adder.end_episode()

    def _send(self) -> None:
        """Waits for the time of the steps, then sends them as a worker does."""
        time.sleep(self._num_unpaid * SleepingEnv.step_secs)
        self._num_steps += self._num_unpaid
        self._num_unpaid = 0
        while not self._adder.is_confirmed(timeout_secs=0.5):
            pass
        self._adder.send()
        fields = {"phase_secs": {}, "env_steps": self._num_steps, "env_steps_per_sec": 0.0,
                  "last_return": None, "eval": None, "curriculum": {}}  # fmt: skip
        self._reporter.report(Phase.COLLECTING, lambda: fields)


def _random_episode(horizon: int, seed: int) -> list[tuple[ts.TimeStep, Any, ts.TimeStep]]:
    """Returns env steps with incompressible numbers, which each episode repeats."""
    rng = np.random.default_rng(seed)
    observations = rng.standard_normal((horizon + 1, FreeEnv.observation_size), np.float32)
    actions = rng.uniform(-1.0, 1.0, (horizon, FreeEnv.action_size)).astype(np.float32)
    one = np.float32(1.0)  # reward and discount
    time_steps = [ts.TimeStep(ts.StepType.MID, one, one, o) for o in observations]
    time_steps[0] = ts.restart(observations[0])
    return list(zip(time_steps, actions, time_steps[1:], strict=False))


def main(
    exp_dir: pathlib.Path,
    address: str,
    first: Annotated[int, AtLeast(0)],
    count: Annotated[int, AtLeast(1)],
    /,
) -> None:
    """Collects until it is killed.

    Args:
      exp_dir: Folder of the experiment.
      address: Address of the replay server.
      first: Number of the first worker.
      count: Workers.
    """
    run = load_run(str(exp_dir))
    made = assemble_apart(run.params, seed=1)
    variables = made.agent.collect_policy.variables()
    threads = []
    for number in range(first, first + count):
        adder = Adder(reverb.Client(address), made.codec, made.layout)
        reader = VariableReader(address, variables, VARIABLES_PERIOD_SECS)
        reporter = StatusReporter(run.paths, f"worker_{number}")
        worker = PacedWorker(adder, reader, reporter, run.horizon, number)
        threads.append(threading.Thread(target=worker.run, name=f"worker_{number}"))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    program.run(main)
