"""What a worker does: fills the replay buffer, collects with the newest policy, evaluates."""

import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED
from tfagents_system.core.params_loader import Run
from tfagents_system.core.reports import Phase, does_report
from tfagents_system.core.watchdog import Watchdog
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment
from tfagents_system.evaluation.rollouts import Episode, run_episode
from tfagents_system.evaluation.step_observers import StepObservers
from tfagents_system.evaluation.worker_records import WorkerRecords
from tfagents_system.policies.acting import ActingPolicy
from tfagents_system.policies.newest_policies import NewestPolicies
from tfagents_system.services.adder import Adder
from tfagents_system.services.journal import Checkpoints

VARIABLES_TIMEOUT_SECS = 600.0
MAX_FAILURES_IN_A_ROW = 5  # of environments, without a complete episode between them


class Place(NamedTuple):
    """Which of the run's workers this is."""

    worker_id: int  # from 0
    num_workers: int

    def evaluates(self, episode: int) -> bool:
        """Whether this worker runs greedy episode number `episode`; exactly one does."""
        return episode % self.num_workers == self.worker_id


class Environments(NamedTuple):
    """What a worker steps, and who looks on."""

    collect: ReplaceableEnvironment
    eval: ReplaceableEnvironment
    collect_observers: StepObservers
    eval_observers: StepObservers
    watchdog: Watchdog  # ends the process if an environment hangs


class Experience(NamedTuple):
    """Where a worker's env steps go."""

    adder: Adder
    # Yields the contents of the two newest checkpoints after each new one, otherwise None.
    new_checkpoints: Callable[[], Checkpoints | None]


