"""The worker: fills the replay buffer, collects with the newest policy, evaluates."""

import time
from collections.abc import Callable
from typing import Any

from tfagents_system.collection.rollouts import Episode
from tfagents_system.collection.worker_environments import Environments
from tfagents_system.collection.worker_records import WorkerRecords
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED
from tfagents_system.core.process.background import raise_failures
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.programs.first_episode import FIRST_EPISODE
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.state.liveness import LivingPrograms
from tfagents_system.core.state.pause import COLLECTION, pause_of
from tfagents_system.core.state.reports import Phase
from tfagents_system.core.state.running import finish_of
from tfagents_system.environments.replaceable import EnvironmentFailure
from tfagents_system.policies.acting import ActingPolicy
from tfagents_system.policies.newest_policies import NewestPolicies
from tfagents_system.services.tickets import TicketTaker
from tfagents_system.services.versions import PolicyVersion
from tfagents_system.worker_experience import Experience

VARIABLES_TIMEOUT_SECS = 600.0
MAX_FAILURES_IN_A_ROW = 5  # failures of environments without a complete episode between them


class Worker:
    """Steps a collect environment and an eval environment.

    The replay server's rate limiter paces collection: a burst is sent when the one before is
    confirmed. The iteration is the newest policy's, so a worker that starts late or again has the
    right curriculum and policy at once.
    """

    def __init__(
        self,
        run: Run,
        environments: Environments,
        policies: NewestPolicies,
        experience: Experience,
        records: WorkerRecords,
        should_stop: Callable[[], object],
        tickets: TicketTaker | None,
        keep_best: Callable[[PolicyVersion], object],
    ):
        """Takes the worker's parts, which it does not share; does nothing yet.

        Without `tickets`, others evaluate. `keep_best` gets each evaluated policy.
        """
        self._run, self._tickets, self._keep_best = run, tickets, keep_best
        self._others = LivingPrograms(run.paths, records.program)
        self._environments, self._policies = environments, policies
        self._experience, self._adder = experience, experience.adder
        self._records, self._should_stop = records, should_stop
        self._failures_in_a_row = self._num_tickets_seen = 0
        self._is_marked_finished = finish_of(run.paths)
        self._is_paused = pause_of(run.paths, COLLECTION)

    def run(self, num_to_fill: Callable[[], int], fill_policy: ActingPolicy) -> int:
        """Runs until training is finished or a stop is requested; returns the exit code.

        Args:
          num_to_fill: Asks the server how many items the initial fill still lacks.
          fill_policy: Acts during the initial fill.
        """
        self._records.started(self._iteration, self._train_step)
        self._fill(num_to_fill, fill_policy)
        self._records.timer.enter("waiting for the learner")
        self._await_first_variables()
        while not self._should_end():
            self._evaluate_if_asked()
            self._collect_more()
        if not self._is_finished():
            self._send(Phase.COLLECTING)  # the rest of the last episode counts, too
            self._await_confirmation()
        elif not self._has_last_policy:
            self._policies.pull(is_needed=True)
        self._evaluate_if_asked()
        end = Phase.FINISHED if self._is_finished() else Phase.STOPPED
        self._records.ended(end, self._iteration, self._train_step, self._status_fields)
        return EXIT_FINISHED if end == Phase.FINISHED else EXIT_STOPPED

    @property
    def _train_step(self) -> int:
        return self._policies.train_step

    @property
    def _iteration(self) -> int:
        return self._train_step // self._run.params.num_steps_per_iter

    @property
    def _has_last_policy(self) -> bool:
        return self._train_step >= self._run.num_train_steps

    def _is_finished(self) -> bool:
        """Returns whether training is finished, by the newest policy or the learner's file."""
        return self._has_last_policy or self._is_marked_finished()

    def _should_end(self) -> bool:
        return bool(self._should_stop()) or self._is_finished()

    def _fill(self, num_to_fill: Callable[[], int], fill_policy: ActingPolicy) -> None:
        def is_enough() -> bool:
            self._await_confirmation()
            self._environments.watchdog.rest()  # the server may be unreachable for a while
            return num_to_fill() <= 0

        while not is_enough() and not self._should_end():
            self._collect(Phase.RANDOM_FILL, fill_policy, is_enough)
            self._send(Phase.RANDOM_FILL)

    def _collect_more(self) -> None:
        self._collect(Phase.COLLECTING, self._policies.collect)

    def _await_first_variables(self) -> None:
        self._environments.watchdog.rest()
        deadline = time.monotonic() + VARIABLES_TIMEOUT_SECS
        while not self._policies.is_published and not self._should_end():
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
        """Collects one episode; ends it early when the run ends, or `is_enough` after a burst."""
        records, collect = self._records, self._environments.collect
        observers, relabelling = self._environments.collect_observers, self._experience.relabelling

        def observe(time_step: Any, action: Any, next_time_step: Any, state: Any) -> bool:
            records.env_step += 1
            goes_on = self._adder.add(time_step, action, next_time_step, state)
            if observers:
                observers(time_step, action, next_time_step)
            if relabelling:
                relabelling.note(time_step, action, next_time_step, collect.get_info())
            if self._adder.is_burst_due:
                self._send(phase)
                goes_on = goes_on and not self._should_end() and not is_enough()
            return goes_on and not self._is_paused()

        self._send_lost(phase)
        records.timer.enter("waiting for the server")
        is_over = self._run.curriculum.is_over(self._iteration, self._policies.lessons)
        self._policies.pull(is_needed=not is_over)
        self._hold()
        if self._should_end():
            return
        lessons = self._policies.lessons
        try:
            state = self._environments.set_parameters(self._iteration, lessons, records.env_step)
            episode = self._environments.run_collect_episode(
                policy, self._run.horizon, observe, records.timer
            )
            self._adder.end_episode()
            if episode.is_complete:
                records.collected(episode, self._iteration, self._train_step, state, lessons)
            for _ in self._experience.add_copies(collect):
                self._send(phase)
                if self._should_end():
                    break
        except EnvironmentFailure as failure:
            self._adder.end_episode()
            self._note(failure)
            return
        if episode.is_complete:
            self._failures_in_a_row = 0
            FIRST_EPISODE.end()

    def _send(self, phase: Phase) -> None:
        """Waits until the server has the previous burst, then sends this one."""
        self._await_confirmation()
        self._adder.send()
        self._report(phase)

    def _send_lost(self, phase: Phase) -> None:
        """After each new checkpoint, sends items again that a crash of the server has lost."""
        if not (checkpoints := self._experience.new_checkpoints()):
            return
        self._await_confirmation()
        for _ in self._adder.send_lost(checkpoints):
            self._report(phase)
            self._await_confirmation()
            if self._should_end():
                return  # the journal keeps them

    def _await_confirmation(self) -> None:
        """Waits until the server has everything, or the run ends."""
        self._records.timer.enter("waiting for the server")
        while not self._adder.is_confirmed(timeout_secs=0.5):
            self._environments.watchdog.rest()
            self._policies.take()
            if self._should_end():
                return
            self._report(Phase.WAITING_FOR_LEARNER)
        self._records.timer.enter("writing")
        self._policies.take()

    def _hold(self) -> None:
        """Waits while collection is paused; after a report of it, no env step comes before this."""
        while self._is_paused() and not self._should_stop():
            self._environments.watchdog.rest()
            self._records.timer.enter("paused")
            self._report(Phase.PAUSED)
            time.sleep(0.1)
            self._policies.take()

    def _note(self, failure: EnvironmentFailure) -> None:
        """Counts a failure; after too many, parks, or raises it if no worker is left."""
        self._records.environment_failed(failure)
        self._failures_in_a_row += 1
        if not self._is_parked:
            return
        print(f"The environment failed {MAX_FAILURES_IN_A_ROW} times in a row; this worker steps "
              "it no more.", flush=True)  # fmt: skip
        self._environments.watchdog.rest()
        while not self._should_end():
            if not self._others.any_works():
                raise failure  # the restart budget decides and shows the traceback
            self._report(Phase.PARKED)
            time.sleep(1.0)
            self._policies.take()

    @property
    def _is_parked(self) -> bool:
        return self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW

    def _evaluate_if_asked(self) -> None:
        """Runs greedy episodes while the learner has tickets for them."""
        num_tickets = self._policies.num_tickets
        if self._tickets is None or num_tickets == self._num_tickets_seen:
            return
        self._records.timer.enter("evaluating")
        try:
            while not self._is_parked and not self._should_stop():
                if not (ticket := self._tickets.take()):
                    self._num_tickets_seen = num_tickets
                    break
                if not self._evaluate(ticket):
                    self._tickets.give_back(ticket)
        except TimeoutError:
            pass  # the server is unreachable; ask again after the next episode
        self._records.evaluation_ended()

    def _evaluate(self, ticket: PolicyVersion) -> bool:
        """Runs the ticket's episode, again if its environment fails; returns whether it is done."""
        iteration = ticket.train_step // self._run.params.num_steps_per_iter
        with self._policies.acting_as(ticket):
            while not (self._is_parked or self._should_stop()):
                self._hold()
                try:
                    episode = self._run_greedy_episode(ticket)
                except EnvironmentFailure as failure:
                    self._note(failure)
                    continue
                if episode.is_complete:
                    self._failures_in_a_row = 0
                    FIRST_EPISODE.end()
                    self._records.evaluated(episode, iteration, ticket.train_step)
                    with OnlyReports("the best policy"):
                        self._keep_best(ticket)
                    return True
        return False

    def _run_greedy_episode(self, ticket: PolicyVersion) -> Episode:
        """Runs one greedy episode, filmed if the ticket says so; a stop ends it early."""

        def goes_on() -> bool:
            self._report(Phase.EVALUATING)  # a slow simulator takes minutes
            return not (self._should_stop() or self._is_paused())

        name = self._run.paths.policy_checkpoint(ticket.train_step).name
        return self._environments.run_greedy_episode(
            self._policies.greedy, self._run.horizon, name if ticket.is_filmed else None, goes_on
        )

    def _report(self, phase: Phase) -> None:
        raise_failures()
        self._records.report(Phase.PAUSED if self._is_paused() else phase, self._status_fields)

    def _status_fields(self) -> dict[str, Any]:
        return {
            "policy_age_secs": self._policies.age_secs,
            "rejected_steps": self._adder.rejected.total(),
            "items_sent_again": self._adder.num_recovered,
            "unprotected_steps": self._adder.num_unprotected,
            "damaged_steps": self._adder.num_damaged,
            "short_episodes": self._adder.num_left_out,
            "curriculum": self._environments.collect.state,
        }
