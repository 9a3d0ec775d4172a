"""Measures learning curves of short tasks, with which a test compares later versions.

Example: python -m benchmarks.learning_gate --num_seeds 10
Trains what is missing in docs/results/learning_gate.csv, one run after another, and adds a row for
each run. Runs are deterministic, so several of these programs may share a machine.
`tests/learning_curves/test_gate.py` trains with another seed and compares.
"""

import collections
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from typing import Annotated, NamedTuple

from benchmarks.ours.programs import PROJECT
from benchmarks.result_rows import append_row, read_rows
from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.core.programs.command_line import AtLeast, run_tool

RESULTS = PROJECT / "docs/results/learning_gate.csv"
HEADER = ("gate", "seed", "env_steps_to_level", "mean_return")
STUDENT_T = {2: 6.965, 3: 4.541, 4: 3.747, 5: 3.365, 6: 3.143, 7: 2.998, 8: 2.896, 9: 2.821}
"""99 % points by degrees of freedom."""


class Gate(NamedTuple):
    """A short task."""

    environment: str  # of EXAMPLES
    env_steps: int
    eval_period: int  # env steps
    level: float  # mean return of an evaluation, which must be reached
    binding: str

    def measure(self, seed: int) -> tuple[int, float]:
        """Trains; returns the env steps to `level`, and the mean return of the last quarter.

        The former are all of the run's if it does not reach the level.
        """
        command = [
            sys.executable, "-m", "benchmarks.ours.curve", f"--environment={self.environment}",
            f"--seed={seed}", f"--env_steps={self.env_steps}", f"--eval_period={self.eval_period}",
            f"--binding={self.binding}",
        ]  # fmt: skip
        # Lock step, so that neither the machine nor its other work changes the result.
        environ = os.environ | {"SAC_DETERMINISTIC": "1"}
        done = subprocess.run(
            command, cwd=PROJECT, env=environ, check=True, stdout=subprocess.PIPE, text=True
        )
        result = json.loads(done.stdout.splitlines()[-1])
        reached = (step for step, mean in result["curve"] if mean >= self.level)
        steps = next(reached, result["curve"][-1][0])
        return steps, result["value"]


_BINDINGS = {name: f"TrainParams.algorithm = '{name}'" for name in ALGORITHMS}
GATES = {
    f"pendulum {name}": Gate("Pendulum-v1", 10_000, 1_000, -200.0, binding)
    for name, binding in _BINDINGS.items()
}
GATES["pendulum-p sac"] = Gate("pendulum-p", 10_000, 1_000, -300.0, _BINDINGS["sac"])
GATES |= {
    f"hopper {name}": Gate("HopperBulletEnv-v0", 80_000, 5_000, 1_000.0, binding)
    for name, binding in _BINDINGS.items()
}


class Bounds(NamedTuple):
    """The limits for one more run of a gate."""

    env_steps_to_level: float
    mean_return: float


def measured_gates(rows: Iterable[dict[str, str]]) -> list[str]:
    """Returns the gates with enough rows for bounds: three."""
    counts = collections.Counter(row["gate"] for row in rows)
    return [name for name in GATES if counts[name] > min(STUDENT_T)]


def bounds(rows: Iterable[dict[str, str]]) -> Bounds:
    """Returns the limits that one more run passes with 99 % probability, from earlier runs' rows.

    They are the ends of one-sided prediction intervals: mean +- t s sqrt(1 + 1/n). The interval of
    env steps is at least an evaluation period wide, because they are known no more precisely.
    """
    rows = list(rows)
    period = GATES[rows[0]["gate"]].eval_period
    steps = [float(row["env_steps_to_level"]) for row in rows]
    returns = [float(row["mean_return"]) for row in rows]
    return Bounds(
        env_steps_to_level=statistics.fmean(steps) + max(_width(steps), period),
        mean_return=statistics.fmean(returns) - _width(returns),
    )


def _width(values: list[float]) -> float:
    t = STUDENT_T[len(values) - 1]
    return t * statistics.stdev(values) * (1 + 1 / len(values)) ** 0.5


def main(num_seeds: Annotated[int, AtLeast(1)] = 10, gate: tuple[str, ...] = tuple(GATES)) -> None:
    """Trains what is missing and writes a row for each run.

    Args:
      num_seeds: Seeds of each gate, from 1.
      gate: Names of gates.
    """
    known = {(row["gate"], int(row["seed"])) for row in read_rows(RESULTS)}
    for seed in range(1, num_seeds + 1):
        for name in gate:
            if (name, seed) not in known:
                append_row(RESULTS, HEADER, (name, seed, *GATES[name].measure(seed)))


if __name__ == "__main__":
    run_tool(main, sys.argv)
