"""The interface of environments whose simulator has several slots, each with its own episodes."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol, runtime_checkable

from tf_agents.trajectories import time_step as ts


@runtime_checkable
class SlotSimulator(Protocol):
    """A PyEnvironment with several slots, numbered from 0; its specs are for one slot.

    A time step of type FIRST begins a slot's episode, and one of type LAST ends it.
    """

    num_slots: int

    def reset_slots(self, slots: Collection[int]) -> dict[int, ts.TimeStep]:
        """Begins an episode in each of `slots`.

        A slot without a time step begins later: its first time step is a result of `step_slots`.
        If no other slot has an episode, the new episodes begin at their start; otherwise they may
        begin where the previous one was cut.
        """

    def step_slots(self, actions: Mapping[int, Any]) -> dict[int, ts.TimeStep]:
        """Steps the simulator; `actions` has one for each slot that has had a time step.

        A slot without a new time step needs no action until it has one.
        """

    def slot_info(self, slot: int) -> Any:
        """Returns the info of a slot's last step."""
