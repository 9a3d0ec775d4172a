"""Mean greedy return in the last quarter of a training run, and its learning curve.

Usage: python -m benchmarks.ours.curve --environment NAME --seed S --env_steps N --eval_period N
           [--binding B ...]
The worker evaluates during training; this program reads episodes/eval_*.csv. It counts env steps,
not seconds, so other work on the machine does not change the result.
"""

import argparse
import statistics
import time

from benchmarks import program
from benchmarks.ours.programs import EXAMPLES
from benchmarks.ours.solve import bindings, read_evaluations
from benchmarks.ours.training_runs import training_run


def main() -> None:
    """Measures and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", choices=EXAMPLES, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--env_steps", type=int, required=True, help="length of the curve")
    parser.add_argument("--eval_period", type=int, required=True, help="env steps")
    parser.add_argument("--binding", action="append", default=[], help="of gin, beside the usual")
    arguments = parser.parse_args()
    gin_bindings = [*bindings(arguments.environment, arguments.eval_period), *arguments.binding]
    with training_run(arguments.environment, gin_bindings, seed=arguments.seed) as run:
        curve = []
        while not curve or curve[-1][0] < arguments.env_steps:
            run.check()
            time.sleep(0.5)
            curve = [(env_step, mean) for _, env_step, mean in read_evaluations(run)]
    last_quarter = [mean for env_step, mean in curve if env_step > 0.75 * arguments.env_steps]
    program.print_result(
        "mean_return", statistics.fmean(last_quarter), "return",
        seed=arguments.seed, curve=curve,
    )  # fmt: skip


if __name__ == "__main__":
    program.run(main)
