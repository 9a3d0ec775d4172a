"""The outputs of a worker's env steps: items, items sent again and hindsight copies."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tfagents_system.collection.goal_relabelling import GoalRelabelling
from tfagents_system.environments.replaceable import ReplaceableEnvironment
from tfagents_system.services.adder import Adder
from tfagents_system.services.journal import Checkpoints


class Experience(NamedTuple):
    """The outputs of a worker's env steps."""

    adder: Adder
    # Yields the contents of the two newest checkpoints after each new one, otherwise None.
    new_checkpoints: Callable[[], Checkpoints | None]
    # Of each slot: copies env steps with other goals, if asked for.
    relabelling: Sequence[GoalRelabelling] = ()

    def add_copies(self, environment: ReplaceableEnvironment, slot: int = 0) -> Iterator[None]:
        """Adds the env steps of a slot's last episode with other goals; yields when a burst is due.

        Env steps in a row that have one goal are an episode of the stream. If the caller stops
        early, the others are lost.

        Raises:
          EnvironmentFailure: If the environment fails to judge them.
        """
        for copy in self.relabelling[slot].copies(environment) if self.relabelling else ():
            is_added = self.adder.add(copy.time_step, copy.action, copy.next_time_step, slot=slot)
            if copy.is_last or not is_added:
                self.adder.end_episode(slot)
            if self.adder.is_burst_due:
                yield
