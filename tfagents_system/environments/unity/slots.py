"""Gives the agents of a behavior places in numbered slots."""

import collections
from collections.abc import Collection, Mapping
from typing import Any

from tf_agents.trajectories import time_step as ts

from tfagents_system.environments.unity.agents import AgentSteps, UnityAgents


class AgentSlots:
    """Steps agents by slot, where Unity has ids of episodes that come and go.

    A slot whose episode has ended, or is cut, gets the next agent that begins one. An agent whose
    episode is cut goes on: what follows is an episode that begins in the middle, because Unity
    cannot reset a single agent. Agents beyond the slots stand still.
    """

    def __init__(self, agents: UnityAgents):
        """Begins with no agent in any slot; does not own `agents`."""
        self._agents = agents
        self._slots: dict[int, int] = {}  # by id
        self._waiting: collections.deque[int] = collections.deque()  # slots without an agent
        self._unplaced: dict[int, ts.TimeStep] = {}  # by id, newest of each that asks
        self._newest: dict[int, ts.TimeStep] = {}  # by id, of those in slots that ask
        self._to_begin: set[int] = set()  # slots whose agent goes on in a new episode
        self._has_begun = False

    def reset(self, slots: Collection[int]) -> dict[int, ts.TimeStep]:
        """See `SlotSimulator.reset_slots`."""
        if not self._has_begun:
            self._has_begun = True
            self._unplaced = dict(self._agents.reset().asking)
        ids = {slot: each for each, slot in self._slots.items()}
        begun = {}
        for slot in slots:
            if slot not in ids:
                self._waiting.append(slot)
            elif (newest := self._newest.get(ids[slot])) is not None:
                begun[slot] = _first(newest)
            else:
                self._to_begin.add(slot)
        return begun | self._place()

    def step(self, actions: Mapping[int, Any]) -> dict[int, ts.TimeStep]:
        """See `SlotSimulator.step_slots`."""
        ids = {slot: each for each, slot in self._slots.items()}
        chosen = {ids[slot]: action for slot, action in actions.items()}
        idle = self._agents.behavior.idle_action
        for each, step in [*self._unplaced.items(), *self._newest.items()]:
            if each not in chosen:
                chosen[each] = idle(step.observation)
        return self._take(self._agents.step(chosen))

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
            self._slots[each] = slot
            self._newest[each] = self._unplaced.pop(each)
            begun[slot] = _first(self._newest[each])
        return begun


def _first(step: ts.TimeStep) -> ts.TimeStep:
    return ts.restart(step.observation)
