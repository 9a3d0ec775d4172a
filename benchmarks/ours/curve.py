"""Measures a run's learning curve, and its mean greedy return in the last quarter.

Example: python -m benchmarks.ours.curve --environment Pendulum-v1 --seed 1 \
--env_steps 10000 --eval_period 1000
The worker evaluates during training; this program reads episodes/eval_*.csv. It counts env steps,
not seconds, so other work on the machine does not change the result.
"""

import statistics
import time
from typing import Annotated

from benchmarks import program
from benchmarks.ours.programs import EXAMPLES
from benchmarks.ours.solve import NUM_EPISODES, bindings, read_evaluations
from benchmarks.ours.training_runs import training_run
from tfagents_system.core.programs.command_line import AtLeast, OneOf


def main(
    environment: Annotated[str, OneOf(EXAMPLES)],
    seed: int,
    env_steps: Annotated[int, AtLeast(1)],
    eval_period: Annotated[int, AtLeast(1)],
    eval_episodes: Annotated[int, AtLeast(1)] = NUM_EPISODES,
    binding: tuple[str, ...] = (),
) -> None:
    """Measures and prints the result.

    Args:
      environment: Environment to measure on.
      seed: Seed of the run.
      env_steps: Length of the curve.
      eval_period: Env steps between evaluations.
      eval_episodes: Greedy episodes per evaluation.
      binding: gin binding, in addition to the benchmark's.
    """
    gin_bindings = [*bindings(environment, eval_period, eval_episodes), *binding]
    with training_run(environment, gin_bindings, seed=seed) as run:
        curve = []
        while not curve or curve[-1][0] < env_steps:
            run.check()
            time.sleep(0.5)
            evaluations = read_evaluations(run, eval_episodes)
            curve = [(env_step, mean) for _, env_step, mean in evaluations]
    last_quarter = [mean for env_step, mean in curve if env_step > 0.75 * env_steps]
    program.print_result(
        "mean_return", statistics.fmean(last_quarter), "return",
        seed=seed, curve=curve,
    )  # fmt: skip


if __name__ == "__main__":
    program.run(main)
