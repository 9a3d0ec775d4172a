"""The base of workers: evaluations, pauses, failures and status reports."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_system.collection.experience import Experience
from tfagents_system.collection.newest_policies import NewestPolicies
from tfagents_system.collection.rejections import Rejections
from tfagents_system.collection.rollouts import Episode
from tfagents_system.collection.worker_environments import Environments
from tfagents_system.collection.worker_records import WorkerRecords
from tfagents_system.core.process.background import raise_failures
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.programs.first_episode import FIRST_EPISODE
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.state.liveness import LivingPrograms
from tfagents_system.core.state.pause import COLLECTION, pause_of
from tfagents_system.core.state.reports import Phase
from tfagents_system.core.state.running import finish_of
from tfagents_system.environments.guest_environment import as_made, owner_of
from tfagents_system.environments.own_arrays import InvalidArrayError
from tfagents_system.environments.replaceable import EnvironmentFailure
from tfagents_system.services.tickets import TicketTaker
from tfagents_system.services.versions import PolicyVersion

MAX_FAILURES_IN_A_ROW = 5  # of each environment, without a complete episode between them


class WorkerBase:
    """Knows how far training is, counts failures, reports, and evaluates when asked."""

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
        self._environments = environments
        self._greedy_episodes = environments.greedy_episodes()
        self._policies = policies
        self._experience, self._adder = experience, experience.adder
        self._records = records
        self._should_stop = should_stop
        self._failures_in_a_row = self._num_tickets_seen = 0
        num_environments = environments.num_environments
        slots_each = environments.num_slots // num_environments
        owner = owner_of(as_made(environments.collect.current()))
        self._rejections = [Rejections(owner, slots_each) for _ in range(num_environments)]
        self._is_marked_finished = finish_of(run.paths)
        self._is_paused = pause_of(run.paths, COLLECTION)

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
        print(f"The environment failed {self._failures_in_a_row} times in a row; this worker steps "
              "it no more.", flush=True)  # fmt: skip
        self._environments.watchdog.rest()
        while not self._should_end():
            if not self._others.any_works():
                raise failure  # the restart budget decides and shows the traceback
            self._report(Phase.PARKED)
            time.sleep(1.0)
            self._policies.take()

    def _nothing_kept(self, rejections: Rejections, phase: Phase) -> InvalidArrayError | None:
        """Returns the error for too many rejected env steps; call it after a cut episode."""
        self._report(phase)  # nothing is sent, which would report
        return rejections.error(self._adder.rejected)

    def _note_success(self) -> None:
        """Ends the failures in a row, after a complete episode."""
        self._failures_in_a_row = 0
        FIRST_EPISODE.end()

    @property
    def _is_parked(self) -> bool:
        most = MAX_FAILURES_IN_A_ROW * self._environments.num_environments
        return self._failures_in_a_row >= most

    def _evaluate_if_asked(self) -> None:
        """Runs greedy episodes while the learner has tickets for them."""
        num_tickets = self._policies.num_tickets
        if self._tickets is None or num_tickets == self._num_tickets_seen:
            return
        self._records.timer.enter("evaluating")
        self._report_now(Phase.EVALUATING)  # a slow simulator takes long to begin
        try:
            while not self._is_parked and not self._should_stop():
                if (num_at_once := self._num_evaluated_at_once()) is None:
                    continue
                if not (tickets := self._take_tickets(num_at_once)):
                    self._num_tickets_seen = num_tickets
                    break
                for ticket in tickets[self._evaluate(tickets) :]:
                    self._tickets.give_back(ticket)
        except TimeoutError:
            pass  # the server is unreachable; ask again after the next episode
        self._records.evaluation_ended()

    def _num_evaluated_at_once(self) -> int | None:
        """Returns how many episodes run at once; None if a simulator does not start."""
        try:
            return self._greedy_episodes.num_at_once()
        except EnvironmentFailure as failure:
            self._note(failure)
            return None

    def _take_tickets(self, most: int) -> list[PolicyVersion]:
        """Takes tickets of one policy."""
        assert self._tickets is not None, "it evaluates"
        tickets: list[PolicyVersion] = []
        while len(tickets) < most:
            try:
                ticket = self._tickets.take()
            except TimeoutError:
                if tickets:
                    break  # these count, whatever has become of the server
                raise
            if ticket is None:
                break
            if tickets and ticket.train_step != tickets[0].train_step:
                self._tickets.give_back(ticket)
                break
            tickets.append(ticket)
        return tickets

    def _evaluate(self, tickets: Sequence[PolicyVersion]) -> int:
        """Runs the episodes of tickets of one policy, all again if their environment fails.

        Returns:
          How many are done.
        """
        first = tickets[0]
        iteration = first.train_step // self._run.params.num_steps_per_iter
        with self._policies.acting_as(first):
            while not (self._is_parked or self._should_stop()):
                self._hold()
                try:
                    episodes = self._run_greedy_episodes(tickets)
                except EnvironmentFailure as failure:
                    self._note(failure)
                    continue
                for episode in episodes:
                    self._note_success()
                    self._records.evaluated(episode, iteration, first.train_step)
                    with OnlyReports("the best policy"):
                        self._keep_best(first)
                if episodes:
                    return len(episodes)
        return 0

    def _run_greedy_episodes(self, tickets: Sequence[PolicyVersion]) -> list[Episode]:
        """Runs greedy episodes, the first filmed if a ticket says so; a stop ends them early."""

        def goes_on() -> bool:
            self._report(Phase.EVALUATING)  # a slow simulator takes minutes
            return not (self._should_stop() or self._is_paused())

        name = self._run.paths.policy_checkpoint(tickets[0].train_step).name
        return self._greedy_episodes.run(
            self._policies.greedy,
            self._run.horizon,
            len(tickets),
            name if any(ticket.is_filmed for ticket in tickets) else None,
            goes_on,
        )

    def _report(self, phase: Phase) -> None:
        raise_failures()
        self._records.report(self._shown(phase), self._status_fields)

    def _report_now(self, phase: Phase) -> None:
        self._records.report_now(self._shown(phase), self._status_fields)

    def _shown(self, phase: Phase) -> Phase:
        return Phase.PAUSED if self._is_paused() else phase

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
