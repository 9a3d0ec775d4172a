"""Measures env steps/s and train steps/s with a given number of workers on SleepingEnv.

Example: python -m benchmarks.ours.scaling --num_workers 2
Ends with an error if memory is about to run out while workers are starting.
"""

import time
from typing import Annotated

import psutil

from benchmarks import program
from benchmarks.ours.training_runs import TrainingRun, training_run
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.state.reports import Phase

LEAST_AVAILABLE_BYTES = 1.5e9
START_TIMEOUT_SECS = 600.0


def await_workers(run: TrainingRun, num_workers: int) -> None:
    """Waits until all workers collect with the learner's policy.

    Raises:
      MemoryError: If less than LEAST_AVAILABLE_BYTES are left on this machine.
    """

    def is_collecting(report) -> bool:
        left = psutil.virtual_memory().available
        if left < LEAST_AVAILABLE_BYTES:
            sizes = run.pss_mb()["worker"]
            raise MemoryError(
                f"{num_workers} workers do not fit: {len(sizes)} run and take "
                f"{sum(sizes):.0f} MB, {left / 1e6:.0f} MB are left"
            )
        return report.phase == Phase.COLLECTING

    run.await_training(timeout_secs=START_TIMEOUT_SECS)
    for worker_id in range(num_workers):
        run.next_report(f"worker_{worker_id}", is_collecting, START_TIMEOUT_SECS)


def main(
    num_workers: Annotated[int, AtLeast(1)],
    secs: Annotated[float, AtLeast(0)] = 20.0,
) -> None:
    """Measures and prints the results.

    Args:
      num_workers: Worker programs.
      secs: How long to measure.
    """
    names = [f"worker_{worker_id}" for worker_id in range(num_workers)]
    with training_run("SleepingEnv", num_workers=num_workers) as run:
        await_workers(run, num_workers)
        first = {name: run.next_report(name) for name in ["learner", *names]}
        time.sleep(secs)
        last = {name: run.next_report(name) for name in ["learner", *names]}
        worker_pss_mb = sum(run.pss_mb()["worker"]) / len(names)

    def rate(name: str, key: str) -> float:
        return (getattr(last[name], key) - getattr(first[name], key)) / (
            last[name].written_at - first[name].written_at
        )

    env_rate = sum(rate(name, "env_steps") for name in names)
    num_held = sum(last[name].phase == Phase.WAITING_FOR_LEARNER for name in names)
    fields = {"num_workers": len(names), "num_workers_held_back": num_held}
    program.print_result("env_steps_per_sec", env_rate, "1/s", **fields)
    program.print_result(
        "train_steps_per_sec", rate("learner", "train_step"), "1/s", num_workers=len(names)
    )
    program.print_result("worker_pss_mb", worker_pss_mb, "MB", num_workers=len(names))


if __name__ == "__main__":
    program.run(main)
