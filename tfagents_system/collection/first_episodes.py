"""Runs the first episodes of a simulator's slots, for an evaluation."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.rollouts import Episode
from tfagents_system.collection.side_by_side import SideBySide, SlotEnvironments
from tfagents_system.core.meters import PhaseTimer
from tfagents_system.environments.replaceable import EnvironmentFailure
from tfagents_system.policies.acting import SlotPolicy


def run_first_episodes(
    slots: SlotEnvironments,
    policy: SlotPolicy,
    horizon: int,
    num_episodes: int,
    observe: Callable[[int, ts.TimeStep, Any, ts.TimeStep], object],
    goes_on: Callable[[], bool],
    log_info: Sequence[str] = (),
) -> list[Episode]:
    """Runs an episode in each of the first `num_episodes` slots, while all slots act.

    Which episodes count is settled before they begin: among those that end within some time, short
    ones would be too many. A slot whose episode is over acts in further ones, which do not count,
    because the agents of one world may depend on each other.

    Args:
      slots: All episodes begin here.
      policy: Chooses the actions of all slots.
      horizon: Maximum number of env steps of an episode.
      num_episodes: At most the number of slots.
      observe: Called as observe(slot, time_step, action, next_time_step) after each env step that
        counts.
      goes_on: Called after each step of the simulator; False ends the evaluation.
      log_info: As in the settings.

    Returns:
      The complete episodes by slot; none if it has ended early. Slots are left out if they have no
      agent when the others' episodes, and `horizon` steps, are over.

    Raises:
      EnvironmentFailure: If the simulator fails.
    """
    found: dict[int, Episode] = {}

    def observe_first(
        slot: int, time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep, state: Any
    ) -> bool:
        if slot < num_episodes and slot not in found:
            observe(slot, time_step, action, next_time_step)
        return True

    numbers = [InfoNumbers(log_info) for _ in range(slots.num_slots)]
    episodes = SideBySide(slots, horizon, observe_first, PhaseTimer("evaluating"), numbers)
    for num_ticks in itertools.count():
        missing = set(range(num_episodes)) - found.keys()
        is_awaited = num_ticks < horizon or not found or missing & set(episodes.running_slots)
        if not missing or not is_awaited:
            break
        states: dict[int, dict[str, Any]] = {slot: {} for slot in episodes.idle_slots}
        for slot, end in itertools.chain(episodes.begin(policy, states), episodes.tick(policy)):
            if isinstance(end, EnvironmentFailure):
                raise end
            if slot in missing:
                found.setdefault(slot, end)
        if not goes_on():
            return []
    return [found[slot] for slot in sorted(found)]
