"""Writes the learner's records."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfagents_system.core.meters import PhaseTimer, RateMeter, RecentRate
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.state.reports import Phase, StatusReporter
from tfagents_system.records.event_log import EventLog


class LearnerRecords:
    """The summaries and the status report of the learner.

    `timer` divides its time into phases.
    """

    def __init__(self, run: Run, train_step: tf.Variable):
        """Writes nothing yet; `train_step` counts the train steps done."""
        self._run, self._train_step = run, train_step
        self._reporter = StatusReporter(run.paths, "learner")
        self._summaries = EventLog(run.paths.train_summaries / "learner")
        self.timer = PhaseTimer("starting")
        self._rate, self._recent_rate = RateMeter(self.train_step), RecentRate(self.train_step)
        self._summary_rate = RateMeter(self.train_step)

    @property
    def train_step(self) -> int:
        """The number of train steps done."""
        return int(self._train_step.numpy())

    @property
    def iteration(self) -> int:
        """The number of iterations done."""
        return self.train_step // self._run.params.num_steps_per_iter

    def report(self, phase: Phase, more: Callable[[], dict[str, Any]]) -> None:
        """Replaces the report if it is a second old; `more` returns additional fields."""

        def fields() -> dict[str, Any]:
            recent = self._recent_rate.rate_at(self.train_step)
            left = self._run.num_train_steps - self.train_step
            rates = {
                "train_steps_per_sec": self._rate.rate_at(self.train_step),
                "secs_left": left / recent if recent else None,
            }
            return self._fields() | rates | more()

        self._reporter.report(phase, fields)

    def report_now(self, phase: Phase, more: Callable[[], dict[str, Any]]) -> None:
        """Replaces the report now, without rates, because training pauses or has ended."""
        self._reporter.report_now(phase, self._fields() | more())

    def summarize(self, metrics: Mapping[str, float]) -> None:
        """Writes the means of the newest train steps to TensorBoard."""
        scalars = {f"learner/{name}": value for name, value in metrics.items()}
        scalars["learner/train_steps_per_sec"] = self._summary_rate.rate_at(self.train_step)
        self._summaries.write(self.train_step, scalars | self.timer.share_scalars("learner"))

    def close(self) -> None:
        """Closes the summaries."""
        self._summaries.close()

    def _fields(self) -> dict[str, Any]:
        return {
            "train_step": self.train_step,
            "total_train_steps": self._run.num_train_steps,
            "iteration": self.iteration,
            "num_iter": self._run.params.num_iter,
            "train_steps_per_sec": 0.0,
            "secs_left": None,
            "phase_secs": self.timer.totals(),
        }
