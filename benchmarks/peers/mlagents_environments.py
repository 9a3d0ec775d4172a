"""The small tasks as environments of ML-Agents, and a record of their agents' episodes."""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BaseEnv,
    BehaviorMapping,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)

from tfagents_system.tasks.simple import TASKS, Simple


class Episode(NamedTuple):
    """An episode that has ended."""

    env_step: int  # of all agents, when it ended
    episode_return: float
    wall_time: float


class SimpleEnv(BaseEnv):
    """A task of tasks/simple.py with one agent, which ML-Agents gives images as [C, H, W].

    Its own tests clip moves of real numbers at the stride; here an action of 1 is a whole stride.
    """

    def __init__(self, task: str, behavior: str, seed: int):
        self._task, self._behavior = Simple(**TASKS[task]), behavior
        self._task.seed(seed)
        arguments = TASKS[task]
        self._num_branches = arguments.get("num_discrete", 0)
        num_continuous = arguments.get("num_continuous", 1)
        self._is_nested = bool(self._num_branches and num_continuous)
        observation = self._leaves(self._task.reset())
        sensors = [
            ObservationSpec(
                leaf.shape, (DimensionProperty.UNSPECIFIED,) * leaf.ndim, ObservationType.DEFAULT,
                str(index),
            )
            for index, leaf in enumerate(observation)
        ]  # fmt: skip
        self._spec = BehaviorSpec(sensors, ActionSpec(num_continuous, (2,) * self._num_branches))
        self._agent = 0

    @property
    def behavior_specs(self) -> BehaviorMapping:
        """The one behavior."""
        return BehaviorMapping({self._behavior: self._spec})

    def reset(self) -> None:
        """Begins an episode."""
        self._begin(TerminalSteps.empty(self._spec))

    def step(self) -> None:
        """Takes the action; if the episode has ended, the next one begins at once."""
        observation, reward, is_over, _ = self._task.step(self._action)
        if not is_over:
            self._steps = self._decision(observation, reward), TerminalSteps.empty(self._spec)
            return
        agent = np.array([self._agent], np.int32)
        none, zero = np.zeros(1, bool), np.zeros(1, np.float32)
        self._begin(
            TerminalSteps(
                self._batch(observation), np.array([reward], np.float32), none, agent,
                np.zeros(1, np.int32), zero,
            )
        )  # fmt: skip

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        """Returns what the agent sees."""
        return self._steps

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Keeps the action of the agent."""
        parts = {"continuous": action.continuous[0], "discrete": action.discrete[0]}
        if self._is_nested:
            self._action: Any = parts
        else:
            self._action = parts["discrete" if self._num_branches else "continuous"]

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """The only agent's."""
        self.set_actions(behavior_name, action)

    def close(self) -> None:
        """Has nothing to close."""

    def _begin(self, ended: TerminalSteps) -> None:
        self._agent += 1
        self._steps = self._decision(self._task.reset(), 0.0), ended

    def _decision(self, observation: Any, reward: float) -> DecisionSteps:
        forbidden = [np.zeros((1, 2), bool)] * self._num_branches or None
        return DecisionSteps(
            self._batch(observation), np.array([reward], np.float32),
            np.array([self._agent], np.int32), forbidden, np.zeros(1, np.int32),
            np.zeros(1, np.float32),
        )  # fmt: skip

    def _batch(self, observation: Any) -> list[np.ndarray]:
        return [leaf[np.newaxis] for leaf in self._leaves(observation)]

    def _leaves(self, observation: Any) -> list[np.ndarray]:
        leaves: Iterable[np.ndarray] = [observation]
        if isinstance(observation, dict):
            leaves = observation.values()
        return [leaf.transpose(2, 0, 1) if leaf.ndim == 3 else leaf for leaf in leaves]


class Recorded(BaseEnv):
    """Any environment, with the episodes of all its agents."""

    def __init__(self, env: BaseEnv):
        self._env = env
        self._returns: dict[int, float] = {}  # so far, by agent
        self.num_steps = 0
        self.episodes: list[Episode] = []

    @property
    def behavior_specs(self) -> BehaviorMapping:
        """Those of the environment."""
        return self._env.behavior_specs

    def reset(self) -> None:
        """Begins; episodes that have not ended are dropped."""
        self._returns.clear()
        self._env.reset()

    def step(self) -> None:
        """Steps, and records rewards and ends."""
        for name in self.behavior_specs:
            self.num_steps += len(self._env.get_steps(name)[0])
        self._env.step()
        for name in self.behavior_specs:
            for steps in self._env.get_steps(name):
                for agent, reward in zip(steps.agent_id, steps.reward, strict=True):
                    total = self._returns.pop(int(agent), 0.0) + float(reward)
                    if isinstance(steps, TerminalSteps):
                        self.episodes.append(Episode(self.num_steps, total, time.time()))
                    else:
                        self._returns[int(agent)] = total

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        """Returns the environment's."""
        return self._env.get_steps(behavior_name)

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Passes them on."""
        self._env.set_actions(behavior_name, action)

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """Passes it on."""
        self._env.set_action_for_agent(behavior_name, agent_id, action)

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()
