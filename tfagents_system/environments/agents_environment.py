"""The base class of environments whose simulator has several agents that share a policy."""

import abc
from collections.abc import Collection, Hashable, Mapping
from typing import Any

from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from tfagents_system.environments.agent_slots import (
    MAX_STEPS_WITHOUT_AGENT,
    Agents,
    AgentSlots,
    AgentSteps,
    no_agent_error,
)


class AgentsEnvironment(py_environment.PyEnvironment, abc.ABC):
    """A SlotSimulator whose slots are agents; workers step all of them.

    Used as a PyEnvironment, it has one agent: it follows one from its first step to its last, while
    the others stand still.
    """

    def __init__(self) -> None:
        """Resets nothing yet."""
        super().__init__(handle_auto_reset=True)
        self._slots: AgentSlots | None = None
        self._followed: Hashable = None
        self._asking: Mapping[Hashable, ts.TimeStep] = {}

    @property
    def owner(self) -> str:
        """Class name of the simulator, for messages."""
        return type(self).__name__

    @property
    @abc.abstractmethod
    def agents(self) -> Agents:
        """All agents."""

    @property
    @abc.abstractmethod
    def num_slots(self) -> int:
        """Number of agents that act at once."""

    def reset_slots(self, slots: Collection[int]) -> dict[int, ts.TimeStep]:
        """See `SlotSimulator`."""
        if self._slots is None:
            self._slots = AgentSlots(self.agents)
        return self._slots.reset(slots)

    def step_slots(self, actions: Mapping[int, Any]) -> dict[int, ts.TimeStep]:
        """See `SlotSimulator`."""
        assert self._slots is not None, "reset_slots comes first"
        return self._slots.step(actions)

    def _reset(self) -> ts.TimeStep:
        steps = self.agents.reset()
        for _ in range(MAX_STEPS_WITHOUT_AGENT):
            self._asking = steps.asking
            if self._asking:
                self._followed = next(iter(self._asking))
                return self._asking[self._followed]
            steps = self.agents.step({})
        raise no_agent_error()

    def _step(self, action: types.NestedArray) -> ts.TimeStep:
        steps = self._step_all({self._followed: action})
        for _ in range(MAX_STEPS_WITHOUT_AGENT):
            if self._followed in steps.ended:
                return steps.ended[self._followed]
            if self._followed in steps.asking:
                return steps.asking[self._followed]
            steps = self._step_all({})
        raise RuntimeError(
            f"Agent {self._followed} has neither asked for an action nor ended within "
            f"{MAX_STEPS_WITHOUT_AGENT} steps."
        )

    def _step_all(self, actions: Mapping[Hashable, Any]) -> AgentSteps:
        """Steps all agents; those without an action stand still."""
        idle = self.agents.idle_action
        others = {each: idle(step.observation) for each, step in self._asking.items()}
        steps = self.agents.step(others | dict(actions))
        self._asking = steps.asking
        return steps
