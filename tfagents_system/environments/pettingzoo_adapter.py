"""Adapts parallel environments of PettingZoo, whose agents share a policy."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tf_agents.typing import types

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import adapter, rendering
from tfagents_system.environments.agents_environment import AgentsEnvironment
from tfagents_system.environments.parallel_agents import ParallelAgents

# Without `agents`, which many environments only set in their first reset.
_API = ("possible_agents", "observation_space", "action_space", "reset", "step")


class ParallelEnvironment(AgentsEnvironment):
    """Adapts an environment with PettingZoo's parallel API; PettingZoo need not be installed.

    The specs are one agent's; all agents have the same. With masks of discrete actions, from the
    key `action_mask` of observations or infos, observations are a dict with `action_mask`.
    Owns the environment: `close` closes it.
    """

    def __init__(self, env: Any, seed: int | None = None):
        """Wraps `env`, with its wrappers; see `ParallelAgents`.

        Args:
          env: Has `reset(seed) -> (observations, infos)`, `step(actions) -> (observations, rewards,
            terminations, truncations, infos)`, dicts by agent, `agents`, `possible_agents`, and
            `observation_space(agent)` and `action_space(agent)`, spaces of gymnasium.
          seed: Of the first reset.

        Raises:
          ConfigError: If it lacks something, or its agents have different spaces.
        """
        super().__init__()
        self._env = env
        self._owner = type(adapter.innermost(env)).__name__
        adapter.check_has(env, self._owner, _API)
        self._agents = ParallelAgents(env, self._owner, seed)
        self._is_closed = False

    @property
    def owner(self) -> str:
        """Class name of the environment inside all wrappers."""
        return self._owner

    @property
    def agents(self) -> ParallelAgents:
        """All agents."""
        return self._agents

    @property
    def num_slots(self) -> int:
        """Number of possible agents."""
        return len(self._env.possible_agents)

    def observation_spec(self) -> types.NestedArraySpec:
        """Returns the spec of an agent's observation."""
        return self._agents.observation_spec

    def action_spec(self) -> types.NestedArraySpec:
        """Returns the spec of an agent's action."""
        return self._agents.action_spec

    def seed(self, seed: int) -> int:
        """Passes the seed to the next reset. Returns it."""
        self._agents.seed(int(seed))
        return int(seed)

    def get_info(self) -> Any:
        """Returns the info of the followed agent's last step."""
        return self._agents.infos.get(self._followed, {})

    def slot_info(self, slot: int) -> Any:
        """Returns the info of a slot's last step."""
        assert self._slots is not None, "reset_slots comes first"
        return self._agents.infos.get(self._slots.id_of(slot), {})

    def set_state(self, state: Any) -> None:
        """Passes `state` to the environment's own `set_state`; a curriculum calls this.

        Raises:
          ConfigError: If it has no `set_state`.
        """
        for layer in adapter.layers(self._env):
            if callable(set_state := getattr(layer, "set_state", None)):
                set_state(state)
                return
        raise ConfigError(
            f"{self._owner} has no set_state: the curriculum needs set_state(self, state: dict) in "
            "that class."
        )

    def render(self, mode: str = "rgb_array") -> NDArray[np.uint8] | None:
        """Returns a frame [H, W, 3] uint8 for "rgb_array"; shows a window for "human".

        Raises:
          ConfigError: If the environment was made with another mode, or returns no frame.
        """
        adapter.check_can_draw(self._env, self._owner)
        made_with = getattr(self._env, "render_mode", mode)
        if mode != made_with:
            raise ConfigError(
                f"{self._owner} was made with render_mode={made_with!r} and cannot render {mode!r}."
                f" Make it with render_mode={mode!r}."
            )
        frame = self._env.render()
        return rendering.as_frame(frame, self._owner) if mode == "rgb_array" else None

    def close(self) -> None:
        """Closes the environment; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            if callable(close := getattr(self._env, "close", None)):
                close()


def load(module: str, seed: int | None = None, **kwargs: Any) -> ParallelEnvironment:
    """Returns the parallel environment of a module, as PettingZoo's are, such as "mpe2.simple_v3".

    Args:
      module: Has a function `parallel_env`.
      seed: Of the first reset.
      **kwargs: Arguments of `parallel_env`.

    Raises:
      ConfigError: If there is no such module or function, or the agents have different spaces.
    """
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"Cannot import {module}: {error}. Install its package in this Python."
        ) from error
    make = getattr(found, "parallel_env", None)
    if make is None:
        raise ConfigError(f"{module} has no parallel_env; expected a module with one.")
    return ParallelEnvironment(make(**kwargs), seed)


def is_parallel(env: Any) -> bool:
    """Returns whether an environment has PettingZoo's parallel API."""
    return (
        callable(getattr(env, "observation_space", None))
        and not is_sequential(env)
        and all(hasattr(env, name) for name in _API)
    )


def is_sequential(env: Any) -> bool:
    """Returns whether an environment has PettingZoo's API in which agents act in turn (AEC)."""
    return callable(getattr(env, "agent_iter", None)) and hasattr(env, "possible_agents")
