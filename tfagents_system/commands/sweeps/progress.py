"""Reports the progress of a sweep."""

import time
from collections.abc import Callable, Iterable

from tfagents_system.commands.sweeps.experiments import Experiment
from tfagents_system.core.meters import format_duration
from tfagents_system.core.state.reports import LearnerReport, report_or_none
from tfagents_system.launch.show.parts import SEPARATOR


class Progress:
    """Counts experiments, and forecasts the end from the share that this start has trained."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic):
        """Begins to measure time; `total` counts the experiments, also those that have ended."""
        self._total, self._clock, self._began_at = total, clock, clock()
        self._num_ended, self._num_failed = 0, 0
        self._share_at_start: dict[str, float] = {}  # of those that run, by name
        self._trained = 0.0  # experiments that this start has trained; shares of them count, too

    def skip(self) -> None:
        """Counts an experiment that has ended in an earlier start."""
        self._num_ended += 1

    def begin(self, experiment: Experiment) -> None:
        """Counts an experiment's training from now on."""
        self._share_at_start[experiment.name] = _share(_report_of(experiment))

    def end(self, experiment: Experiment, has_failed: bool) -> None:
        """Counts an experiment that has ended in this start."""
        self._num_ended += 1
        self._num_failed += has_failed
        self._trained += self._gain(experiment)
        del self._share_at_start[experiment.name]

    def count(self) -> str:
        """Returns how many experiments have ended."""
        failed = f", {self._num_failed} failed" if self._num_failed else ""
        return f"{self._num_ended} of {self._total} experiments{failed}"

    def line(self, running: Iterable[Experiment]) -> str:
        """Returns a line on ended and running experiments, their speed and the time left."""
        shares, rate, gain = [], 0.0, 0.0
        left = float(self._total - self._num_ended)  # experiments
        for experiment in running:
            report = _report_of(experiment)
            shares.append(f"{experiment.name} {_share(report):.0%}")
            rate += report.train_steps_per_sec if report else 0.0
            gain += self._gain(experiment)
            left -= _share(report)
        parts = [self.count()]
        if left > 0 and (trained := self._trained + gain) > 0:
            secs_left = (self._clock() - self._began_at) * left / trained
            parts.append(f"{format_duration(secs_left)} left")
        if rate >= 1:
            parts.append(f"{rate:,.0f} train steps/s")
        return SEPARATOR.join([*parts, *shares])

    def _gain(self, experiment: Experiment) -> float:
        return _share(_report_of(experiment)) - self._share_at_start[experiment.name]


def _report_of(experiment: Experiment) -> LearnerReport | None:
    report: LearnerReport | None = report_or_none(experiment.paths, "learner")
    return report


def _share(report: LearnerReport | None) -> float:
    return report.train_step / report.total_train_steps if report else 0.0
