"""Writes the learner's records, and tells its callbacks."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfagents_system.core.errors import EXIT_DIVERGED, EXIT_FINISHED, EXIT_STOPPED
from tfagents_system.core.meters import SHOWN_WINDOW_SECS, PhaseTimer, RateMeter, RecentRate
from tfagents_system.core.programs.callbacks import (
    Callbacks,
    CheckpointEvent,
    EndEvent,
    Event,
    IterationEvent,
)
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.state.generations import generation_dir
from tfagents_system.core.state.pause import LEARNING, pause_of
from tfagents_system.core.state.reports import Phase
from tfagents_system.core.state.status_reporter import StatusReporter
from tfagents_system.learning.metric_means import MetricMeans
from tfagents_system.learning.save_record import SaveRecord
from tfagents_system.records.event_log import EventLog

HOLD_SECS = 1.0  # during a pause, between looks at the replay server
ENDS = {EXIT_FINISHED: "finished", EXIT_STOPPED: "stopped", EXIT_DIVERGED: "diverged"}


class LearnerRecords:
    """The summaries, the status report and the callbacks of the learner.

    `timer` divides its time into phases.
    """

    def __init__(
        self, run: Run, train_step: tf.Variable, saves: SaveRecord, offline: str | None = None
    ):
        """Writes nothing yet.

        Args:
          run: The run.
          train_step: Counts the train steps done.
          saves: The record of checkpoints, in which a restored one counts.
          offline: For an offline run, what it learns from, and what that means.
        """
        self._offline = offline
        self._run, self._train_step, self._saves = run, train_step, saves
        self._is_paused = pause_of(run.paths, LEARNING)
        self._told_step, self._told_iteration = saves.train_step, self.iteration
        self._callbacks = Callbacks(run.params.callbacks, "learner", run.paths)
        self._reporter = StatusReporter(run.paths, "learner")
        self._summaries = EventLog(run.paths.train_summaries / "learner")
        self.timer = PhaseTimer("starting")
        self._rate = RateMeter(self.train_step, SHOWN_WINDOW_SECS)
        self._recent_rate = RecentRate(self.train_step)
        self._summary_rate = RateMeter(self.train_step)
        self._of_summary, self._of_iteration = MetricMeans(), MetricMeans()

    @property
    def train_step(self) -> int:
        """The number of train steps done."""
        return int(self._train_step.numpy())

    @property
    def iteration(self) -> int:
        """The number of iterations done."""
        return self.train_step // self._run.params.num_steps_per_iter

    def started(self) -> None:
        """Tells the callbacks that the learner begins to work, and reports an offline run."""
        if self._offline:
            print(text := f"Trains offline on {self._offline}.", flush=True)
            self._summaries.write(self.train_step, {}, texts={"learner/offline": text})
        self._tell("on_start", Event)

    def hold(self, stop: object, more: Callable[[], dict[str, Any]]) -> bool:
        """Waits while learning is paused, a second at most; returns whether it is."""
        until = time.monotonic() + HOLD_SECS
        while (is_paused := self._is_paused()) and not stop and time.monotonic() < until:
            self.timer.enter("paused")
            self._recent_rate.begin_anew(self.train_step)  # a pause says nothing of the time left
            self.report(Phase.PAUSED, more)
            time.sleep(0.1)
        return is_paused

    def trained(self, metrics: Mapping[str, float], num_steps: int) -> None:
        """Notes the metrics of a call of the learner, means over `num_steps`."""
        self._of_summary.add(metrics, num_steps)
        self._of_iteration.add(metrics, num_steps)

    def advanced(self) -> None:
        """Tells the callbacks of a completed iteration, and of a new checkpoint."""
        if self.iteration > self._told_iteration:
            self._told_iteration = self.iteration
            self._tell("on_iteration", IterationEvent, metrics=self._of_iteration.take())
        self._tell_of_checkpoint()

    def ended(self, exit_code: int) -> None:
        """Tells the callbacks of the last checkpoint, and of the end."""
        self._tell_of_checkpoint()
        self._tell("on_end", EndEvent, end=ENDS[exit_code])

    def _tell_of_checkpoint(self) -> None:
        saved_step = self._saves.train_step
        if saved_step is None or saved_step == self._told_step:
            return
        self._told_step = saved_step
        folder = generation_dir(self._run.paths.checkpoints, saved_step)
        self._tell("on_checkpoint", CheckpointEvent, train_step=saved_step, checkpoint=folder)

    def _tell(
        self, method: str, kind: type[Event], train_step: int | None = None, **facts: Any
    ) -> None:
        step = self.train_step if train_step is None else train_step
        iteration = step // self._run.params.num_steps_per_iter
        self._callbacks.call(method, kind, train_step=step, iteration=iteration, **facts)

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

    def compiling(self, waiting: str, more: Callable[[], dict[str, Any]]) -> None:
        """Counts the time since `waiting` was entered as compiling, and reports it."""
        self.timer.move(self.timer.enter(waiting), waiting, str(Phase.COMPILING))
        self.report(Phase.COMPILING, more)

    def summarize(self, numbers: Mapping[str, float], lessons: Mapping[str, int]) -> None:
        """Writes to TensorBoard the metrics since the last summary, `numbers` and the lessons."""
        shown = self._of_summary.take() | dict(numbers)
        scalars = {f"learner/{name}": value for name, value in shown.items()}
        scalars |= {f"lesson/{name}": number for name, number in lessons.items()}
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
            "failure": self._callbacks.failure,
            "offline": self._offline,
        }
