"""Adapts environments of gym 0.23."""

import copy
import importlib
import warnings
from collections.abc import Mapping
from typing import Any

import gym
import numpy as np
from numpy.typing import NDArray
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import adapter, headless, rendering

_NEWER = (
    "If it has gymnasium's interface, derive it from gymnasium.Env, or return "
    "gymnasium_adapter.GymnasiumEnvironment(env, seed=seed) from env_ctor"
)


class GymEnvironment(adapter.EnvironmentAdapter):
    """Adapts `reset() -> observation`, `step(action) -> (observation, reward, done, info)`.

    `done` is a time limit if `info["TimeLimit.truncated"]` is true, as set by gym's TimeLimit
    wrapper, otherwise a termination. An environment that counts its own steps and sets `done` must
    set this entry, or its time limit counts as a termination.
    """

    def __init__(self, env: gym.Env, seed: int | None = None):
        """Wraps `env`; see the base class.

        Raises:
          ConfigError: Also if two TimeLimit wrappers end the episode at the same step.
        """
        super().__init__(env, seed)
        check_time_limits(env, self._owner)

    def seed(self, seed: int) -> int:
        """Seeds by `env.seed` and, if `reset` takes a seed, by the next reset.

        Args:
          seed: >= 0.

        Returns:
          `seed` as a Python int.
        """
        seed = int(seed)  # gym rejects NumPy integers
        # Wrappers forward to the innermost layer, where `seed` may be a number of the user's.
        if all(
            callable(getattr(e, "seed", None)) for e in (self._env, adapter.innermost(self._env))
        ):
            with warnings.catch_warnings():
                # gym 0.23 deprecates env.seed, but older environments (pybullet) have nothing else.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._env.seed(seed)
        self._reset_seed = seed if adapter.reset_takes_seed(self._env) else None
        return seed

    def render(self, mode: str = "rgb_array") -> NDArray[np.uint8] | None:
        """Returns a frame [H, W, 3] uint8 for "rgb_array"; shows a window for "human".

        "rgb_array" draws with SDL's dummy driver, unless pygame draws already: DISPLAY may be set
        although there is no display, as in a shell of ssh or tmux. Needs a reset before.

        Raises:
          ConfigError: If the environment returns no frame, or cannot render.
        """
        adapter.check_can_draw(self._env, self._owner)
        if mode != "rgb_array":
            self._env.render(mode=mode)
            return None
        if not headless.has_pygame_display():
            headless.draw_unseen()  # pygame reads it when it first draws
        return rendering.as_frame(self._env.render(mode="rgb_array"), self._owner)

    def _reset(self) -> ts.TimeStep:
        if self._reset_seed is None:
            observation = self._env.reset()
        else:
            seed, self._reset_seed = self._reset_seed, None
            observation = self._env.reset(seed=seed)
        self._info = {}
        is_pair = isinstance(observation, tuple) and len(observation) == 2
        if is_pair and not isinstance(self._observation_spec, tuple):
            raise ConfigError(
                f"{self._owner}.reset returned two values; that of gym 0.23 returns the "
                f"observation alone. {_NEWER}."
            )
        return self._first(observation)

    def _step(self, action: types.NestedArray) -> ts.TimeStep:
        result = self._env.step(self._cast_action(action))
        try:
            observation, reward, done, info = result
        except (TypeError, ValueError):
            raise adapter.wrong_step_error(
                self._owner, result, f"(observation, reward, done, info). {_NEWER}"
            ) from None
        self._info = info
        if done:
            is_time_limit = isinstance(info, Mapping) and info.get("TimeLimit.truncated", False)
            return self._last(observation, reward, not is_time_limit)
        return self._mid(observation, reward)


def load(
    name: str,
    seed: int | None = None,
    gym_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
) -> GymEnvironment:
    """Returns the registered gym environment as a PyEnvironment.

    Args:
      name: Registered id, for example "Pendulum-v1", or "package:Id-v0".
      seed: Seed of the environment's random numbers, >= 0; None draws one from the system.
      gym_kwargs: Keyword arguments of the environment's constructor.
      max_episode_steps: Time limit in env steps; None keeps the registered one.

    Raises:
      ConfigError: If the id is unknown, the constructor rejects `gym_kwargs`, a package it needs is
        missing, or a space is not supported.
    """
    return GymEnvironment(make(name, gym_kwargs, max_episode_steps), seed=seed)


def make(
    name: str, gym_kwargs: Mapping[str, Any] | None = None, max_episode_steps: int | None = None
) -> gym.Env:
    """Returns the gym environment itself, with only its time limit as a wrapper; see `load`."""
    adapter.check_max_episode_steps(max_episode_steps)
    spec = copy.copy(find_spec(name))  # the registered spec must not change
    spec.order_enforce = False  # PyEnvironment resets by itself before the first step
    if max_episode_steps is not None:
        spec.max_episode_steps = int(max_episode_steps)
    kwargs = dict(gym_kwargs or {})
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*Box bound precision lowered")  # float32 is meant
            return spec.make(**kwargs)
    except (TypeError, ImportError, gym.error.Error) as error:
        raise ConfigError(f"Cannot make {name} with gym_kwargs={kwargs}: {error}") from error


def find_spec(name: str) -> gym.envs.registration.EnvSpec:
    """Returns the registered spec; imports the package of a "package:Id-v0" name.

    Raises:
      ConfigError: If the package cannot be imported, or the id is unknown; then the message has the
        nearest ids.
    """
    package, colon, own_name = name.rpartition(":")
    if colon:
        try:
            importlib.import_module(package)
        except (ImportError, TypeError, ValueError) as error:  # the last two for ".x" and ""
            raise ConfigError(
                f"Cannot import {package!r}, the package of the environment {name!r}: {error}. "
                "Expected 'package:Id-v0', of a package that is installed in this Python."
            ) from error
    try:
        return gym.spec(own_name)
    except gym.error.Error as error:
        registered = gym.envs.registry.env_specs
        raise adapter.unknown_id_error(name, registered, "gym") from error


def check_time_limits(env: gym.Env, owner: str) -> None:
    """Rejects equal limits: the outer one would report the inner one's truncation as termination.

    Args:
      env: Environment with all its wrappers.
      owner: Name of the environment, for the message.

    Raises:
      ConfigError: If two TimeLimit wrappers of `env` have the same limit.
    """
    limits = [
        layer._max_episode_steps
        for layer in adapter.layers(env)
        if isinstance(layer, gym.wrappers.TimeLimit)
    ]
    if len(limits) != len(set(limits)):
        raise ConfigError(
            f"{owner} is wrapped in TimeLimits of {limits} steps: where two are equal, gym reports "
            "a termination, not a time limit. Keep one, or use load(..., max_episode_steps=)."
        )
