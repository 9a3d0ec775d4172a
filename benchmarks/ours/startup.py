"""Seconds from run_script.sh to the first train step, and the memory of each program after it.

Usage: python -m benchmarks.ours.startup [--environment Pendulum-v1] [--secs S]
"""

import argparse
import time

from benchmarks import program
from benchmarks.ours.programs import EXAMPLES
from benchmarks.ours.training_runs import training_run


def main() -> None:
    """Measures and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", choices=EXAMPLES, default="Pendulum-v1")
    parser.add_argument("--secs", type=float, default=10.0, help="of training before memory")
    arguments = parser.parse_args()
    with training_run(arguments.environment) as run:
        report = run.next_report("learner", lambda r: r["train_step"] > 0)
        secs = report["time"] - run.started
        time.sleep(arguments.secs)
        memory = {role: sum(sizes) for role, sizes in run.pss_mb().items()}
    program.print_result("first_train_step_secs", secs, "s")
    program.print_result("pss_mb", sum(memory.values()), "MB")
    for role, size in memory.items():
        program.print_result(f"{role}_pss_mb", size, "MB")


if __name__ == "__main__":
    program.run(main)