class Worker:
    """One collect environment, one eval environment, and the loop that steps them.

    The replay server's rate limiter paces collection: a burst leaves when the one before is
    confirmed. The iteration is that of the newest policy, so a worker that starts late or again has
    the right curriculum and policy at once.
    """

    def __init__(
        self,
        run: Run,
        place: Place,
        environments: Environments,
        policies: NewestPolicies,
        experience: Experience,
        records: WorkerRecords,
        should_stop: Callable[[], object],
    ):
        """Takes what it works with, all of this worker alone; does nothing yet."""
        self._run, self._place = run, place
        self._environments = environments
        self._policies = policies
        self._adder, self._new_checkpoints = experience
        self._records = records
        self._should_stop = should_stop
        self._failures_in_a_row = 0
        self._applied_curriculum: dict[str, int | float] = {}
        self._num_evaluations = 0

    def run(self, num_to_fill: Callable[[], int], fill_policy: ActingPolicy) -> int:
        """Runs until training is finished or a stop is requested; returns the exit code.

        Args:
          num_to_fill: Asks the server how many items the first fill still lacks.
          fill_policy: Acts while it lacks any.
        """
        self._fill(num_to_fill, fill_policy)
        self._records.timer.enter("waiting for the learner")
        self._await_first_variables()
        self._num_evaluations = self._num_evaluations_due()
        while not self._should_end():
            self._evaluate_if_due()
            self._collect_more()
        if not self._is_finished():
            self._send(Phase.COLLECTING)  # what is left of the last episode counts, too
            self._await_confirmation()
        self._evaluate_if_due()
        self._report_now(Phase.FINISHED if self._is_finished() else Phase.STOPPED)
        self._records.close()
        return EXIT_FINISHED if self._is_finished() else EXIT_STOPPED

    @property
    def _train_step(self) -> int:
        return self._policies.train_step

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
            self._environments.watchdog.rest()  # the server may be away for a while
            return num_to_fill() <= 0

        while not is_enough() and not self._should_end():
            self._collect(Phase.RANDOM_FILL, fill_policy, is_enough)
            self._send(Phase.RANDOM_FILL)

    def _collect_more(self) -> None:
        self._collect(Phase.COLLECTING, self._policies.collect)

    def _await_first_variables(self) -> None:
        self._environments.watchdog.rest()
        deadline = time.monotonic() + VARIABLES_TIMEOUT_SECS
        while not self._policies.is_published and not self._should_stop():
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"Gave up after {VARIABLES_TIMEOUT_SECS:g} s waiting for the learner's first "
                    f"policy; see {self._run.paths.stdout('learner')}"
                )
            self._report(Phase.WAITING_FOR_LEARNER)
            time.sleep(0.05)
            self._policies.take()

    def _collect(
        self, phase: Phase, policy: ActingPolicy, is_enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Collects one episode; ends it early when the run ends or `is_enough` after a burst."""
        records, observers = self._records, self._environments.collect_observers
        has_observers = bool(observers)

        def observe(time_step, action, next_time_step) -> bool:
            records.env_step += 1
            goes_on = self._adder.add(time_step, action, next_time_step)
            if has_observers:
                observers(time_step, action, next_time_step)
            if self._adder.is_burst_due:
                self._send(phase)
                goes_on = goes_on and not self._should_end() and not is_enough()
            return goes_on

        self._send_lost(phase)
        records.timer.enter("waiting for the server")
        self._policies.pull(is_needed=not self._run.curriculum.is_over(self._iteration))
        if self._should_end():
            return
        try:
            self._apply_curriculum()
            episode = run_episode(
                self._environments.collect, policy, self._run.horizon, observe, records.timer
            )
        except EnvironmentFailure as failure:
            self._adder.end_episode()
            self._note(failure)
            return
        self._adder.end_episode()
        if episode.is_complete:
            self._failures_in_a_row = 0
            records.collected(episode, self._iteration, self._train_step, self._applied_curriculum)

    def _send(self, phase: Phase) -> None:
        """Sends the burst, after waiting until the server has the one before."""
        self._await_confirmation()
        self._adder.send()
        self._report(phase)

    def _send_lost(self, phase: Phase) -> None:
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
        self._records.timer.enter("waiting for the server")
        while not self._adder.is_confirmed(timeout_secs=0.5):
            self._environments.watchdog.rest()
            self._policies.take()
            if self._should_end():
                return
            self._report(Phase.WAITING_FOR_LEARNER)
        self._records.timer.enter("writing")
        self._policies.take()

    def _note(self, failure: EnvironmentFailure) -> None:
        """Counts it; after too many parks until the run ends, or raises it if no worker is left."""
        traceback.print_exception(failure)
        self._records.environment_failed()
        self._failures_in_a_row += 1
        if self._failures_in_a_row < MAX_FAILURES_IN_A_ROW:
            return
        print(f"The environment failed {MAX_FAILURES_IN_A_ROW} times in a row; this worker steps "
              "it no more.", flush=True)  # fmt: skip
        self._environments.watchdog.rest()
        while not self._should_end():
            if not self._does_another_worker_collect():
                raise failure  # the restart budget decides, and shows the traceback
            self._report(Phase.PARKED)
            time.sleep(0.1)
            self._policies.take()

    def _does_another_worker_collect(self) -> bool:
        worker_id, num_workers = self._place
        others = (f"worker_{k}" for k in range(num_workers) if k != worker_id)
        return any(does_report(self._run.paths, name, other_than=Phase.PARKED) for name in others)

    def _apply_curriculum(self) -> None:
        """Sets what has changed; called between episodes, so that none mixes two values."""
        for name, value in self._run.curriculum.state_at(self._iteration).items():
            if self._applied_curriculum.get(name) != value:
                self._environments.collect.set_state({name: value})
                self._applied_curriculum[name] = value

    def _num_evaluations_due(self) -> int:
        """Evaluations due by now: one after every period, and one at the end."""
        params = self._run.params
        if not params.eval_period_itrs:
            return 0
        if self._is_finished():
            return -(-params.num_iter // params.eval_period_itrs)
        return self._iteration // params.eval_period_itrs

    def _evaluate_if_due(self) -> None:
        """Runs this worker's share of the greedy episodes if an evaluation has become due."""
        due = self._num_evaluations_due()
        if due <= self._num_evaluations or self._should_stop():
            return
        self._num_evaluations = due
        self._records.timer.enter("evaluating")
        version = self._iteration, self._train_step  # of the policy; none is taken meanwhile
        returns = []
        for index in range(self._run.params.n_eval_episodes):
            if not self._place.evaluates(index + due):
                continue
            try:
                episode = self._evaluate()
            except EnvironmentFailure as failure:
                self._note(failure)
                continue
            if not episode.is_complete:
                return
            returns.append(episode.episode_return)
            self._records.evaluated(episode, *version)
        if returns:
            self._records.evaluation_ended(returns, *version)

    def _evaluate(self) -> Episode:
        """Runs one greedy episode; a stop ends it early."""
        observers = self._environments.eval_observers

        def observe(time_step, action, next_time_step) -> bool:
            if observers:
                observers(time_step, action, next_time_step)
            self._report(Phase.EVALUATING)  # also within an episode: a slow simulator takes minutes
            return not self._should_stop()

        return run_episode(
            self._environments.eval, self._policies.greedy, self._run.horizon, observe
        )

    def _report(self, phase: Phase) -> None:
        self._records.report(phase, self._status_fields)

    def _report_now(self, phase: Phase) -> None:
        self._records.report_now(phase, self._status_fields)

    def _status_fields(self) -> dict[str, Any]:
        return {
            "rejected_steps": self._adder.rejected.total(),
            "items_sent_again": self._adder.num_recovered,
            "unprotected_steps": self._adder.num_unprotected,
            "short_episodes": self._adder.num_left_out,
            "curriculum": self._applied_curriculum,
        }
