"""Shows the progress of an experiment as one line, until it ends.

Example: python -m tfagents_system.launch.show.status logs/pendulum   (train_script.sh does)

Reads status/<program>.json, which each program replaces about once a second, and asks the disk
itself for its free space, because nothing can be logged once it is full. The experiment may run on
other hosts that share the disk.
"""

import dataclasses
import os
import pathlib
import platform
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.state.disk import free_bytes, keep_printing_on_full_disk
from tfagents_system.core.state.file_locks import is_locked, recorded_host
from tfagents_system.core.state.generations import checkpoint_bytes
from tfagents_system.core.state.mirror_addresses import mirror_addresses
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment
from tfagents_system.core.state.pause import paused
from tfagents_system.core.state.reports import (
    Report,
    ReportError,
    read_report,
    report_kind,
    reporting_programs,
)
from tfagents_system.core.state.running import edited_files, is_finished
from tfagents_system.launch.show.ending import ending
from tfagents_system.launch.show.status_line import ENDED, Snapshot, facts, status_line

GONE_SECS = 5.0  # without a new report of any program on another host; each reports every second
LONG_AGO_SECS = 86_400.0  # the clocks of two hosts differ by less
LOOK_PERIOD_SECS = 0.2  # between looks that wait for a new report
PLAIN_PERIOD_SECS = 10.0
TERMINAL_PERIOD_SECS = 1.0
CLEAR = "\r\x1b[K"  # the line, for another text


class Watch:
    """Observes an experiment, and notices which reports change.

    Clocks of hosts differ and may be set, so silence is measured by the reader's own clock.
    """

    def __init__(self, paths: ExperimentPaths, clock: Callable[[], float] = time.monotonic):
        """Reads nothing yet."""
        self._paths = paths
        self._clock = clock
        self._began = clock()
        self._seen: dict[str, tuple[object, float]] = {}  # by program: its report, and since when
        self._has_looked = self._has_news = False  # a report since the first look
        self._told: set[str] = set()

    def look(self) -> Snapshot:
        """Reads all reports; None for a program that has never reported."""
        reports: dict[str, Report | None] = {}
        unknown: dict[str, str] = {}
        for name in self._programs():
            reports[name] = None
            try:
                reports[name] = report = read_report(self._paths, name)
            except ReportError as error:
                unknown[name] = str(error)
                continue
            if report is not None:
                identity = report.host, report.pid, report.sequence
                if self._seen.get(name, (None, 0.0))[0] != identity:
                    self._seen[name] = identity, self._clock()
                    self._has_news |= self._has_looked
        self._has_looked = True
        next_checkpoint_bytes = 0
        try:
            next_checkpoint_bytes = checkpoint_bytes(self._paths.checkpoints)
        except ConfigError as error:
            unknown["checkpoints"] = str(error)
        return Snapshot(
            reports=reports,
            unknown=unknown,
            silent_secs={name: self._clock() - since for name, (_, since) in self._seen.items()},
            is_running=self._is_running(reports.values()),
            paused=paused(self._paths),
            edited=edited_files(self._paths),
            free_bytes=free_bytes(self._paths.root),
            checkpoint_bytes=next_checkpoint_bytes,
        )

    def is_sure(self, snapshot: Snapshot) -> bool:
        """Returns whether `snapshot` shows for sure if the run is alive: no report is awaited."""
        return not snapshot.is_running or self._has_news or is_locked(self._paths.lock)

    def has_ended(self, snapshot: Snapshot) -> bool:
        """Returns whether a run without news has certainly ended.

        It is finished, all its programs have reported their end (a start removes earlier reports),
        or their last reports are so old that no difference of clocks explains it.
        """
        reports = list(snapshot.reports.values())
        is_told = bool(reports) and all(r is not None and r.phase in ENDED for r in reports)
        return is_told or is_finished(self._paths) or self._is_long_ago(snapshot.reports)

    def _is_long_ago(self, programs: Iterable[str]) -> bool:
        try:
            written = [self._paths.status(name).stat().st_mtime for name in programs]
        except OSError:  # none yet
            return False
        return bool(written) and time.time() - max(written) > LONG_AGO_SECS

    def news(self, snapshot: Snapshot) -> list[str]:
        """Returns facts to show once, without those that an earlier call has returned.

        These are facts that hold for the whole run, and where it is mirrored, which a mirror knows
        once it is connected.
        """
        addresses = [f"mirrored to {address}" for address in mirror_addresses(self._paths)]
        news = [text for text in (*facts(snapshot), *addresses) if text not in self._told]
        self._told.update(news)
        return news

    def _services(self) -> list[pathlib.Path]:
        return sorted(path for path in self._paths.services.glob("*") if path.is_dir())

    def _programs(self) -> list[str]:
        """Returns the names of all programs; in a copied folder, they may have no service."""
        services = {service.name for service in self._services() if report_kind(service.name)}
        return sorted(services.union(reporting_programs(self._paths)))

    def _is_running(self, reports: Iterable[Report | None]) -> bool:
        """Returns whether the run is alive: by its lock on this host, by new reports on others."""
        lock = self._paths.lock
        if is_locked(lock):
            return True
        hosts = {recorded_host(lock)}
        if lock.exists() and not os.access(lock, os.R_OK):  # it is another user's
            hosts |= {report.host for report in reports if report}
        if hosts <= {None, platform.node()}:
            return False
        last_change = max([self._began, *(since for _, since in self._seen.values())])
        return self._clock() - last_change < GONE_SECS


