"""Shows the progress of a running experiment as one line.

Example: python -m tfagents_system.launch.status logs/pendulum   (train_script.sh runs it, too)

Reads status/<program>.json, which each program replaces about once a second, and service/*/starts;
asks the disk itself for its free space, because logs say nothing once it is full.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

from tfagents_system.core.command_line import run_tool
from tfagents_system.core.disk import (
    checkpoint_bytes,
    free_bytes,
    keep_printing_on_full_disk,
    shortage,
)
from tfagents_system.core.paths import ExperimentPaths, existing_experiment
from tfagents_system.launch.restart_budget import read_starts

NOT_RESPONDING_SECS = 30.0
PLAIN_PERIOD_SECS = 10.0
SEPARATOR = " | "
TROUBLES = {
    "env_failures": "env failures",
    "rejected_steps": "rejected steps",
    "items_sent_again": "sent again",
    "unprotected_steps": "not in a journal",
}  # what workers count since their start: shown if there are any


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What all programs of a run last reported, and the state of its disk."""

    reports: Mapping[str, Mapping[str, Any]]  # by program; empty until it has reported
    num_restarts: int
    free_bytes: int
    checkpoint_bytes: int  # that the next one needs

    @property
    def workers(self) -> list[Mapping[str, Any]]:
        """Reports of the workers that have reported."""
        return [r for name, r in self.reports.items() if name.startswith("worker_") and r]


def take_snapshot(paths: ExperimentPaths) -> Snapshot:
    """Reads the status files; a missing or damaged one counts as not reported yet."""
    services = sorted(path for path in paths.services.glob("*") if path.is_dir())
    reports = {service.name: _read_report(paths.status(service.name)) for service in services}
    return Snapshot(
        reports,
        sum(max(0, len(read_starts(service)) - 1) for service in services),
        free_bytes(paths.root),
        checkpoint_bytes(paths.checkpoints),
    )


def status_line(snapshot: Snapshot, now: float) -> str:
    """Returns the line that describes `snapshot` at the unix time `now`."""
    learner = snapshot.reports.get("learner", {})
    parts = _disk_full(snapshot) + _not_responding(snapshot, now) + _parked(snapshot)
    parts += _suspicious_ends(snapshot)
    if "train_step" not in learner or learner.get("phase") == "starting":
        parts += _starting(snapshot)
    elif _is_filling(snapshot, learner):
        parts += _random_fill(snapshot)
    else:
        parts += _training(snapshot, learner)
    for field, name in TROUBLES.items():
        if count := sum(worker.get(field, 0) for worker in snapshot.workers):
            parts.append(f"{name} {count:,}")
    if snapshot.num_restarts:
        parts.append(f"restarts {snapshot.num_restarts}")
    return SEPARATOR.join(parts)


