"""Waits until the workers on other hosts have ended, after the learner has.

Example: python -m tfagents_system.launch.link.last_workers logs/pendulum   (train_script.sh does)

They must receive the last policy, so train_script.sh keeps the replay server until then, but for a
minute at most, and not for silent workers.
"""

import pathlib
import sys
import time
from collections.abc import Mapping

from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.state.paths import existing_experiment
from tfagents_system.core.state.reports import Phase, WorkerReport
from tfagents_system.launch.show.status import Watch

TIMEOUT_SECS = 60.0
SILENT_SECS = 20.0  # workers report each second, except during long env steps
PERIOD_SECS = 0.5


def await_last_workers(exp_dir: pathlib.Path, /) -> None:
    """Waits.

    Args:
      exp_dir: Folder of the experiment.
    """
    watch = Watch(existing_experiment(exp_dir))
    deadline = time.monotonic() + TIMEOUT_SECS
    while time.monotonic() < deadline:
        snapshot = watch.look()
        if not any(_is_working(report, snapshot.silent_secs) for report in snapshot.workers):
            return
        time.sleep(PERIOD_SECS)


def _is_working(report: WorkerReport, silent_secs: Mapping[str, float]) -> bool:
    if report.phase in (Phase.FINISHED, Phase.STOPPED):
        return False
    return silent_secs.get(report.program, 0.0) < SILENT_SECS


if __name__ == "__main__":
    run_tool(await_last_workers, sys.argv)