def settled(watches: Sequence[Watch]) -> list[Snapshot]:
    """Returns a snapshot of each experiment, which tells whether it is running.

    Only a new report can tell whether a run is alive on another host: waits for the reports of all
    runs at once, for GONE_SECS at most since the watch was made.
    """
    snapshots = [_first_look(watch) for watch in watches]
    while waiting := [k for k, watch in enumerate(watches) if not watch.is_sure(snapshots[k])]:
        time.sleep(LOOK_PERIOD_SECS)
        for k in waiting:
            snapshots[k] = watches[k].look()
    return snapshots


def _first_look(watch: Watch) -> Snapshot:
    snapshot = watch.look()
    if not watch.is_sure(snapshot) and watch.has_ended(snapshot):
        return dataclasses.replace(snapshot, is_running=False)
    return snapshot


def show(exp_dir: pathlib.Path, /) -> None:
    """Shows the status until the experiment has ended, or SIGTERM.

    Args:
      exp_dir: Folder of the experiment.

    Raises:
      ConfigError: If there is no such experiment.
    """
    keep_printing_on_full_disk()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    paths = existing_experiment(exp_dir)
    watch = Watch(paths)
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    show_line = _show_on_terminal if is_terminal else _show_as_line
    period_secs = TERMINAL_PERIOD_SECS if is_terminal else PLAIN_PERIOD_SECS

    def tell_news(snapshot: Snapshot) -> None:
        for text in watch.news(snapshot):
            print(f"{CLEAR if is_terminal else ''}{text}", flush=True)

    try:
        if not is_terminal and watch.look().is_running:
            time.sleep(2.0)  # time for the first reports
        while (snapshot := watch.look()).is_running:
            tell_news(snapshot)
            show_line(snapshot)
            time.sleep(period_secs)
    finally:
        if is_terminal:
            print()
    if any(snapshot.reports.values()) or snapshot.unknown:
        print(status_line(snapshot))
    tell_news(snapshot)
    print(ending(paths))


def _show_on_terminal(snapshot: Snapshot) -> None:
    width = shutil.get_terminal_size().columns - 1
    sys.stdout.write(f"{CLEAR}{status_line(snapshot, width)}")
    sys.stdout.flush()


def _show_as_line(snapshot: Snapshot) -> None:
    print(f"{time.strftime('%H:%M:%S')} {status_line(snapshot)}", flush=True)


if __name__ == "__main__":
    run_tool(show, sys.argv)
