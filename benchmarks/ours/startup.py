"""Measures seconds from run_script.sh to the first train step, and each program's memory then.

Example: python -m benchmarks.ours.startup
"""

import time
from typing import Annotated

from benchmarks import program
from benchmarks.ours.programs import EXAMPLES
from benchmarks.ours.training_runs import training_run
from tfagents_system.core.programs.command_line import AtLeast, OneOf


def main(
    environment: Annotated[str, OneOf(EXAMPLES)] = "Pendulum-v1",
    secs: Annotated[float, AtLeast(0)] = 10.0,
) -> None:
    """Measures and prints the results.

    Args:
      environment: Environment to measure on.
      secs: Time of training before memory is measured.
    """
    with training_run(environment) as run:
        report = run.next_report("learner", lambda r: r.train_step > 0)
        first_train_step_secs = report.written_at - run.started
        time.sleep(secs)
        memory = {role: sum(sizes) for role, sizes in run.pss_mb().items()}
    program.print_result("first_train_step_secs", first_train_step_secs, "s")
    program.print_result("pss_mb", sum(memory.values()), "MB")
    for role, size in memory.items():
        program.print_result(f"{role}_pss_mb", size, "MB")


if __name__ == "__main__":
    program.run(main)
