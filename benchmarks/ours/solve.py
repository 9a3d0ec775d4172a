"""Measures seconds from run_script.sh until the mean of 10 greedy episodes reaches a level.

Example: python -m benchmarks.ours.solve --environment Pendulum-v1 --level -200 \
--seed 1 --eval_period 1000 --limit_secs 300
The worker evaluates during training; this program reads episodes/eval_*.csv.
"""

import collections
import csv
import json
import statistics
import time
from collections.abc import Iterable, Mapping
from typing import Annotated

from benchmarks import program
from benchmarks.ours.programs import EXAMPLES, PROJECT
from benchmarks.ours.training_runs import TrainingRun, training_run
from tfagents_system.core.programs.command_line import AtLeast, OneOf

NUM_EPISODES = 10


def evaluations(
    rows: Iterable[Mapping[str, str]], started: float, num_episodes: int = NUM_EPISODES
) -> list[tuple[float, int, float]]:
    """Returns (secs since `started`, env step, mean return) of each complete evaluation, in order.

    Rows of one iteration are one evaluation, complete with `num_episodes` of them.
    """
    by_iteration = collections.defaultdict(list)
    for row in rows:
        if row["wall_time"]:  # a line that is still being written has none
            by_iteration[int(row["iteration"])].append(row)
    return [
        (
            max(float(row["wall_time"]) for row in group) - started,
            max(int(row["env_step"]) for row in group),
            statistics.fmean(float(row["return"]) for row in group),
        )
        for _, group in sorted(by_iteration.items())
        if len(group) >= num_episodes
    ]


def read_evaluations(
    run: TrainingRun, num_episodes: int = NUM_EPISODES
) -> list[tuple[float, int, float]]:
    """Returns the evaluations of all workers so far, of `num_episodes` each."""
    rows: list[dict[str, str]] = []
    for path in run.paths.episodes.glob("eval_*.csv"):
        with path.open(newline="") as file:
            rows += csv.DictReader(file)
    return evaluations(rows, run.started, num_episodes)


def bindings(environment: str, eval_period: int, num_episodes: int = NUM_EPISODES) -> list[str]:
    """Returns gin bindings for an evaluation every `eval_period` env steps, in an endless run."""
    _, config = EXAMPLES[environment]
    horizon = json.loads((PROJECT / config).read_text())["horizon"]  # an episode per iteration
    return [
        "TrainParams.num_iter = 1000000",
        f"TrainParams.n_eval_episodes = {num_episodes}",
        f"TrainParams.eval_period_itrs = {eval_period // horizon}",
    ]


def main(
    environment: Annotated[str, OneOf(EXAMPLES)],
    level: float,
    seed: int,
    eval_period: Annotated[int, AtLeast(1)],
    limit_secs: Annotated[float, AtLeast(0)],
    binding: tuple[str, ...] = (),
) -> None:
    """Measures and prints the result.

    Args:
      environment: Environment to measure on.
      level: Mean return to reach.
      seed: Seed of the run.
      eval_period: Env steps between evaluations.
      limit_secs: Time limit.
      binding: gin binding, in addition to the benchmark's.
    """
    gin_bindings = [*bindings(environment, eval_period), *binding]
    with training_run(environment, gin_bindings, seed=seed) as run:
        solved_at = None
        while solved_at is None and time.time() - run.started < limit_secs:
            run.check()
            time.sleep(0.5)
            found = read_evaluations(run)
            solved_at = next((secs for secs, _, mean in found if mean >= level), None)
    program.print_result(
        "solved_secs", solved_at, "s", seed=seed, level=level,
        best_mean=max((mean for _, _, mean in found), default=None), evaluations=found,
    )  # fmt: skip


if __name__ == "__main__":
    program.run(main)
