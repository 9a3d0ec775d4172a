"""The worker of a deterministic run: takes turns with the learner."""

import functools
import time
from collections.abc import Callable
from typing import Any

from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.core.state.reports import Phase
from tfagents_system.policies.acting import SlotPolicy
from tfagents_system.workers import Worker

PUBLISH_PERIOD_SECS = 1.0
POLL_SECS = 0.002


def num_env_steps_due(settings: TrainingSettings, horizon: int, iteration: int) -> int:
    """Returns the number of env steps, since the start of the run, on which `iteration` trains."""
    num_episodes = settings.n_buffer_init_episodes + iteration * settings.n_train_episodes_per_iter
    return num_episodes * horizon


class LockStepWorker(Worker):
    """Collects the round of each iteration with exactly that iteration's policy.

        worker                                      learner
        collects a round, says that it is complete  waits
        waits for the policy of the next iteration  adds the round, does an iteration's train steps

    A round ends with the first episode after which the run has the env steps that are due; the next
    round has fewer by the steps beyond.
    """

    def __init__(
        self,
        *args: Any,
        publish_round: Callable[[int, int, int], object],
        num_initial_items: int,
        **kwargs: Any,
    ):
        """Begins no round.

        Args:
          args: As of Worker.
          publish_round: Tells the learner of a complete round; called as RoundPublisher.publish.
          num_initial_items: Items of the initial fill.
          kwargs: As of Worker.
        """
        super().__init__(*args, **kwargs)
        self._publish_round, self._num_initial_items = publish_round, num_initial_items

    def _fill(self, num_to_fill: Callable[[], int], fill_policy: SlotPolicy) -> None:
        """Collects the first iteration's round, if that is the learner's."""
        self._first_turn = functools.partial(self._take_first_turn, num_to_fill, fill_policy)
        self._await_first_variables()
        if self._iteration == 0:
            self._first_turn()

    def _take_first_turn(self, num_to_fill: Callable[[], int], fill_policy: SlotPolicy) -> None:
        """Collects the first round; again, if a crash before the first checkpoint has lost it.

        Whether it is due, env steps tell, because the server counts items. After a crash these say
        that it was collected; then the server's count, `num_to_fill`, tells whether it has it. What
        is lost is all of it, but a few items are always missing: episodes need not fill the last.
        """
        is_lost = self._records.env_step and num_to_fill() > self._num_initial_items / 2
        if is_lost and not self._should_end():
            print("The replay server has lost the first round, so it is collected again: this run "
                  "no longer repeats another one exactly.", flush=True)  # fmt: skip
            super()._fill(num_to_fill, fill_policy)
        self._take_turn(Phase.RANDOM_FILL, fill_policy)

    def _collect_more(self) -> None:
        if self._iteration == 0:  # the learner has begun anew
            self._first_turn()
        else:
            self._take_turn(Phase.COLLECTING, self._policies.collect)

    def _take_turn(self, phase: Phase, policy: SlotPolicy) -> None:
        due = num_env_steps_due(self._run.params, self._run.horizon, self._iteration)
        while self._records.env_step < due and not self._should_end():
            self._collect(phase, policy)
        self._send(phase)
        self._await_confirmation()
        self._await_next_policy()

    def _await_next_policy(self) -> None:
        """Waits for the policy of the next iteration."""
        self._records.timer.enter("waiting for the learner")
        self._environments.watchdog.rest()
        iteration, publish_at = self._iteration, 0.0
        while self._iteration == iteration and not self._should_end():
            if time.monotonic() >= publish_at:  # a restarted server has forgotten it
                stream = self._records.fence.number
                self._publish_round(self._train_step, stream, self._adder.num_recovered)
                publish_at = time.monotonic() + PUBLISH_PERIOD_SECS
            self._report(Phase.WAITING_FOR_LEARNER)
            time.sleep(POLL_SECS)
            self._policies.pull(is_needed=True)
