"""The agents of one behavior in an environment object of ML-Agents."""

import collections
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.action_masks import ACTION_MASK
from tfagents_system.environments.agent_slots import CONTINUES, ENDS, AgentSteps, most_at_once
from tfagents_system.environments.unity.agents import chosen_behavior
from tfagents_system.environments.unity.behaviors import (
    Behavior,
    Sensor,
    leaf_name,
    make_sensor,
)

_Id = tuple[int, int]  # an agent's id, and the number of its episode


class _Actions(NamedTuple):
    """Actions for `set_actions`, with the parts of ML-Agents' ActionTuple."""

    continuous: NDArray[np.float32]  # [n, A]
    discrete: NDArray[np.int32]  # [n, K]


class BaseEnvAgents:
    """Resets and steps the agents of a behavior; see `agent_slots.Agents`.

    Agents of other behaviors get no actions, which ML-Agents takes as zeros.
    """

    are_over = False  # a simulator of Unity begins new episodes by itself

    def __init__(self, env: Any, behavior: str | None = None):
        """Resets and steps `env`, to learn its behaviors and agents; does not own it.

        Args:
          env: Has the methods of ML-Agents' BaseEnv.
          behavior: Name, with or without the part after "?"; None if there is only one.

        Raises:
          ConfigError: If there is no such behavior, or several and none is chosen.
        """
        self._env = env
        env.reset()
        name = chosen_behavior(behavior, list(env.behavior_specs))
        self.behavior = _behavior_of(name, env.behavior_specs[name])
        self._numbers: collections.Counter[int] = collections.Counter()  # episodes, by agent's id
        self._begun: set[_Id] = set()
        self._asking: list[_Id] = []  # in the order in which their actions are wanted
        self.num_agents = most_at_once(self, self._take())

    def reset(self) -> AgentSteps:
        """Ends all episodes, without last steps, and begins new ones."""
        self._env.reset()
        for agent, _ in self._begun:
            self._numbers[agent] += 1
        self._begun.clear()
        return self._take()

    def step(self, actions: Mapping[_Id, Any]) -> AgentSteps:
        """Steps the environment; `actions` are of all agents that have asked."""
        if self._asking:
            wanted = [self.behavior.parts(actions[each]) for each in self._asking]
            continuous, discrete = (np.stack(part) for part in zip(*wanted, strict=True))
            self._env.set_actions(self.behavior.name, _Actions(continuous, discrete))
        self._env.step()
        return self._take()

    def idle_action(self, observation: Mapping[str, Any]) -> Any:
        """See `Behavior.idle_action`."""
        return self.behavior.idle_action(observation)

    def _take(self) -> AgentSteps:
        asking, ending = self._env.get_steps(self.behavior.name)
        last, steps = {}, {}
        for row, agent in enumerate(map(int, ending.agent_id)):
            each = (agent, self._numbers[agent])
            self._numbers[agent] += 1
            if each in self._begun:  # otherwise it has ended before it asked
                self._begun.discard(each)
                discount = CONTINUES if ending.interrupted[row] else ENDS
                observation = self._observation(ending, row, None)
                last[each] = ts.TimeStep(
                    ts.StepType.LAST, _reward(ending, row), discount, observation
                )
        for row, agent in enumerate(map(int, asking.agent_id)):
            each = (agent, self._numbers[agent])
            observation = self._observation(asking, row, asking.action_mask)
            steps[each] = ts.restart(observation)
            if each in self._begun:
                reward = _reward(asking, row)
                steps[each] = ts.TimeStep(ts.StepType.MID, reward, CONTINUES, observation)
        self._asking = list(steps)
        self._begun.update(steps)
        return AgentSteps(steps, last)

    def _observation(self, steps: Any, row: int, forbidden: Any) -> dict[str, NDArray[Any]]:
        observation = {}
        for sensor, part in zip(self.behavior.sensors, steps.obs, strict=True):
            values = np.asarray(part[row], np.float32)
            observation[sensor.name] = (
                np.moveaxis(values, 0, -1) if sensor.is_channels_first else values
            )
        if self.behavior.branches:
            allowed = np.ones(sum(self.behavior.branches), np.float32)
            if forbidden is not None:  # [n, size] of each branch
                of_branches = self.behavior.without_fixed(forbidden)
                allowed -= np.concatenate([branch[row] for branch in of_branches])
            observation[ACTION_MASK] = allowed
        return observation


def _reward(steps: Any, row: int) -> np.float32:
    """Returns an agent's reward plus its group's."""
    groups = getattr(steps, "group_reward", None)
    return np.float32(steps.reward[row] + (0 if groups is None else groups[row]))


def _behavior_of(name: str, spec: Any) -> Behavior:
    sensors: list[Sensor] = []
    for each in spec.observation_specs:
        shape = tuple(map(int, each.shape))
        properties = tuple(int(part.value) for part in each.dimension_property)
        leaf, kind = leaf_name(each.name, sensors), int(each.observation_type.value)
        sensors.append(make_sensor(leaf, shape, "float32", properties, kind))
    action = spec.action_spec
    sizes = tuple(map(int, action.discrete_branches))
    return Behavior.with_sizes(name, int(action.continuous_size), sizes, tuple(sensors))
