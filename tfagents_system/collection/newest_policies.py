"""An agent's policies with the variables that the learner has published last."""

import contextlib
import time
from collections.abc import Callable, Iterator

from tfagents_system.policies.acting import AgentPolicies, SlotPolicy
from tfagents_system.services.variables import VariableReader
from tfagents_system.services.versions import PolicyVersion

PULL_TIMEOUT_SECS = 0.5
MOST_TIME_PULLING = 0.02  # share of time for pulls that are not needed


class NewestPolicies:
    """The collect and the greedy policy; `take` and `pull` update their variables."""

    def __init__(
        self,
        policies: AgentPolicies,
        reader: VariableReader,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Starts without a version."""
        self._policies, self._reader, self._clock = policies, reader, clock
        self._taken: PolicyVersion | None = None
        self._next_pull_at = -float("inf")
        self._newest: PolicyVersion | None = None
        self._arrived_at = 0.0

    @property
    def age_secs(self) -> float | None:
        """Seconds since the newest version was first seen; None before the first."""
        if self._reader.latest is not self._newest:
            self._newest, self._arrived_at = self._reader.latest, self._clock()
        return None if self._newest is None else self._clock() - self._arrived_at

    @property
    def collect(self) -> SlotPolicy:
        """The policy for collection."""
        return self._policies.collect

    @property
    def greedy(self) -> SlotPolicy:
        """The policy for evaluation."""
        return self._policies.greedy

    @property
    def is_published(self) -> bool:
        """Whether any version has been taken."""
        return self._taken is not None

    @property
    def train_step(self) -> int:
        """Train step of the taken version; 0 before the first."""
        return self._taken.train_step if self._taken else 0

    @property
    def num_tickets(self) -> int:
        """Number of tickets handed out up to the taken version; 0 before the first."""
        return self._taken.num_tickets if self._taken else 0

    @property
    def lessons(self) -> tuple[int, ...]:
        """The curriculum's lessons as of the taken version, from 0; empty before the first."""
        return self._taken.lessons if self._taken else ()

    @contextlib.contextmanager
    def acting_as(self, version: PolicyVersion) -> Iterator[None]:
        """Makes both policies act as `version` within the block, and as the taken one afterwards.

        Enter it between episodes, after a version has been taken.
        """
        self._policies.update(version.values)
        try:
            yield
        finally:
            assert self._taken is not None, "a version has been taken before"
            self._policies.update(self._taken.values)

    def take(self) -> None:
        """Takes the newest arrived version without waiting."""
        newest = self._reader.latest
        if newest is not None and newest is not self._taken:
            self._policies.update(newest.values)
            self._taken = newest

    def pull(self, is_needed: bool) -> None:
        """Takes the newest version; waits for the server for at most `PULL_TIMEOUT_SECS`.

        A pull takes about half a millisecond. If it is not needed, it is skipped so often that
        pulls take at most 2 % of the time; the version is then that of the last burst.
        """
        begin = self._clock()
        if self.is_published and (is_needed or begin >= self._next_pull_at):
            self._reader.refresh(PULL_TIMEOUT_SECS)
            end = self._clock()
            self._next_pull_at = end + (end - begin) / MOST_TIME_PULLING
        self.take()
