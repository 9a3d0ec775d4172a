"""Waits for the workers and evaluators to end after the learner has ended.

Example: python -m tfagents_system.launch.link.last_workers logs/pendulum   (train_script.sh does)

They must receive the last policy and evaluate it, so train_script.sh keeps the replay server until
then: as long as they evaluate or are paused, on any host, but not for silent ones. Prints which
programs it has given up.
"""

import pathlib
import sys
import time
from collections.abc import Callable

from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.settings.variables import ENV_TIMEOUT_SECS
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment
from tfagents_system.core.state.reports import Phase, WorkerReport, report_kind
from tfagents_system.launch.show.status import Watch
from tfagents_system.launch.show.status_line import ENDED, Snapshot

TIMEOUT_SECS = 600.0  # while none evaluates or is paused
SILENT_SECS = 20.0  # workers report each second, except during long env steps
LONG_STEP_SECS = float(ENV_TIMEOUT_SECS)  # allowed silence while evaluating, or with a service here
PERIOD_SECS = 0.5
AT_WORK = (Phase.EVALUATING, Phase.PAUSED)


class LastWorkers:
    """Judges successive snapshots of a run whose learner has ended.

    while last_workers.are_awaited(watch.look()): ...
    last_workers.given_up   # why each of these is not awaited
    """

    def __init__(self, paths: ExperimentPaths, clock: Callable[[], float] = time.monotonic):
        """Judges nothing yet."""
        self.given_up: dict[str, str] = {}  # by program
        self._paths, self._clock = paths, clock
        self._deadline = clock() + TIMEOUT_SECS

    def are_awaited(self, snapshot: Snapshot) -> bool:
        """Returns whether a worker or evaluator will probably still end by itself."""
        self.given_up = {}
        left: dict[str, WorkerReport | None] = {}
        for name, report in snapshot.reports.items():
            if report_kind(name) is not WorkerReport:
                continue
            assert report is None or isinstance(report, WorkerReport)
            is_here = (self._paths.services / name).is_dir()
            if report is None and not is_here:
                continue  # a damaged file
            if report is not None and report.phase in ENDED:
                continue
            silent_secs = snapshot.silent_secs.get(name, 0.0)
            if silent_secs < _patience_secs(report, is_here):
                left[name] = report
            else:
                self._give_up(name, report, f"has been silent for {silent_secs:.0f} s")
        if any(report and report.phase in AT_WORK for report in left.values()):
            self._deadline = self._clock() + TIMEOUT_SECS
        if self._clock() < self._deadline:
            return bool(left)
        for name, report in left.items():
            self._give_up(name, report, f"has not ended within {TIMEOUT_SECS:.0f} s")
        return False

    def _give_up(self, name: str, report: WorkerReport | None, why: str) -> None:
        what = f"{report.phase} on {report.host}" if report else "which has not reported"
        self.given_up[name] = f"{name} ({what}) {why}"


def _patience_secs(report: WorkerReport | None, is_here: bool) -> float:
    """Returns how long a program may be silent: other hosts may have vanished."""
    is_long = is_here or (report is not None and report.phase in AT_WORK)
    return LONG_STEP_SECS if is_long else SILENT_SECS


def await_last_workers(exp_dir: pathlib.Path, /) -> None:
    """Waits, and prints one line if it has given up any program.

    Args:
      exp_dir: Folder of the experiment.
    """
    paths = existing_experiment(exp_dir)
    watch, last = Watch(paths), LastWorkers(paths)
    while last.are_awaited(watch.look()):
        time.sleep(PERIOD_SECS)
    if last.given_up:
        print(f"The last evaluation may lack episodes: {'; '.join(last.given_up.values())}.")


if __name__ == "__main__":
    run_tool(await_last_workers, sys.argv)
