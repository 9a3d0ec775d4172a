"""Tells the learner when training is to end before its last iteration."""

import time
from collections.abc import Callable
from typing import Any

from tfagents_system.core.settings.stop_condition import TIME, parse_stop_when
from tfagents_system.core.state.end_request import requested_end
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.waiting import Throttled

LOOK_PERIOD_SECS = 1.0  # between readings of the request


class EarlyEnd:
    """The end by `stop_when` or a callback.

    The learner decides on conditions on time; the program that completes an evaluation decides on
    the others, and leaves a request. In lock step, the learner looks once in each iteration, at
    `look`: a request of the evaluation before the iteration's round is there by then.
    """

    def __init__(
        self,
        paths: ExperimentPaths,
        stop_when: str | None,
        secs_before: Callable[[], float],
        in_lock_step: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Begins to measure time.

        Args:
          paths: Paths of the experiment.
          stop_when: The hyperparameter.
          secs_before: Returns the training time of earlier starts.
          in_lock_step: Whether learner and worker take turns.
          clock: Measures seconds.
        """
        self._paths, self._stop_when, self._clock = paths, stop_when, clock
        self._in_lock_step = in_lock_step
        self._found = Throttled(self._found_reason, LOOK_PERIOD_SECS, clock)
        self._conditions = [c for c in parse_stop_when(stop_when) if c.quantity == TIME]
        self._began_at = clock() - (secs_before() if self._conditions else 0.0)
        self._reason: str | None = None

    @property
    def reason(self) -> str | None:
        """Why training is to end; None if it goes on."""
        if not self._in_lock_step:
            self._take(self._found())
        return self._reason

    def look(self) -> None:
        """In lock step, decides whether training ends with this iteration."""
        if self._in_lock_step:
            self._take(self._found_reason())

    def _take(self, reason: str | None) -> None:
        if self._reason is None and reason is not None:
            self._reason = reason
            print(f"Training ends early: {reason}.", flush=True)

    def _found_reason(self) -> str | None:
        training_secs = self._clock() - self._began_at
        reached = [c.text for c in self._conditions if c.holds(training_secs)]
        return reached[0] if reached else requested_end(self._paths)

    def facts(self, iteration: int) -> dict[str, Any]:
        """Returns what later starts need to know of an early end in `iteration`."""
        why = {"stopped_because": self._reason, "stop_when": self._stop_when}
        return {"iteration": iteration} | why
