"""Finds the programs of a run that are still working."""

import time
from collections.abc import Callable
from typing import Any

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase, ReportError, read_report, reporting_programs

SILENT_SECS = 60.0  # without a new report a program counts as gone
IDLE = (Phase.PARKED, Phase.STOPPED, Phase.FINISHED)


class LivingPrograms:
    """The programs of one kind, such as all other workers, found by their reports.

    Their number is unknown: they come and go, on any host. If a report does not change for a
    while by the reader's clock, its program counts as gone; clocks of hosts differ.
    """

    def __init__(
        self,
        paths: ExperimentPaths,
        own_name: str,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Reads no report yet; `own_name` is a program of the kind that does not count."""
        self._paths = paths
        self._own_name = own_name
        self._clock = clock
        self._seen: dict[str, tuple[object, float]] = {}  # by program: its report, and since when

    def any_works(self) -> bool:
        """Returns whether at least one works; see `working`."""
        return bool(self.working())

    def working(self) -> list[str]:
        """Returns the working programs; at the first call, all that have ever reported.

        An unreadable report counts as new: on a full disk it may be read while it is overwritten.
        """
        kind = self._own_name.partition("_")[0]
        names = (n for n in reporting_programs(self._paths) if n.partition("_")[0] == kind)
        return [name for name in names if name != self._own_name and self._works(name)]

    def silent_secs(self, name: str) -> float:
        """Returns for how long a program has had no new report; 0 at the first call."""
        try:
            report = read_report(self._paths, name)
        except ReportError:
            return 0.0
        return self._unchanged_secs(name, report)

    def _works(self, name: str) -> bool:
        try:
            report = read_report(self._paths, name)
        except ReportError:
            return True
        silent_secs = self._unchanged_secs(name, report)
        return report is not None and report.phase not in IDLE and silent_secs < SILENT_SECS

    def _unchanged_secs(self, name: str, report: Any) -> float:
        identity = report and (report.host, report.pid, report.sequence)
        if name not in self._seen or self._seen[name][0] != identity:
            self._seen[name] = identity, self._clock()
        return self._clock() - self._seen[name][1]
