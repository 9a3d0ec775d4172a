"""Adapts environment objects of ML-Agents: UnityEnvironment, and your own BaseEnv."""

from typing import Any

from tf_agents.typing import types

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.agents_environment import AgentsEnvironment
from tfagents_system.environments.unity import specs
from tfagents_system.environments.unity.base_env_agents import BaseEnvAgents

_API = ("behavior_specs", "get_steps", "set_actions", "reset", "step")


class BaseEnvEnvironment(AgentsEnvironment):
    """Adapts one behavior of an object with the methods of `mlagents_envs.base_env.BaseEnv`.

    For code that makes such objects; a build does not need this (see `unity_adapter`). Observations
    are a dict by sensor, float32, images [H, W, C]; actions are like a build's. Owns the
    environment: `close` closes it.
    """

    def __init__(self, env: Any, behavior: str | None = None):
        """Resets and steps `env`, to learn its behaviors and agents.

        Args:
          env: The environment.
          behavior: Name of the behavior; None if there is only one.

        Raises:
          ConfigError: If there is no such behavior, or several and none is chosen.
        """
        super().__init__()
        self._env = env
        self._agents = BaseEnvAgents(env, behavior)

    @property
    def owner(self) -> str:
        """Class name of the environment object."""
        return type(self._env).__name__

    @property
    def agents(self) -> BaseEnvAgents:
        """All agents of the behavior."""
        return self._agents

    @property
    def num_slots(self) -> int:
        """Number of agents that act at once, before any has acted twice."""
        return self._agents.num_agents

    def observation_spec(self) -> types.NestedArraySpec:
        """Returns the spec of observations."""
        return specs.observation_spec(self._agents.behavior)

    def action_spec(self) -> types.NestedArraySpec:
        """Returns the spec of actions."""
        return specs.action_spec(self._agents.behavior)

    def seed(self, seed: int) -> int:
        """Returns the seed, which has no effect: such an environment is seeded when it is made."""
        return int(seed)

    def get_info(self) -> dict[str, Any]:
        """Returns {}."""
        return {}

    def slot_info(self, slot: int) -> dict[str, Any]:
        """Returns {}."""
        return {}

    def set_state(self, state: Any) -> None:
        """Passes `state` to the environment's own `set_state`; a curriculum calls this.

        Raises:
          ConfigError: If it has no `set_state`.
        """
        set_state = getattr(self._env, "set_state", None)
        if set_state is None:
            raise ConfigError(
                f"{type(self._env).__name__} has no set_state: the curriculum needs "
                "set_state(self, state: dict) in that class, such as one that calls "
                "set_float_parameter of ML-Agents' EnvironmentParametersChannel."
            )
        set_state(state)

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()


def is_base_env(env: Any) -> bool:
    """Returns whether an environment has the methods of ML-Agents' BaseEnv."""
    return all(hasattr(type(env), name) for name in _API)
