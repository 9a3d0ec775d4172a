"""Adapts environments of gymnasium."""

import copy
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import adapter, headless, rendering


class GymnasiumEnvironment(adapter.EnvironmentAdapter):
    """Adapts `reset(seed=) -> (observation, info)` and the five results of gymnasium's `step`.

    A step that is both terminated and truncated is a termination: discount 0.
    """

    def __init__(self, env: Any, seed: int | None = None):
        """Wraps `env`; see the base class."""
        super().__init__(env, seed)
        self._takes_seed = adapter.reset_takes_seed(env)

    def seed(self, seed: int) -> int:
        """Passes the seed, >= 0, to the next reset; later resets continue from it. Returns it."""
        self._reset_seed = int(seed)
        return self._reset_seed

    def set_camera(self, camera: str) -> None:
        """Selects the camera of `render`: in MuJoCo, the id or name of a camera of the model.

        -1 is the free camera. The constructor's arguments `camera_id` and `camera_name`, in
        `gym_kwargs`, do the same.

        Raises:
          ConfigError: If there is no such camera, or no choice of cameras.
        """
        renderer = getattr(adapter.innermost(self._env), "mujoco_renderer", None)
        if renderer is None:
            return super().set_camera(camera)
        model = renderer.model
        names = [model.camera(number).name for number in range(model.ncam)]
        renderer.camera_id = adapter.mujoco_camera(camera, names, self._owner)

    def render(self, mode: str = "rgb_array") -> NDArray[np.uint8] | None:
        """Returns a frame [H, W, 3] uint8 for "rgb_array"; shows a window for "human".

        gymnasium fixes the mode when the environment is made: `load` chooses "rgb_array", which
        costs nothing until a frame is requested. Needs a reset before.

        Raises:
          ConfigError: If the environment was made with another mode or returns no frame.
        """
        adapter.check_can_draw(self._env, self._owner)
        made_with = getattr(self._env, "render_mode", mode)  # a user's class may not have it
        if mode != made_with:
            raise ConfigError(
                f"{self._owner} was made with render_mode={made_with!r} and cannot render {mode!r}."
                f" Make it with render_mode={mode!r}, and list it in metadata['render_modes']."
            )
        if "mujoco" in sys.modules:  # gymnasium chooses a renderer when it first draws
            headless.choose_renderer()
            headless.check_can_render(self._owner)
        frame = self._env.render()
        return rendering.as_frame(frame, self._owner) if mode == "rgb_array" else None

    def first_info(self) -> dict[str, Any]:
        """Resets, and returns the info; the next reset begins the same episode."""
        seed = self._reset_seed
        self.reset()
        self._reset_seed = seed
        return self._info

    def _reset(self) -> ts.TimeStep:
        seed, self._reset_seed = self._reset_seed, None
        result = self._env.reset(seed=seed) if self._takes_seed else self._env.reset()
        observation, self._info = self._reset_results(result)
        return self._first(observation)

    def _reset_results(self, result: Any) -> tuple[Any, Any]:
        """Returns observation and info."""
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ConfigError(
                f"{self._owner}.reset returned a {type(result).__name__}; gymnasium's returns "
                "(observation, info). For gym's, use gym_adapter.GymEnvironment."
            )
        return result

    def _step(self, action: types.NestedArray) -> ts.TimeStep:
        result = self._env.step(self._cast_action(action))
        try:
            observation, reward, terminated, truncated, self._info = result
        except (TypeError, ValueError):
            raise self._wrong_step(result) from None
        if terminated or truncated:
            return self._last(observation, reward, terminated)
        return self._mid(observation, reward)

    def _wrong_step(self, result: Any) -> ConfigError:
        return adapter.wrong_step_error(
            self._owner, result, "(observation, reward, terminated, truncated, info), as "
            "gymnasium's step returns; for gym's four values, use gym_adapter.GymEnvironment",
        )  # fmt: skip


def load(
    name: str,
    seed: int | None = None,
    gym_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    render_mode: str | None = "rgb_array",
) -> GymnasiumEnvironment:
    """Returns the registered gymnasium environment as a PyEnvironment.

    Args:
      name: Registered id, for example "Pendulum-v1", or "package:Id-v0".
      seed: Seed of the environment's random numbers, >= 0; None draws one from the system.
      gym_kwargs: Keyword arguments of the environment's constructor.
      max_episode_steps: Time limit in env steps; None keeps the registered one.
      render_mode: "rgb_array" for films (passed on only if the environment supports it); "human"
        for a window; None for neither.

    Raises:
      ConfigError: If the id is unknown, the constructor rejects `gym_kwargs`, a package it needs is
        missing, or a space is not supported.
    """
    env = make(name, gym_kwargs, max_episode_steps, render_mode)
    return GymnasiumEnvironment(env, seed=seed)


def make(
    name: str,
    gym_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    render_mode: str | None = "rgb_array",
) -> Any:
    """Returns the gymnasium environment itself, for wrappers of gymnasium; see `load`."""
    import gymnasium  # here, because most programs start faster without it

    adapter.check_max_episode_steps(max_episode_steps)
    kwargs = dict(gym_kwargs or {})
    try:
        spec = copy.copy(_find_spec(gymnasium, name))  # the registered spec must not change
        spec.order_enforce = False  # PyEnvironment resets by itself before the first step
        if render_mode == "human" or (render_mode and _renders_arrays(_creator(gymnasium, spec))):
            kwargs.setdefault("render_mode", render_mode)
        # The checker checks each step; `spaces.check_observation` checks once per episode.
        return gymnasium.make(
            spec,
            max_episode_steps=None if max_episode_steps is None else int(max_episode_steps),
            disable_env_checker=True,
            **kwargs,
        )
    except (TypeError, ImportError, gymnasium.error.Error) as error:
        raise ConfigError(f"Cannot make {name} with gym_kwargs={kwargs}: {error}") from error


def _find_spec(gymnasium: Any, name: str) -> Any:
    """Returns the registered spec of `name`; imports the package of a "package:Id-v0" name."""
    package, _, registered = name.rpartition(":")
    if package:
        importlib.import_module(package)
    try:
        return gymnasium.spec(registered)
    except gymnasium.error.Error as error:
        raise adapter.unknown_id_error(name, gymnasium.registry, "gymnasium") from error


def _creator(gymnasium: Any, spec: Any) -> Callable[..., Any]:
    """Returns the class or function that makes the environment."""
    if callable(spec.entry_point):
        return spec.entry_point
    return gymnasium.envs.registration.load_env_creator(spec.entry_point)


def _renders_arrays(creator: Callable[..., Any]) -> bool:
    """Returns whether the creator takes render_mode="rgb_array"; functions declare no modes."""
    parameters = inspect.signature(creator).parameters
    metadata = getattr(creator, "metadata", None)
    if metadata is None:
        return "render_mode" in parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return "rgb_array" in metadata.get("render_modes", ()) and (
        "render_mode" in parameters or takes_any
    )
