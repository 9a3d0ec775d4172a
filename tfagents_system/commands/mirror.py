"""Mirrors a run's values, settings, files and videos to Weights & Biases or MLflow.

Example: sac mirror logs/pendulum --to mlflow

Follows a run until it ends, and repeats nothing that was mirrored before. With SAC_WANDB=1 or
SAC_MLFLOW=1, a run starts this program by itself. The run never waits for it: while the tracker
cannot be reached, it tries again, and then continues where it was.

Writes mirror/<tracker>/ in the experiment's folder: its progress, and local data (offline runs of
W&B, MLflow's database). The variables of the tracker's package name the tracker and the user:
WANDB_MODE, WANDB_PROJECT, WANDB_API_KEY, MLFLOW_TRACKING_URI and so on.
"""

import contextlib
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Annotated, Any

from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED, ConfigError
from tfagents_system.core.programs.command_line import OneOf
from tfagents_system.core.programs.program import EXIT_CODE_FILE_VARIABLE
from tfagents_system.core.state.file_locks import open_lock, try_lock
from tfagents_system.core.state.mirror_addresses import mirror_addresses
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment
from tfagents_system.core.state.reports import Phase
from tfagents_system.core.state.status_reporter import StatusReporter
from tfagents_system.launch.local.mirrors import TRACKERS, check_has_package, program_name
from tfagents_system.launch.show.status import Watch
from tfagents_system.mirror.mirror import Mirror

PERIOD_SECS = 2.0  # between checks for new records
LOOK_SECS = 0.2  # between checks for a stop
LAST_SECS = 15.0  # time for the rest when the run ends


def mirror(
    exp_dir: pathlib.Path,
    /,
    to: Annotated[str, OneOf(TRACKERS)],
    *,
    stop: object,
) -> int:
    """Mirrors a run; returns the exit code.

    Args:
      exp_dir: Folder of the experiment.
      to: wandb or mlflow.
      stop: Once true, the rest is mirrored and the function returns.

    Raises:
      ConfigError: If the experiment or the tracker's package is missing, another process mirrors
        the run, or the tracker does not accept all of a run that has ended.
    """
    paths = existing_experiment(exp_dir)
    check_has_package(to, os.environ)
    is_service = EXIT_CODE_FILE_VARIABLE in os.environ
    watch = Watch(paths)
    with _lock(paths.mirrors / to, is_service, stop) as is_ours:
        if not is_ours:
            return EXIT_STOPPED
        reports = _Reports(paths, to, is_service)
        mirror = Mirror(paths, to)

        def has_begun() -> bool:  # before that, the input may be wrong and the folder removed
            return not is_service or paths.run_spec.exists()

        while not stop and (is_service or watch.look().is_running):
            reports.write(mirror, Phase.MIRRORING)
            if has_begun():
                mirror.advance(time.monotonic() + PERIOD_SECS)
            _sleep(stop)
        if has_begun():
            _hand_over_rest(mirror, reports, stop)
        mirror.close(paths.finished.exists())
        reports.write(mirror, Phase.STOPPED)
    if mirror.problem and not is_service:
        raise ConfigError(f"{to} does not take all of {paths.root}: {mirror.problem}")
    print(f"{mirror.num_records:,} records of {paths.root} have been sent to {to}.")
    for address in mirror_addresses(paths):
        print(f"mirrored to {address}")
    return EXIT_STOPPED if stop else EXIT_FINISHED


def _hand_over_rest(mirror: Mirror, reports: "_Reports", stop: object) -> None:
    """Mirrors the rest; gives up at a failure, and LAST_SECS after a stop."""
    mirror.retry_now()
    stopped_at = float("inf")
    while not mirror.advance(time.monotonic() + LOOK_SECS) and mirror.problem is None:
        reports.write(mirror, Phase.MIRRORING)
        if stop:
            stopped_at = min(stopped_at, time.monotonic())
        if time.monotonic() - stopped_at > LAST_SECS:
            return


class _Reports:
    """Writes reports if the run has started this program; not if it was called by hand."""

    def __init__(self, paths: ExperimentPaths, tracker: str, is_service: bool):
        self._reporter = StatusReporter(paths, program_name(tracker)) if is_service else None

    def write(self, mirror: Mirror, phase: Phase) -> None:
        """Writes a report if the last one is a second old; at the end, always."""
        if self._reporter is None:
            return
        fields: dict[str, Any] = {
            "records": mirror.num_records,
            "problem": mirror.problem,
            "phase_secs": {},
        }
        if phase == Phase.STOPPED:
            self._reporter.report_now(phase, fields)
        else:
            self._reporter.report(phase, lambda: fields)


def _sleep(stop: object) -> None:
    deadline = time.monotonic() + PERIOD_SECS
    while not stop and time.monotonic() < deadline:
        time.sleep(LOOK_SECS)


@contextlib.contextmanager
def _lock(folder: pathlib.Path, waits: bool, stop: object) -> Iterator[bool]:
    """Locks `folder` for one mirror at a time; yields whether this process has the lock.

    The lock of an earlier start, on a host that died, may become free late.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with os.fdopen(open_lock(folder / "lock"), "ab") as file:
        while not try_lock(file.fileno()):
            if not waits:
                raise ConfigError(f"{folder}: another process mirrors this run.")
            if stop:
                yield False
                return
            time.sleep(PERIOD_SECS)
        yield True
