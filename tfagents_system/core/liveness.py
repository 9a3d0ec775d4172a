"""Which other programs of a run still work."""

import time
from collections.abc import Callable

from tfagents_system.core.paths import ExperimentPaths
from tfagents_system.core.reports import Phase, ReportError, read_report

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
        """Returns whether one works; what has reported before the first look may do so still.

        A report that cannot be read counts as new: on a full disk it may be caught while it is
        written over.
        """
        kind = self._own_name.partition("_")[0]
        names = {path.stem for path in self._paths.statuses.glob(f"{kind}_*.json")}
        return any([self._works(name) for name in sorted(names - {self._own_name})])

    def _works(self, name: str) -> bool:
        try:
            report = read_report(self._paths, name)
        except ReportError:
            return True
        if report is None:
            return False
        identity = report.host, report.pid, report.sequence
        if self._seen.get(name, (None, 0.0))[0] != identity:
            self._seen[name] = identity, self._clock()
        return report.phase not in IDLE and self._clock() - self._seen[name][1] < SILENT_SECS