def format_duration(secs: float) -> str:
    """Returns a duration as people say it: `45 s`, `3 min 20 s`, `5 h 10 min`, `2 d 4 h`."""
    minutes, seconds = divmod(round(secs), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    first = next((index for index, (count, _) in enumerate(units) if count), 3)
    return " ".join(f"{count} {unit}" for count, unit in units[first : first + 2] if count) or "0 s"


def _starting(snapshot: Snapshot) -> list[str]:
    silent = [
        name
        for name, report in snapshot.reports.items()
        if not report or report.get("phase") == "starting"
    ]
    return [f"starting {', '.join(silent)}" if silent else "starting"]


def _is_filling(snapshot: Snapshot, learner: Mapping[str, Any]) -> bool:
    replay = snapshot.reports.get("replay", {})
    is_short = not replay or replay["transitions"] < replay["fill_target"]
    return learner["phase"] == "waiting for data" and is_short


def _random_fill(snapshot: Snapshot) -> list[str]:
    replay = snapshot.reports.get("replay", {})
    parts = ["filling the replay buffer"]
    stored, target = replay.get("transitions"), replay.get("fill_target")
    if stored is not None and target:
        parts[0] += f" {stored:,} of {target:,} ({min(1.0, stored / target):.0%})"
    return parts + _collecting(snapshot)


def _training(snapshot: Snapshot, learner: Mapping[str, Any]) -> list[str]:
    step, total = learner["train_step"], learner["total_train_steps"]
    rate = learner["train_steps_per_sec"]
    done = f"{step / total:.0%}" if total else "-"
    phase = learner["phase"]
    parts = [] if phase == "training" else [phase]
    parts.append(f"iteration {learner['iteration']:,} of {learner['num_iter']:,} ({done})")
    parts.append(f"train steps {step:,}, {rate:,.0f}/s")
    parts += _collecting(snapshot) + _evaluation(snapshot)
    if rate > 0 and step < total:
        parts.append(f"{format_duration((total - step) / rate)} left")
    return parts


def _collecting(snapshot: Snapshot) -> list[str]:
    if not snapshot.workers:
        return []
    env_steps = sum(worker["env_steps"] for worker in snapshot.workers)
    rate = sum(worker["env_steps_per_sec"] for worker in snapshot.workers)
    parts = [f"env steps {env_steps:,}, {rate:,.0f}/s"]
    returns = [w["last_return"] for w in snapshot.workers if w["last_return"] is not None]
    if returns:
        parts.append(f"return {statistics.fmean(returns):,.1f}")
    return parts


def _evaluation(snapshot: Snapshot) -> list[str]:
    evaluations = [w["eval"] for w in snapshot.workers if w["eval"] and w["eval"]["returns"]]
    if not evaluations:
        return []
    newest = max(evaluation["iteration"] for evaluation in evaluations)
    returns = [r for e in evaluations if e["iteration"] == newest for r in e["returns"]]
    return [f"eval {statistics.fmean(returns):,.1f} (iteration {newest:,})"]


def _disk_full(snapshot: Snapshot) -> list[str]:
    if snapshot.free_bytes >= snapshot.checkpoint_bytes:
        return []
    return [shortage("checkpoint", snapshot.checkpoint_bytes, snapshot.free_bytes)]


def _not_responding(snapshot: Snapshot, now: float) -> list[str]:
    # A report from the future is an old one, too, from before the clock was set back. In either
    # direction a set clock shows until the next report.
    ages = {
        name: abs(now - report["time"])
        for name, report in snapshot.reports.items()
        if report and report.get("phase") != "finished"
    }
    silent = [
        f"{name} ({format_duration(age)})"
        for name, age in ages.items()
        if age > NOT_RESPONDING_SECS
    ]
    return [f"NOT RESPONDING: {', '.join(silent)}"] if silent else []


def _parked(snapshot: Snapshot) -> list[str]:
    names = [name for name, report in snapshot.reports.items() if report.get("phase") == "parked"]
    return [f"PARKED: {', '.join(names)}"] if names else []


def _suspicious_ends(snapshot: Snapshot) -> list[str]:
    names = [name for name, report in snapshot.reports.items() if report.get("suspicion")]
    if not names:
        return []
    return [f"TIME LIMIT TAKEN FOR A TERMINATION? See stdout/{names[0]}.log"]


REQUIRED_KEYS = {
    "learner": ("time", "phase", "train_step", "total_train_steps", "iteration", "num_iter",
                "train_steps_per_sec"),
    "worker": ("time", "phase", "env_steps", "env_steps_per_sec", "last_return", "eval"),
    "replay": ("time", "transitions", "fill_target"),
}  # fmt: skip


def _read_report(path: pathlib.Path) -> Mapping[str, Any]:
    try:
        report = json.loads(path.read_text())
        keys = REQUIRED_KEYS[path.stem.partition("_")[0]]
        return report if all(key in report for key in keys) else {}
    except (OSError, ValueError, TypeError):
        return {}


def _show_on_terminal(paths: ExperimentPaths) -> None:
    while True:
        line = status_line(take_snapshot(paths), time.time())
        width = shutil.get_terminal_size().columns - 1
        text = line if len(line) <= width else f"{line[: width - 1]}…"
        sys.stdout.write(f"\r{text}\x1b[K")
        sys.stdout.flush()
        time.sleep(1.0)


def _show_as_lines(paths: ExperimentPaths) -> None:
    time.sleep(2.0)  # the first reports
    while True:
        clock = time.strftime("%H:%M:%S")
        print(f"{clock} {status_line(take_snapshot(paths), time.time())}", flush=True)
        time.sleep(PLAIN_PERIOD_SECS)


def show(exp_dir: pathlib.Path, /) -> None:
    """Shows the status until SIGTERM.

    Args:
      exp_dir: Folder of the experiment.
    """
    keep_printing_on_full_disk()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    paths = existing_experiment(exp_dir)
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        _show_as_lines(paths)
    try:
        _show_on_terminal(paths)
    finally:
        print()


if __name__ == "__main__":
    run_tool(show, sys.argv)
