"""Measures a checkpoint's cost to the learner: the longest pause, and the rate meanwhile.

Example: python -m benchmarks.ours.checkpoint_stall
"""

import functools
import itertools
import os
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Annotated

import reverb
import tensorflow as tf

from benchmarks import program
from benchmarks.ours.layouts import PackedLayout
from benchmarks.ours.programs import make_experiment, replay_server
from tfagents_system.agents.construction import make_agent
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.programs.params_loader import load_run
from tfagents_system.core.settings.minibatches import num_fresh_samples
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.learning.checkpoints import Checkpointer
from tfagents_system.learning.learner import Learner
from tfagents_system.learning.sampling_pool import SamplingPool, pool_capacity
from tfagents_system.learning.sources import Source
from tfagents_system.services.replay import ReplaySnapshots

BATCH_SIZE = 256
STEPS_PER_CALL = 20
BASELINE_SECS = 10.0


class Stopwatch:
    """Runs a learner call by call and records the ends of calls."""

    def __init__(self, learner: Learner, train_step: tf.Variable):
        """Runs nothing yet."""
        self._learner, self._train_step = learner, train_step

    def run_while(
        self, goes_on: Callable[[], bool], begin: Callable[[], object] = lambda: None
    ) -> tuple[float, float]:
        """Returns (train steps per second, longest time between the ends of two calls).

        `begin` is called once, before the first call; its time counts.
        """
        first_step = int(self._train_step)
        ends = [time.monotonic()]
        begin()
        while goes_on() or len(ends) < 2:
            if self._learner.run(STEPS_PER_CALL) is None:
                raise TimeoutError("the replay server gave the learner no data")
            ends.append(time.monotonic())
        gaps = [after - before for before, after in itertools.pairwise(ends)]
        return (int(self._train_step) - first_step) / (ends[-1] - ends[0]), max(gaps)


def measure(
    folder: pathlib.Path, address: str, num_transitions: int
) -> tuple[float, float, dict[str, float]]:
    """Returns (longest gap in secs, rate during the checkpoint over that before, more fields)."""
    params = load_run(str(make_experiment(folder / "experiment", "FreeEnv").root)).params
    environment = make_collect_environment(params, seed=1)
    agent, train_step = make_agent(params, environment)
    layout = PackedLayout()
    num_fresh = num_fresh_samples(params)
    capacity = pool_capacity(layout.reader, num_fresh, BATCH_SIZE, num_transitions)
    pool = SamplingPool(layout.reader, capacity, capacity, num_fresh, BATCH_SIZE)
    make_batches = functools.partial(layout.batches, address, num_fresh)
    source = Source("replay", BATCH_SIZE, make_batches, pool)
    learner = Learner(agent, layout.reader, [source])
    stopwatch = Stopwatch(learner, train_step)
    stopwatch.run_while(lambda: learner.num_traces < 2)  # until the loop is that of a long run
    for _ in range(2):  # so that it adapts its number of steps per call again
        stopwatch.run_while(lambda: False)
    deadline = time.monotonic() + BASELINE_SECS
    rate_before, gap_before = stopwatch.run_while(lambda: time.monotonic() < deadline)
    checkpointer = Checkpointer(
        folder / "checkpoints", agent, train_step,
        ReplaySnapshots(reverb.Client(address), layout.items, folder / "checkpoints", 0),
        item={}, arithmetic="float32", fence=Fence.of_core(ExperimentPaths(folder), 0),
    )  # fmt: skip
    started = time.monotonic()
    rate, longest_gap = stopwatch.run_while(lambda: not checkpointer.wait(0), checkpointer.save)
    more = {"checkpoint_secs": time.monotonic() - started, "longest_gap_before_secs": gap_before}
    return longest_gap, rate / rate_before, more


def main(num_transitions: Annotated[int, AtLeast(1)] = 100_000) -> None:
    """Measures and prints the results.

    Args:
      num_transitions: Transitions in the replay buffer.
    """
    tf.config.threading.set_intra_op_parallelism_threads(1)  # as sac_train.py does
    tf.config.threading.set_inter_op_parallelism_threads(len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # The checkpoint is renamed from the server's root to the learner's: one file system.
        with replay_server(folder / "replay", num_transitions) as server:
            PackedLayout().insert(server.address, num_transitions)
            longest_gap, rate_ratio, more = measure(folder, server.address, num_transitions)
    fields = {"num_transitions": num_transitions} | more
    pause_secs = max(0.0, longest_gap - more["longest_gap_before_secs"])
    share = 1 - pause_secs / more["checkpoint_secs"]
    program.print_result("longest_learner_gap_secs", longest_gap, "s", **fields)
    program.print_result("checkpoint_without_learner_pause", 100 * share, "%", **fields)
    program.print_result("learner_rate_during_checkpoint", 100 * rate_ratio, "%", **fields)


if __name__ == "__main__":
    program.run(main)
