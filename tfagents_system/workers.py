"""What a worker does: fills the replay buffer, collects with the newest policy, evaluates."""

import time
import traceback
from collections.abc import Callable
from typing import Any

from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED
from tfagents_system.core.files import read_json
from tfagents_system.core.params_loader import Run
from tfagents_system.core.reporting import PhaseTimer, RateMeter, StatusReporter
from tfagents_system.core.watchdog import Watchdog
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment
from tfagents_system.evaluation.episode_log import EpisodeLog
from tfagents_system.evaluation.event_log import EventLog
from tfagents_system.evaluation.rollouts import Episode, run_episode
from tfagents_system.policies.acting import ActingPolicy, AgentPolicies
from tfagents_system.services.adder import Adder
from tfagents_system.services.journal import Checkpoints
from tfagents_system.services.variables import VariableReader

VARIABLES_TIMEOUT_SECS = 600.0
MAX_FAILURES_IN_A_ROW = 5  # of environments, without a complete episode between them


class Worker:
    """One collect environment, one eval environment, and the loop that steps them.

    The replay server's rate limiter paces collection: a burst leaves when the one before is
    confirmed. The iteration is that of the newest policy, so a worker that starts late or again has
    the right curriculum and policy at once.
    """

    def __init__(
        self,
        run: Run,
        worker_id: int,
        num_workers: int,
        collect_env: ReplaceableEnvironment,
        eval_env: ReplaceableEnvironment,
        policies: AgentPolicies,
        collect_log: EpisodeLog,
        adder: Adder,
        reader: VariableReader,
        new_checkpoints: Callable[[], Checkpoints | None],
        watchdog: Watchdog,
        should_stop: Callable[[], object],
    ):
        """Opens the worker's other logs; `new_checkpoints` says once after each what it holds."""
        self._run = run
        self._worker_id, self._num_workers = worker_id, num_workers
        self._collect_env, self._eval_env = collect_env, eval_env
        self._policies, self._adder, self._reader = policies, adder, reader
        self._new_checkpoints, self._watchdog = new_checkpoints, watchdog
        self._failures_in_a_row = 0
        self._should_stop = should_stop
        name = f"worker_{worker_id}"
        self._reporter = StatusReporter(run.paths, name)
        self._collect_log = collect_log
        self._eval_log = EpisodeLog(run.paths.episodes, "eval", worker_id)
        self._collect_summaries, self._eval_summaries = (
            EventLog(folder / name)
            for folder in (run.paths.train_summaries, run.paths.eval_summaries)
        )
        self._env_step = self._collect_log.env_step
        self._rate = RateMeter(self._env_step)
        self._summary_rate = RateMeter(self._env_step)
        self._timer = PhaseTimer("starting")
        self._published: Any = None
        self._applied_curriculum: dict[str, int | float] = {}
        self._num_evaluations = self._summarized_period = 0
        self._status: dict[str, Any] = {"last_return": None, "eval": None, "env_failures": 0}

    def run(self, num_to_fill: Callable[[], int], fill_policy: ActingPolicy) -> int:
        """Works until training is finished or a stop is asked for; returns the exit code.

        Args:
          num_to_fill: Asks the server how many items the first fill still lacks.
          fill_policy: Acts while it lacks any.
        """
        self._fill(num_to_fill, fill_policy)
        self._timer.enter("waiting for the learner")
        self._await_first_variables()
        self._num_evaluations = self._num_evaluations_due()
        while not self._should_end():
            self._evaluate_if_due()
            self._collect("collecting", self._policies.collect)
        if not self._is_finished():
            self._send("collecting")  # what is left of the last episode counts, too
            self._await_confirmation()
        self._evaluate_if_due()
        self._report_now("finished" if self._is_finished() else "stopped")
        for summaries in (self._collect_summaries, self._eval_summaries):
            summaries.close()
        return EXIT_FINISHED if self._is_finished() else EXIT_STOPPED

    @property
    def _train_step(self) -> int:
        return self._published.train_step if self._published else 0

    @property
    def _iteration(self) -> int:
        return self._train_step // self._run.params.num_steps_per_iter

    def _is_finished(self) -> bool:
        return self._train_step >= self._run.num_train_steps

    def _should_end(self) -> bool:
        return bool(self._should_stop()) or self._is_finished()

    def _fill(self, num_to_fill: Callable[[], int], fill_policy: ActingPolicy) -> None:
        def is_enough() -> bool:
            self._await_confirmation()
            self._watchdog.rest()  # the server may be away for a while
            return num_to_fill() <= 0

        while not is_enough() and not self._should_end():
            self._collect("random fill", fill_policy, is_enough)
            self._send("random fill")

    def _await_first_variables(self) -> None:
        self._watchdog.rest()
        deadline = time.monotonic() + VARIABLES_TIMEOUT_SECS
        while self._published is None and not self._should_stop():
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"Gave up after {VARIABLES_TIMEOUT_SECS:g} s waiting for the learner's first "
                    f"policy; see {self._run.paths.stdout('learner')}"
                )
            self._report("waiting for the learner")
            time.sleep(0.05)
            self._take_newest_variables()

    def _collect(
        self, phase: str, policy: ActingPolicy, is_enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Collects one episode; ends it early when the run ends or `is_enough` after a burst."""

        def observe(time_step, action, next_time_step) -> bool:
            self._env_step += 1
            goes_on = self._adder.add(time_step, action, next_time_step)
            if self._adder.is_burst_due:
                self._send(phase)
                goes_on = goes_on and not self._should_end() and not is_enough()
            return goes_on

        self._send_lost(phase)
        try:
            self._apply_curriculum()
            episode = run_episode(
                self._collect_env, policy, self._run.horizon, observe, self._timer
            )
        except EnvironmentFailure as failure:
            self._adder.end_episode()
            self._note(failure)
            return
        self._adder.end_episode()
        if not episode.is_complete:
            return
        self._failures_in_a_row = 0
        self._status["last_return"] = episode.episode_return
        self._collect_log.append(episode, self._iteration, self._train_step, self._env_step)
        self._summarize(episode)

    def _send(self, phase: str) -> None:
        """Sends the burst, after waiting until the server has the one before."""
        self._await_confirmation()
        self._adder.send()
        self._report(phase)

    def _send_lost(self, phase: str) -> None:
        """After each new checkpoint: sends what a crash of the replay server has lost."""
        if not (checkpoints := self._new_checkpoints()):
            return
        self._await_confirmation()
        for _ in self._adder.send_lost(checkpoints):
            self._report(phase)
            self._await_confirmation()
            if self._should_end():
                return  # the journal keeps them

    def _await_confirmation(self) -> None:
        """Waits until the server has everything; the run's end cuts the wait."""
        self._timer.enter("waiting for the server")
        while not self._adder.is_confirmed(timeout_secs=0.5):
            self._watchdog.rest()
            self._take_newest_variables()
            if self._should_end():
                return
            self._report("waiting for the learner")
        self._timer.enter("writing")
        self._take_newest_variables()

    def _note(self, failure: EnvironmentFailure) -> None:
        """Counts it; after too many parks until the run ends, or raises it if no worker is left."""
        traceback.print_exception(failure)
        self._status["env_failures"] += 1
        self._failures_in_a_row += 1
        if self._failures_in_a_row < MAX_FAILURES_IN_A_ROW:
            return
        print(f"The environment failed {MAX_FAILURES_IN_A_ROW} times in a row; this worker steps "
              "it no more.", flush=True)  # fmt: skip
        self._watchdog.rest()
        while not self._should_end():
            if not self._does_another_worker_collect():
                raise failure  # the restart budget decides, and shows the traceback
            self._report("parked")
            time.sleep(0.1)
            self._take_newest_variables()

    def _does_another_worker_collect(self) -> bool:
        others = (f"worker_{k}" for k in range(self._num_workers) if k != self._worker_id)
        reports = (read_json(self._run.paths.status(name)) for name in others)
        return any(report is not None and report["phase"] != "parked" for report in reports)

    def _take_newest_variables(self) -> None:
        newest = self._reader.latest
        if newest is not None and newest is not self._published:
            self._policies.update(newest.values)
            self._published = newest

    def _apply_curriculum(self) -> None:
        """Sets what has changed; called between episodes, so that none mixes two values."""
        for name, value in self._run.curriculum.state_at(self._iteration).items():
            if self._applied_curriculum.get(name) != value:
                self._collect_env.set_state({name: value})
                self._applied_curriculum[name] = value

    def _num_evaluations_due(self) -> int:
        """Evaluations due by now: one after every period, and one at the end."""
        params = self._run.params
        if self._is_finished():
            return -(-params.num_iter // params.eval_period_itrs)
        return self._iteration // params.eval_period_itrs

    def _evaluate_if_due(self) -> None:
        """Runs this worker's share of the greedy episodes if an evaluation has become due."""
        due = self._num_evaluations_due()
        if due <= self._num_evaluations or self._should_stop():
            return
        self._num_evaluations = due
        self._timer.enter("evaluating")
        iteration, train_step = self._iteration, self._train_step

        def observe(*_) -> bool:
            self._report("evaluating")  # also within an episode: a slow simulator takes minutes
            return not self._should_stop()

        returns = []
        for index in range(self._run.params.n_eval_episodes):
            if (index + due) % self._num_workers != self._worker_id:
                continue
            try:
                episode = run_episode(
                    self._eval_env, self._policies.greedy, self._run.horizon, observe
                )
            except EnvironmentFailure as failure:
                self._note(failure)
                continue
            if not episode.is_complete:
                return
            returns.append(episode.episode_return)
            self._eval_log.append(episode, iteration, train_step, self._env_step)
        if returns:
            self._status["eval"] = {"iteration": iteration, "returns": returns}
            mean = sum(returns) / len(returns)
            self._eval_summaries.write(train_step, {"eval/episode_return": mean})

    def _summarize(self, episode: Episode) -> None:
        period = self._iteration // self._run.params.log_period_itrs
        if period <= self._summarized_period:
            return
        self._summarized_period = period
        scalars = {
            "collect/episode_return": episode.episode_return,
            "collect/episode_length": episode.length,
            "collect/env_steps_per_sec": self._summary_rate.rate_at(self._env_step),
        }
        for phase, share in self._timer.shares().items():
            scalars[f"collect_time/{phase.replace(' ', '_')}_share"] = share
        for name, value in self._applied_curriculum.items():
            scalars[f"curriculum/{name}"] = value
        self._collect_summaries.write(self._env_step, scalars)

    def _report(self, phase: str) -> None:
        self._reporter.report(phase, self._status_fields)

    def _report_now(self, phase: str) -> None:
        self._reporter.report_now(phase, self._status_fields())

    def _status_fields(self) -> dict[str, Any]:
        return self._status | {
            "env_steps": self._env_step,
            "env_steps_per_sec": self._rate.rate_at(self._env_step),
            "rejected_steps": self._adder.rejected.total(),
            "items_sent_again": self._adder.num_recovered,
            "unprotected_steps": self._adder.num_unprotected,
            "curriculum": self._applied_curriculum,
            "phase_secs": self._timer.totals(),
        }
