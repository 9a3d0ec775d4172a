"""The worker that only evaluates, so that no other worker stops collecting."""

import time
from collections.abc import Callable

from tfagents_system.core.state.reports import Phase
from tfagents_system.policies.acting import SlotPolicy
from tfagents_system.workers import Worker

POLL_SECS = 0.2


class EvaluatingWorker(Worker):
    """A worker that takes tickets of every evaluation and sends no experience."""

    def _fill(self, num_to_fill: Callable[[], int], fill_policy: SlotPolicy) -> None:
        """Does nothing: the workers fill the buffer."""

    def _collect_more(self) -> None:
        """Waits for the next policy, which may come with tickets."""
        self._records.timer.enter("waiting for the learner")
        self._environments.watchdog.rest()
        self._report(Phase.WAITING_FOR_LEARNER)
        time.sleep(POLL_SECS)
        self._policies.take()
