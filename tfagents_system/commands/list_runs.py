"""Lists experiments, one per line: state, train steps, returns, size and age.

Example: sac list logs

Below the table, it prints what is wrong with broken experiments.
"""

import os
import pathlib
import re
import shlex
import time
from collections.abc import Sequence

from tfagents_system.core.display import printable
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.meters import format_duration
from tfagents_system.core.state.best_policies import best_policy
from tfagents_system.core.state.disk import format_bytes
from tfagents_system.core.state.experiment_faults import fault_of
from tfagents_system.core.state.mirror_addresses import mirror_addresses
from tfagents_system.core.state.paths import (
    POLICY_CHECKPOINT_PREFIX,
    ExperimentPaths,
    is_experiment,
)
from tfagents_system.launch.show.status import Watch, settled
from tfagents_system.launch.show.status_line import Snapshot
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
      ConfigError: If there is no such folder, or it is an experiment's.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder. Give the one that holds the experiments.")
    if is_experiment(folder):
        parent = shlex.quote(str(folder.absolute().parent))
        raise ConfigError(f"{folder} is an experiment. Those next to it: sac list {parent}")
    paths = [folder / name for name in os.listdir(folder) if not name.startswith(".")]
    paths = [path for path in paths if os.path.isdir(path)]
    with progress_bar(f"reading {len(paths)} folders"):
        faults = {path: fault for path in paths if (fault := fault_of(path))}
        watches = {path: Watch(ExperimentPaths(path)) for path in paths if is_experiment(path)}
        for watch in watches.values():
            watch.look()  # other hosts may report while the rest is read
        sizes = {path: size_and_change(path) for path in {**watches, **faults}}
        cells = {path: _cells(ExperimentPaths(path)) for path in watches}
        snapshots = dict(zip(watches, settled(list(watches.values())), strict=True))
    rows = []
    order = sorted(sizes, key=lambda path: sizes[path][1])
    for path in order:
        size, changed = sizes[path]
        states = [state_of(ExperimentPaths(path), snapshots[path])] if path in snapshots else []
        if path in snapshots and (unread := snapshots[path].unknown.get("checkpoints")):
            faults.setdefault(path, unread)
        steps, *results, mirrors = cells.get(path, [""] * 5)
        state = ", ".join(states + ["broken"] * (path in faults))
        rows.append((path.name, state, steps, *results, format_bytes(size), _age(changed), mirrors))
    if not rows:
        print(f"No experiments in {folder}.")
        return
    _print_table(rows)
    for path in filter(faults.get, order):
        print(printable(f"{path.name} is broken: {faults[path]}"))


def _print_table(rows: Sequence[Sequence[str]]) -> None:
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

    Adds whether it is paused, or cannot be saved.
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


def _age(changed: float) -> str:
    return f"{format_duration(max(0.0, time.time() - changed))} ago" if changed else ""


def _cells(paths: ExperimentPaths) -> list[str]:
    """Returns the cells about training: the columns from "train steps" to "success".

    The last one tells where the experiment is mirrored to.
    """
    best = best_policy(paths)
    try:
        evaluations = read_evaluations(paths)
    except ConfigError:  # a damaged file costs a cell, not the table
        evaluations = []
    checkpoints = paths.policy_checkpoints()
    steps = [int(path.name.removeprefix(POLICY_CHECKPOINT_PREFIX)) for path in checkpoints[-1:]]
    steps += [evaluation.train_step for evaluation in evaluations[-1:]]
    success_rate = evaluations[-1].success_rate if evaluations else None
    return [
        f"{max(steps):,}" if steps else "",
        f"{evaluations[-1].mean_return:,.1f}" if evaluations else "",
        f"{best.mean_return:,.1f}" if best else "",
        "" if success_rate is None else f"{success_rate:.0%}",
        ", ".join(mirror_addresses(paths)),
    ]
