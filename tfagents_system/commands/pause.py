"""Pauses a run, and resumes it, for example while people are next to a robot.

Example: sac pause logs/arm
Example: sac pause logs/arm --only collection
Example: sac resume logs/arm

While collection is paused, no program takes an env step or resets an environment, not for an
evaluation either; an episode that runs ends after its env step. The pause also holds for programs
and runs that start later, until `sac resume`. `sac pause` returns once every program has reported
that it pauses.
"""

import functools
import pathlib
import shlex
import time
from typing import Annotated

from tfagents_system.core.display import printable
from tfagents_system.core.programs.command_line import OneOf
from tfagents_system.core.state import pause as pauses
from tfagents_system.core.state.paths import existing_experiment
from tfagents_system.core.state.reports import LearnerReport, Phase, Report, WorkerReport
from tfagents_system.launch.show.status import Watch, settled
from tfagents_system.launch.show.status_line import ENDED, Snapshot
from tfagents_system.terminal.lines import Terminal

LOOK_PERIOD_SECS = 0.2


def pause(
    exp_dir: pathlib.Path, /, only: Annotated[str | None, OneOf(pauses.PARTS)] = None
) -> None:
    """Pauses a run, and waits until its programs do.

    Args:
      exp_dir: Folder of the experiment.
      only: collection or learning. Default: both.

    Raises:
      ConfigError: If there is no such experiment.
    """
    paths = existing_experiment(exp_dir)
    watch = Watch(paths)
    pauses.pause(paths, [only] if only else pauses.PARTS)
    parts, terminal = pauses.paused(paths), Terminal()
    snapshot = first = watch.look()
    while snapshot.is_running and (missing := _missing(first, snapshot, parts)):
        if not pauses.paused(paths):
            terminal.print(f"{printable(paths.root)} was resumed meanwhile.")
            return
        if snapshot is first:
            terminal.print(f"Waiting for {', '.join(missing)}.")
        terminal.show(functools.partial("NOT PAUSED YET: {}".format, ", ".join(missing)))
        time.sleep(LOOK_PERIOD_SECS)
        snapshot = watch.look()
    shown = f"{' and '.join(parts)} of {printable(paths.root)}"
    how = "are paused" if len(parts) > 1 else "is paused"
    if not snapshot.is_running:
        terminal.print(f"{shown} {how}: no program runs, and the next start pauses, too.")
    else:
        terminal.print(f"{shown} {how}, as every program has reported.")
    terminal.print(f"To continue: sac resume {printable(shlex.quote(str(exp_dir)))}")


def resume(exp_dir: pathlib.Path, /) -> None:
    """Ends the pause of a run.

    Args:
      exp_dir: Folder of the experiment.

    Raises:
      ConfigError: If there is no such experiment.
    """
    paths = existing_experiment(exp_dir)
    parts = pauses.paused(paths)
    pauses.resume(paths)
    if not parts:
        print(f"{printable(paths.root)} is not paused.")
    elif settled([Watch(paths)])[0].is_running:
        verb = "continue" if len(parts) > 1 else "continues"
        print(f"{' and '.join(parts)} of {printable(paths.root)} {verb} within a second.")
    else:
        print(f"{printable(paths.root)} is no longer paused; no program runs.")


def _missing(first: Snapshot, now: Snapshot, parts: tuple[str, ...]) -> list[str]:
    """Returns the programs that have not yet reported, since `first`, that they are paused."""
    return [
        name
        for name, report in now.reports.items()
        if _is_to_pause(name, report, parts)
        and (report is None or _is_old(first.reports.get(name), report)
             or report.phase != Phase.PAUSED)
    ]  # fmt: skip


def _is_to_pause(name: str, report: Report | None, parts: tuple[str, ...]) -> bool:
    if report is not None and report.phase in ENDED:
        return False
    is_learner = isinstance(report, LearnerReport) or name == "learner"
    is_collector = isinstance(report, WorkerReport) or name.startswith(("worker_", "evaluator_"))
    return is_learner and pauses.LEARNING in parts or is_collector and pauses.COLLECTION in parts


def _is_old(before: Report | None, now: Report) -> bool:
    """Returns whether `now` may have been written before the pause."""
    return before is not None and (before.pid, before.sequence) == (now.pid, now.sequence)
