"""Writes a worker's records."""

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_system.collection.episode_log import EpisodeLog, LessonLog
from tfagents_system.collection.rollouts import Episode
from tfagents_system.core.meters import SHOWN_WINDOW_SECS, PhaseTimer, RateMeter, mean_of
from tfagents_system.core.process.guest import UserCodeError, user_traceback
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.programs.callbacks import Callbacks, EndEvent, EpisodeEvent, Event
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import LARGEST_NUMBER, Evaluation, Phase
from tfagents_system.core.state.status_reporter import StatusReporter
from tfagents_system.environments.time_limits import EpisodeEnds
from tfagents_system.records.event_log import EventLog
from tfagents_system.records.number_rows import ACTION_SHARE
from tfagents_system.records.success import counted

FAILURE_SHOWN_SECS = 60.0  # minimum time in the status line
FENCE_PERIOD_SECS = 1.0  # between checks for a later start; after a freeze at once


class WorkerRecords:
    """The episodes, summaries and status report of one worker or evaluator.

    `program` is its name. `env_step` counts its env steps over all its starts: of a worker those of
    collection, of an evaluator those of evaluation. `timer` divides its time into phases.

    Before each write it checks whether a later start of the program, which has the same files, has
    claimed, and raises SupersededError if so.
    """

    def __init__(
        self,
        paths: ExperimentPaths,
        worker_id: int,
        horizon: int,
        log_period_itrs: int,
        collects: bool = True,
        callbacks: Callable[..., Any] = lambda: [],
        ends_at_horizon: bool = False,
    ):
        """Claims a stream, and reads the number of env steps from the record of episodes.

        `collects` is False for evaluators, `callbacks` is the hook of TrainParams.
        `ends_at_horizon` tells that the horizon is a termination, not a time limit.
        """
        self.program = f"worker_{worker_id}" if collects else f"evaluator_{worker_id}"
        self.fence = Fence.of_worker(paths, self.program)
        self.callbacks = Callbacks(callbacks, self.program, paths)
        self._looked_at = time.monotonic()
        self.collects = collects
        if collects:
            self._collect_log = EpisodeLog(paths.episodes, "collect", worker_id)
            self._lesson_log = LessonLog(paths.episodes, worker_id)
        eval_kind = "eval" if collects else "eval_evaluator"  # a worker may have the same number
        self._eval_log = EpisodeLog(paths.episodes, eval_kind, worker_id)
        self._collect_summaries = EventLog(paths.train_summaries / self.program)
        self._eval_summaries = EventLog(paths.eval_summaries / self.program)
        self._reporter = StatusReporter(paths, self.program)
        self.env_step = (self._collect_log if collects else self._eval_log).env_step
        self.timer = PhaseTimer("starting")
        self._rate = RateMeter(self.env_step, SHOWN_WINDOW_SECS)
        self._summary_rate = RateMeter(self.env_step)
        self._log_period_itrs = log_period_itrs
        self._summarized_period = 0
        self._ends, self._has_warned = EpisodeEnds(horizon, ends_at_horizon), False
        self._share: list[Episode] = []  # of the evaluation of train step `_share_step`
        self._share_step = 0
        self._has_seen_success = False  # or a failure, of any greedy episode
        self._remarks: list[str] = []
        self._remarked: set[str] = set()
        self._failed_at = -FAILURE_SHOWN_SECS
        self._status: dict[str, Any] = {
            "last_return": None, "eval": None, "env_failures": 0, "suspicion": None,
            "failure": None,
        }  # fmt: skip

    def started(self, iteration: int, train_step: int) -> None:
        """Tells the callbacks that the program begins to work."""
        self.callbacks.call("on_start", Event, iteration=iteration, train_step=train_step)

    def ended(
        self, end: Phase, iteration: int, train_step: int, more: Callable[[], dict[str, Any]]
    ) -> None:
        """Tells the callbacks and the status that the program ends; closes the summaries."""
        self.callbacks.call(
            "on_end", EndEvent, iteration=iteration, train_step=train_step, end=str(end)
        )
        self.report_now(end, more)
        self._collect_summaries.close()
        self._eval_summaries.close()

    def acts_in_tensorflow(self, obstacle: str) -> None:
        """Records and prints why NumPy cannot act."""
        print(f"Acts in TensorFlow, not in NumPy, because {obstacle}.", flush=True)
        self._status["obstacle"] = obstacle

    def remark(self, shown: str, text: str) -> None:
        """Records and prints, once, what the user should know of the environment.

        Args:
          shown: A few words for the status line; empty: only for the log.
          text: A sentence for the log.
        """
        if (shown or text) not in self._remarked:
            print(f"NOTE: {text}", flush=True)
            self._remarked.add(shown or text)
            self._remarks += [shown] if shown else []
            self._status["remark"] = "; ".join(self._remarks) or None

    @OnlyReports("a collected episode")
    def collected(
        self,
        episode: Episode,
        iteration: int,
        train_step: int,
        curriculum: dict[str, int | float],
        lessons: Sequence[int] = (),
    ) -> None:
        """Records a collected episode, and the curriculum's values and lessons during it."""
        self._check_fence()
        self._collect_log.append(episode, iteration, train_step, self.env_step)
        if lessons:
            self._lesson_log.append(episode, train_step, self.env_step, lessons)
        self._status["last_return"] = _reportable(episode.episode_return)
        self._note_numbers(episode)
        if time.monotonic() >= self._failed_at + FAILURE_SHOWN_SECS:
            self._status["failure"] = None
        self._watch(episode)
        if (period := iteration // self._log_period_itrs) > self._summarized_period:
            self._summarized_period = period
            self._summarize(episode, curriculum)
        self._tell(episode, iteration, train_step, is_evaluation=False)

    @OnlyReports("an evaluated episode")
    def evaluated(self, episode: Episode, iteration: int, train_step: int) -> None:
        """Records a greedy episode of the policy of `train_step`."""
        self._check_fence()
        if not self.collects:
            self.env_step += episode.length
        self._eval_log.append(episode, iteration, train_step, self.env_step)
        if train_step != self._share_step:
            self.evaluation_ended()
            self._share_step = train_step
        if episode.success_fault:
            self.remark("SUCCESS CANNOT BE READ", f"{episode.success_fault}.")
        self._note_numbers(episode)
        self._share.append(episode)
        self._has_seen_success |= episode.success is not None
        self._status["eval"] = self._shown_share(iteration)
        self._tell(episode, iteration, train_step, is_evaluation=True)

    @OnlyReports("the summary of an evaluation")
    def evaluation_ended(self) -> None:
        """Summarizes the program's share of the evaluation, if it had one."""
        if self._share:
            share, self._share = self._share, []
            scalars = {"eval/episode_return": mean_of([e.episode_return for e in share])}
            self._eval_summaries.write(self._share_step, scalars)

    def _shown_share(self, iteration: int) -> Evaluation:
        """Returns the episodes of the share so far whose return is a number."""
        returns, successes = [], []
        for episode in self._share:
            if (shown := _reportable(episode.episode_return)) is not None:
                returns.append(shown)
                successes.append(episode.success)
        known = [s for s in counted(successes, self._has_seen_success) if s is not None]
        return Evaluation(iteration, returns, sum(known) if known else None)

    def environment_failed(self, failure: UserCodeError) -> None:
        """Counts, prints and reports a failure, until environments have worked for a while."""
        print(f"{user_traceback(failure)}{failure}", file=sys.stderr, flush=True)
        self._status["env_failures"] += 1
        self._status["failure"] = str(failure)
        self._failed_at = time.monotonic()

    @OnlyReports("status")
    def report(self, phase: Phase, more: Callable[[], dict[str, Any]]) -> None:
        """Replaces the report if it is a second old; `more` returns additional fields."""
        self._check_fence()
        self._reporter.report(phase, lambda: self._fields() | more())

    @OnlyReports("status")
    def report_now(self, phase: Phase, more: Callable[[], dict[str, Any]]) -> None:
        """Replaces the report now."""
        self._check_fence()
        self._reporter.report_now(phase, self._fields() | more())

    def _check_fence(self) -> None:
        if time.monotonic() >= self._looked_at + FENCE_PERIOD_SECS:
            self.fence.look()
            self._looked_at = time.monotonic()

    def _watch(self, episode: Episode) -> None:
        """Detects time limits that look like terminations, and prints the first one."""
        self._ends.note(episode.length, episode.is_terminal)
        suspicion = self._ends.suspicion
        if suspicion and not self._has_warned:
            print(f"WARNING: {suspicion}.", flush=True)
            self._has_warned = True
        self._status["suspicion"] = suspicion

    def _tell(self, episode: Episode, iteration: int, train_step: int, is_evaluation: bool) -> None:
        self.callbacks.call(
            "on_episode", EpisodeEvent, iteration=iteration, train_step=train_step,
            is_evaluation=is_evaluation, episode_return=episode.episode_return,
            length=episode.length, success=episode.success, numbers=dict(episode.numbers),
            env_step=self.env_step,
        )  # fmt: skip

    def _note_numbers(self, episode: Episode) -> None:
        for fault in episode.info_faults:
            self.remark(fault.shown, fault.text)
        if episode.numbers:
            self._status["numbers"] = {
                name: value
                for name, value in episode.numbers.items()
                if abs(value) <= LARGEST_NUMBER and not name.startswith(ACTION_SHARE)
            }

    def _summarize(self, episode: Episode, curriculum: dict[str, int | float]) -> None:
        scalars = {
            "collect/episode_return": episode.episode_return,
            "collect/episode_length": episode.length,
            "collect/env_steps_per_sec": self._summary_rate.rate_at(self.env_step),
        }
        scalars |= self.timer.share_scalars("collect")
        scalars |= {f"collect/info/{name}": value for name, value in episode.numbers.items()}
        for name, value in curriculum.items():
            scalars[f"curriculum/{name}"] = value
        self._collect_summaries.write(self.env_step, scalars)

    def _fields(self) -> dict[str, Any]:
        return self._status | {
            "env_steps": self.env_step,
            "env_steps_per_sec": self._rate.rate_at(self.env_step),
            "phase_secs": self.timer.totals(),
            "failure": self._status["failure"] or self.callbacks.failure,
        }


def _reportable(value: float) -> float | None:
    """Returns a number that readers accept: clipped at LARGEST_NUMBER; None if not a number."""
    return None if math.isnan(value) else max(-LARGEST_NUMBER, min(value, LARGEST_NUMBER))
