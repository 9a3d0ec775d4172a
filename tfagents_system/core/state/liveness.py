"""Finds the programs of a run that are still working."""

import time
from collections.abc import Callable
from typing import Any

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase, ReportError, read_report, reporting_programs

SILENT_SECS = 60.0  # without a new report a program counts as gone
IDLE = (Phase.PARKED, Phase.STOPPED, Phase.FINISHED)


class LivingPrograms:
    """The programs of one kind, such as all workers but this one, by the reports that are there.

    Nobody knows how many there should be: they come and go, on any host. A report that does not
    change is of a program that is gone; clocks of hosts differ, so that is judged by the reader's.
    """

    def __init__(
        self,
        paths: ExperimentPaths,
        own_name: str,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Looks at nothing yet; `own_name` is a program of the kind, which does not count."""
        self._paths = paths
        self._own_name = own_name
        self._clock = clock
        self._seen: dict[str, tuple[object, float]] = {}  # by program: its report, since when

    def any_works(self) -> bool:
        """Returns whether one works; see `working`."""
        return bool(self.working())

    def working(self) -> list[str]:
        """Returns those that work; what has reported before the first look may do so still.

        A report that cannot be read counts as new: on a full disk it may be caught while it is
        written over.
        """
        kind = self._own_name.partition("_")[0]
        names = (n for n in reporting_programs(self._paths) if n.partition("_")[0] == kind)
        return [name for name in names if name != self._own_name and self._works(name)]

    def silent_secs(self, name: str) -> float:
        """Returns for how long looks at a program have found no new report of it; 0 at first."""
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
