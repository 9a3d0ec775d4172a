"""The actions that were taken in an episode of collection."""

from typing import Any

from tfagents_system.collection.action_shares import ActionShares
from tfagents_system.collection.interventions import Interventions
from tfagents_system.core.nests import Nest


class TakenActions:
    """Finds the action of each env step, and counts choices and interventions.

    actions = TakenActions(action_spec)
    action = actions.taken(action, environment.get_info())   # after each env step
    actions.numbers   # at the end of the episode
    """

    def __init__(self, action_spec: Nest):
        """`action_spec` has the bounds of actions."""
        self._interventions, self._shares = Interventions(action_spec), ActionShares(action_spec)

    def taken(self, action: Any, info: Any) -> Any:
        """Returns the action of an env step; see `Interventions.taken`."""
        taken = self._interventions.taken(action, info)
        self._shares.add(taken)
        return taken

    @property
    def is_intervention(self) -> bool:
        """True if a person has acted in the newest env step."""
        return self._interventions.is_newest

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers for the episode's record."""
        return self._interventions.numbers | self._shares.numbers
