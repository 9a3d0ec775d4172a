"""The worker: fills the replay buffer, collects with the newest policy, evaluates."""

import time
from collections.abc import Callable
from typing import Any

from tfagents_system.collection.worker_base import WorkerBase
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED
from tfagents_system.core.state.reports import Phase
from tfagents_system.environments.replaceable import EnvironmentFailure
from tfagents_system.policies.acting import SlotPolicy

VARIABLES_TIMEOUT_SECS = 600.0


class Worker(WorkerBase):
    """Steps a collect environment and an eval environment.

    The replay server's rate limiter paces collection: a burst is sent when the one before is
    confirmed. The iteration is the newest policy's, so a worker that starts late or again has the
    right curriculum and policy at once.
    """

    def run(self, num_to_fill: Callable[[], int], fill_policy: SlotPolicy) -> int:
        """Runs until training is finished or a stop is requested; returns the exit code.

        Args:
          num_to_fill: Asks the server how many items the initial fill still lacks.
          fill_policy: Acts during the initial fill.
        """
        self._records.started(self._iteration, self._train_step)
        if fill_policy is self._policies.collect and self._run.paths.initial_weights.exists():
            self._await_first_variables()  # only the learner reads the initial weights
        self._fill(num_to_fill, fill_policy)
        self._records.timer.enter("waiting for the learner")
        self._await_first_variables()
        while not self._should_end():
            self._evaluate_if_asked()
            self._collect_more()
        self._end_episodes()
        if not self._is_finished():
            self._send(Phase.COLLECTING)  # the rest of the last episode counts, too
            self._await_confirmation()
        elif not self._has_last_policy:
            self._policies.pull(is_needed=True)
        self._evaluate_if_asked()
        end = Phase.FINISHED if self._is_finished() else Phase.STOPPED
        self._records.ended(end, self._iteration, self._train_step, self._status_fields)
        return EXIT_FINISHED if end == Phase.FINISHED else EXIT_STOPPED

    def _fill(self, num_to_fill: Callable[[], int], fill_policy: SlotPolicy) -> None:
        def is_enough() -> bool:
            self._await_confirmation()
            self._environments.watchdog.rest()  # the server may be unreachable for a while
            return num_to_fill() <= 0

        while not is_enough() and not self._should_end():
            self._collect(Phase.RANDOM_FILL, fill_policy, is_enough)
            self._send(Phase.RANDOM_FILL)
        self._end_episodes()

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
        self, phase: Phase, policy: SlotPolicy, is_enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Collects one episode; ends it early when the run ends, or `is_enough` after a burst."""
        records, collect = self._records, self._environments.collect
        observers = self._environments.collect_observers
        (relabelling,) = self._experience.relabelling or (None,)
        (rejections,) = self._rejections

        def observe(
            time_step: Any, action: Any, next_time_step: Any, state: Any, is_intervention: bool
        ) -> bool:
            records.env_step += 1
            goes_on = is_kept = self._adder.add(
                time_step, action, next_time_step, state, is_intervention=is_intervention
            )
            rejections.note(is_kept)
            if observers:
                observers(time_step, action, next_time_step)
            if relabelling:
                info = collect.get_info()
                relabelling.note(time_step, action, next_time_step, info, is_kept)
            if self._adder.is_burst_due:
                self._send(phase)
                goes_on = goes_on and not self._should_end() and not is_enough()
            return goes_on and not self._is_paused()

        if not self._may_begin(phase):
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
            elif error := self._nothing_kept(rejections, phase):
                raise collect.judge(error)
            for _ in self._experience.add_copies(collect):
                self._send(phase)
                if self._should_end():
                    break
        except EnvironmentFailure as failure:
            self._adder.end_episode()
            self._note(failure)
            return
        if episode.is_complete:
            self._note_success()

    def _may_begin(self, phase: Phase) -> bool:
        """Makes ready for an episode, with the newest policy; returns False if the run is over."""
        self._send_lost(phase)
        self._records.timer.enter("waiting for the server")
        is_over = self._run.curriculum.is_over(self._iteration, self._policies.lessons)
        self._policies.pull(is_needed=not is_over)
        self._hold()
        return not self._should_end()

    def _end_episodes(self) -> None:
        """Ends the episodes that have begun; between those of a single environment none has."""

    def _send(self, phase: Phase) -> None:
        """Sends what has been added, each burst when the server has the one before."""
        self._await_confirmation()
        while self._adder.send():
            self._await_confirmation()
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
