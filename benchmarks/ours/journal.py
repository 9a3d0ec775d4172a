"""Measures the cost of a worker's journal: env steps/s with it, as a share of the rate without.

Example: python -m benchmarks.ours.journal --secs 10
Acts on Pendulum, packs, writes, and waits for the server's confirmation of each burst. Episodes
with and without the journal alternate, because the speed of the machine changes from minute to
minute. The replay server shares the cores.
"""

import pathlib
import tempfile
import time
from typing import Annotated

import numpy as np
import reverb

from benchmarks import program
from benchmarks.ours.programs import replay_server
from tfagents_system.assembly import assemble
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.programs.program import prefer_response, prefer_throughput
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.pendulum_params import TrainParams
from tfagents_system.policies.acting import AgentPolicies
from tfagents_system.services.adder import Adder
from tfagents_system.services.journal import Journal, Stream

HORIZON = 200
CAPACITY = 100_000
MAX_BYTES = 256_000_000
WARMUP_EPISODES = 20


def measure(folder: pathlib.Path, secs: float) -> dict[bool, float]:
    """Returns the env steps per second, by whether the worker has a journal.

    Takes `secs`, or longer for one episode after the warm-up.
    """
    params = TrainParams({"horizon": HORIZON})
    environment = make_collect_environment(params, seed=1)
    made = assemble(params, environment)
    codec, layout = made.codec, made.layout
    policy = AgentPolicies(made.agent, np.random.default_rng(1)).collect
    with replay_server(folder / "replay", CAPACITY) as server:
        client = reverb.Client(server.address)
        fence = Fence.of_worker(ExperimentPaths(folder), "worker_0")
        stream = Stream(0, fence.number)
        journal = Journal(folder / "journals", stream, codec.columns, layout.rows, MAX_BYTES, fence)
        adders = {
            True: Adder(client, codec, layout, journal=journal),
            False: Adder(client, codec, layout),
        }
        episode_secs: dict[bool, list[float]] = {True: [], False: []}
        deadline = time.monotonic() + secs
        prefer_response()  # as sac_collect.py does
        while time.monotonic() < deadline or len(episode_secs[False]) <= WARMUP_EPISODES:
            for has_journal, adder in adders.items():
                started = time.perf_counter()
                run_episode(environment, policy, HORIZON, _observer(adder))
                adder.end_episode()
                episode_secs[has_journal].append(time.perf_counter() - started)
    return {
        has_journal: HORIZON / float(np.mean(values[WARMUP_EPISODES:]))
        for has_journal, values in episode_secs.items()
    }


def _observer(adder: Adder):
    def observe(time_step, action, next_time_step, state) -> bool:
        goes_on = adder.add(time_step, action, next_time_step, state)
        if adder.is_burst_due:
            adder.send()
            if not adder.is_confirmed(timeout_secs=5.0):
                raise TimeoutError("The replay server has not confirmed a burst within 5 s.")
        return goes_on

    return observe


def main(secs: Annotated[float, AtLeast(0)] = 30.0) -> None:
    """Measures and prints the results.

    Args:
      secs: How long to measure.
    """
    prefer_throughput()
    with tempfile.TemporaryDirectory() as folder:
        rates = measure(pathlib.Path(folder), secs)
    program.print_result("env_steps_per_sec_with_journal", rates[True], "1/s")
    program.print_result("env_steps_per_sec_without_journal", rates[False], "1/s")
    program.print_result("worker_rate_with_journal", 100 * rates[True] / rates[False], "%")


if __name__ == "__main__":
    program.run(main)
