"""Lists experiments, one per line: state, train steps, returns, size and age.

Example: sac list logs
"""

import math
import os
import pathlib
import re
import time

from tfagents_system.core.display import printable
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.best_policies import best_policy
from tfagents_system.core.state.mirror_addresses import mirror_addresses
from tfagents_system.core.state.paths import (
    POLICY_CHECKPOINT_PREFIX,
    ExperimentPaths,
    is_experiment,
)
from tfagents_system.launch.show.status import Watch, settled
from tfagents_system.launch.show.status_line import Snapshot, format_duration
from tfagents_system.records.run_history import read_evaluations
from tfagents_system.terminal.progress import progress_bar

COLUMNS = ("experiment", "state", "train steps", "return", "best", "success", "size", "changed",
           "mirrored to")  # fmt: skip
LEFT = ("experiment", "state", "mirrored to")  # columns of text
IF_ANY = ("success", "mirrored to")  # columns that are left out if they are empty


def list_runs(folder: pathlib.Path = pathlib.Path("logs"), /) -> None:
    """Prints a table of the experiments in a folder, those that changed last at the end.

    Args:
      folder: Folder of the experiments.

    Raises:
      ConfigError: If there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder. Give the one that holds the experiments.")
    experiments = [ExperimentPaths(path) for path in folder.glob("[!.]*") if is_experiment(path)]
    if not experiments:
        print(f"No experiments in {folder}.")
        return
    with progress_bar(f"reading {len(experiments)} experiments"):
        sizes = {paths: size_and_change(paths.root) for paths in experiments}
        experiments.sort(key=lambda paths: sizes[paths][1])
        snapshots = settled([Watch(paths) for paths in experiments])
        rows = [
            _row(paths, state_of(paths, snapshot), *sizes[paths])
            for paths, snapshot in zip(experiments, snapshots, strict=True)
        ]
    columns = []
    for header, *column in zip(COLUMNS, *rows, strict=True):
        if header not in IF_ANY or any(column):
            cells = [header, *map(printable, column)]
            width = max(map(len, cells))
            columns.append([c.ljust(width) if header in LEFT else c.rjust(width) for c in cells])
    for line in zip(*columns, strict=True):
        print("  ".join(line).rstrip())


def state_of(paths: ExperimentPaths, snapshot: Snapshot) -> str:
    """Returns "running", "finished", "stopped" or "cloned".

    Also whether it is paused, or cannot be saved.
    """
    state = "running" if snapshot.is_running else "stopped"
    if not snapshot.is_running and paths.finished.exists():
        state = "finished"
    if paths.clone.exists():
        state = "cloned"
    if snapshot.paused:
        state += ", paused"
    problem = snapshot.learner.not_saved if snapshot.learner else None
    return f"{state}, not saved for {re.split('[:(]', problem)[0].strip()}" if problem else state


def size_and_change(folder: pathlib.Path) -> tuple[int, float]:
    """Returns the size of all files below `folder` in bytes, and the unix time of the last change.

    Files that vanish meanwhile do not count.
    """
    total, newest = 0, 0.0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(root, name))
            except OSError:
                continue
            total += status.st_blocks * 512
            newest = max(newest, status.st_mtime)
    return total, newest


def format_bytes(count: int) -> str:
    """Returns a size as text, such as "1.3 GB"."""
    unit = min(3, int(math.log(count, 1000))) if count > 0 else 0
    return f"{count / 1000**unit:.{1 if unit else 0}f} {('B', 'kB', 'MB', 'GB')[unit]}"


def _row(paths: ExperimentPaths, state: str, size: int, changed: float) -> tuple[str, ...]:
    best = best_policy(paths)
    try:
        evaluations = read_evaluations(paths)
    except ConfigError:  # a damaged file costs a cell, not the table
        evaluations = []
    checkpoints = paths.policy_checkpoints()
    steps = [int(path.name.removeprefix(POLICY_CHECKPOINT_PREFIX)) for path in checkpoints[-1:]]
    steps += [evaluation.train_step for evaluation in evaluations[-1:]]
    success_rate = evaluations[-1].success_rate if evaluations else None
    return (
        paths.root.name,
        state,
        f"{max(steps):,}" if steps else "",
        f"{evaluations[-1].mean_return:,.1f}" if evaluations else "",
        f"{best.mean_return:,.1f}" if best else "",
        "" if success_rate is None else f"{success_rate:.0%}",
        format_bytes(size),
        f"{format_duration(max(0.0, time.time() - changed))} ago",
        ", ".join(mirror_addresses(paths)),
    )
