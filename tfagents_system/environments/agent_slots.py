"""Assigns the agents of a simulator to numbered slots."""

import collections
from collections.abc import Collection, Hashable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from tf_agents.trajectories import time_step as ts

CONTINUES, ENDS = np.float32(1), np.float32(0)  # discounts
MAX_STEPS_WITHOUT_AGENT = 10_000
# Unity's DecisionRequester asks for an action in every 20th step at least.
MAX_STEPS_TO_MEET = 2 * 20


class AgentSteps(NamedTuple):
    """The time steps of one step of the simulator, by the id of an agent's episode."""

    asking: Mapping[Any, ts.TimeStep]  # FIRST or MID: each needs an action
    ended: Mapping[Any, ts.TimeStep]  # LAST; discount 0 unless a time limit has ended it


class Agents(Protocol):
    """The agents of a simulator that share a policy; they come and go.

    An id belongs to an episode: an agent whose episode ends gets a new id with its next first step.
    """

    @property
    def are_over(self) -> bool:
        """True while no agent is left; a reset brings new ones."""

    def reset(self) -> AgentSteps:
        """Ends all episodes, without last steps, and begins new ones."""

    def step(self, actions: Mapping[Any, Any]) -> AgentSteps:
        """Simulates until agents ask again; `actions` are by id, of all agents that have asked."""

    def idle_action(self, observation: Any) -> Any:
        """Returns the action of an agent that stands still."""


class AgentSlots:
    """Steps agents by slot, although a simulator identifies them by episodes that come and go.

    A slot whose episode has ended, or is cut, gets the next agent that begins an episode. No single
    agent can be reset, so an agent whose episode is cut while others continue theirs goes on from
    where it is, in a new episode. If no other agent has an episode, the simulator is reset. Agents
    beyond the slots stand still.
    """

    def __init__(self, agents: Agents):
        """Begins with no agent in any slot; does not own `agents`."""
        self._agents = agents
        self._used: set[int] = set()  # slots that have been reset, however many agents there are
        self._slots: dict[Hashable, int] = {}  # by id
        self._waiting: collections.deque[int] = collections.deque()  # slots without an agent
        self._unplaced: dict[Hashable, ts.TimeStep] = {}  # by id, the newest of each asking agent
        self._newest: dict[Hashable, ts.TimeStep] = {}  # by id, of the asking agents in slots
        self._to_begin: set[int] = set()  # slots whose agent goes on in a new episode
        self._newest_ids: dict[int, Hashable] = {}  # by slot, also of an episode that has ended
        self._has_begun = False
        self._num_steps_without_agent = 0  # in a row

    def reset(self, slots: Collection[int]) -> dict[int, ts.TimeStep]:
        """See `SlotSimulator.reset_slots`."""
        self._used.update(slots)
        ids = {slot: each for each, slot in self._slots.items()}
        idle = {*slots, *self._waiting, *self._to_begin}
        is_new = not self._has_begun or self._agents.are_over
        if is_new or (idle == self._used and ids.keys() & idle):
            return self._reset_all(idle)
        begun = {}
        for slot in slots:
            if slot not in ids:
                if slot not in self._waiting:  # otherwise it would get two agents
                    self._waiting.append(slot)
            elif (newest := self._newest.get(ids[slot])) is not None:
                begun[slot] = _first(newest)
            else:
                self._to_begin.add(slot)
        return begun | self._place()

    def id_of(self, slot: int) -> Hashable:
        """Returns the id of a slot's last time step; None if it has had none."""
        return self._newest_ids.get(slot)

    def step(self, actions: Mapping[int, Any]) -> dict[int, ts.TimeStep]:
        """See `SlotSimulator.step_slots`.

        Raises:
          RuntimeError: If no agent in a slot has asked or ended for MAX_STEPS_WITHOUT_AGENT steps.
        """
        if self._agents.are_over:  # and slots wait, whose agents ended before their episodes began
            return self._reset_all({*self._waiting, *self._to_begin})
        ids = {slot: each for each, slot in self._slots.items()}
        chosen = {ids[slot]: action for slot, action in actions.items()}
        for each, step in [*self._unplaced.items(), *self._newest.items()]:
            if each not in chosen:
                chosen[each] = self._agents.idle_action(step.observation)
        found = self._take(self._agents.step(chosen))
        self._num_steps_without_agent = 0 if found else self._num_steps_without_agent + 1
        if self._num_steps_without_agent == MAX_STEPS_WITHOUT_AGENT:
            raise no_agent_error()
        return found

    def _reset_all(self, slots: Collection[int]) -> dict[int, ts.TimeStep]:
        self._has_begun = True
        self._slots, self._newest, self._to_begin = {}, {}, set()
        self._unplaced = dict(self._agents.reset().asking)
        self._waiting = collections.deque(sorted(slots))
        return self._place()

    def _take(self, steps: AgentSteps) -> dict[int, ts.TimeStep]:
        found = {}
        for each, step in steps.ended.items():
            if (slot := self._slots.pop(each, None)) is None:
                continue
            if slot in self._to_begin:  # it has ended without asking again
                self._to_begin.discard(slot)
                self._waiting.append(slot)
            else:
                found[slot] = step
        self._unplaced, self._newest = {}, {}
        for each, step in steps.asking.items():
            if each not in self._slots:
                self._unplaced[each] = step
                continue
            self._newest[each] = step
            slot = self._slots[each]
            found[slot] = _first(step) if slot in self._to_begin else step
            self._to_begin.discard(slot)
        return found | self._place()

    def _place(self) -> dict[int, ts.TimeStep]:
        """Puts agents that begin, or have no slot yet, into waiting slots."""
        begun = {}
        for each in list(self._unplaced):
            if not self._waiting:
                break
            slot = self._waiting.popleft()
            self._slots[each], self._newest_ids[slot] = slot, each
            self._newest[each] = self._unplaced.pop(each)
            begun[slot] = _first(self._newest[each])
        return begun


def most_at_once(agents: Agents, steps: AgentSteps) -> int:
    """Returns how many agents act at once.

    They need not ask at the same time, so agents stand still until one asks a second time: by then
    each has asked, if they ask equally often.

    Args:
      agents: This function steps them; the caller resets them next.
      steps: The result of the reset before.
    """
    living: set[Hashable] = set()
    most = 0
    for _ in range(MAX_STEPS_TO_MEET):
        living.difference_update(steps.ended)
        one_asks_again = not living.isdisjoint(steps.asking)
        living.update(steps.asking)
        most = max(most, len(living))
        if one_asks_again:
            break
        idle = {each: agents.idle_action(step.observation) for each, step in steps.asking.items()}
        steps = agents.step(idle)
    return most


def no_agent_error() -> RuntimeError:
    """Returns the error for a simulator that has lost its agents."""
    return RuntimeError(f"No agent has asked for an action within {MAX_STEPS_WITHOUT_AGENT} steps.")


def _first(step: ts.TimeStep) -> ts.TimeStep:
    return ts.restart(step.observation)
