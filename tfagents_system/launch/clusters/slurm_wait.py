"""Submits a run to SLURM, unless it is in the queue, and waits for its end.

Example: python -m tfagents_system.launch.clusters.slurm_wait

For commands that train several runs, such as `sac sweep`. SIGTERM and Ctrl-C cancel the jobs, which
then save. Exit codes: 0 (finished), 78 (wrong input), 143 (stopped), 1 (other failures).
"""

import os
import signal
import sys
import time
from collections.abc import Sequence

from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED, ConfigError
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.running import is_finished
from tfagents_system.launch.clusters import slurm_placement
from tfagents_system.launch.clusters.slurm_placement import ask_slurm, jobs_in_queue, submitted_jobs

POLL_SECS = 5.0  # each squeue call burdens the controller, which serves all users


def wait() -> int:
    """Blocks until the run's jobs have left the queue; returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: sys.exit(EXIT_STOPPED))
    paths = ExperimentPaths(Settings.from_environ(os.environ).exp_dir)
    try:
        if not jobs_in_queue(paths):
            slurm_placement.main()
        _await_jobs(paths)
    except SystemExit:
        if jobs := submitted_jobs(paths):
            _cancel(jobs)
        raise
    if is_finished(paths):
        return EXIT_FINISHED
    print(
        f"The jobs have ended, and {paths.root} is not finished: see {paths.slurm}.",
        flush=True,
    )
    return 1


def _await_jobs(paths: ExperimentPaths) -> None:
    """Blocks while the jobs are in the queue, or SLURM does not say whether they are."""
    is_answered = True
    while True:
        try:
            if not jobs_in_queue(paths):
                return
            is_answered = True
        except ConfigError as error:  # its controller may be busy or restarting
            if is_answered:
                print(f"{error} Asking again every {POLL_SECS:g} s.", flush=True)
            is_answered = False
        time.sleep(POLL_SECS)


def _cancel(jobs: Sequence[str]) -> None:
    """Cancels jobs, or prints how to; those that have ended do not matter."""
    command = ["scancel", "--quiet", *jobs]
    try:
        reason = ask_slurm(command).stderr.strip()
    except ConfigError as error:
        reason = str(error)
    if reason:
        print(f"{reason}\nThe jobs may still run. To stop them: {' '.join(command)}", flush=True)


if __name__ == "__main__":
    run_tool(wait, ["run_script.sh", *sys.argv[1:]])
