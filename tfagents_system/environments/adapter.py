"""The base class of all adapters: fast time steps, forwarding, error messages."""

import abc
import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import spaces

_FIRST, _MID, _LAST = ts.StepType.FIRST, ts.StepType.MID, ts.StepType.LAST
_NO_REWARD = np.float32(0.0)
_CONTINUES = np.array(1.0, np.float32)
_ENDS = np.array(0.0, np.float32)
for _shared in (_CONTINUES, _ENDS):
    _shared.setflags(write=False)  # shared by all time steps


class EnvironmentAdapter(py_environment.PyEnvironment, abc.ABC):
    """Adapts one unbatched gym-like environment to PyEnvironment.

    `step_type` is int32 [], `reward` and `discount` are float32 []. `discount` is 0 only if the
    environment terminated, even at the last step of the time limit; at a time limit it is 1. A
    `step` after the last one ignores the action and resets.

    Owns the wrapped environment: `close` closes it.
    """

    def __init__(self, env: Any, seed: int | None = None):
        """Wraps `env`; does not reset it.

        Args:
          env: The environment, with all its wrappers.
          seed: Seed of the environment's random numbers, >= 0; None draws one from the system.

        Raises:
          ConfigError: If a space has no spec, or the action space is unbounded.
        """
        super().__init__(handle_auto_reset=True)
        self._env = env
        self._owner = type(innermost(env)).__name__
        check_has(env, self._owner, ("reset", "step", "observation_space", "action_space"))
        self._observation_spec = spaces.observation_spec(env.observation_space, self._owner)
        self._action_spec = spaces.action_spec(env.action_space, self._owner)
        self._cast_observation = spaces.observation_cast(self._observation_spec)
        self._cast_action = spaces.action_cast(self._action_spec, self._owner)
        self._info: dict[str, Any] = {}
        self._reset_seed: int | None = None  # for the next reset only
        self._is_closed = False
        if seed is not None:
            self.seed(seed)

    @property
    def owner(self) -> str:
        """Class name of the environment inside all wrappers, for messages."""
        return self._owner

    @property
    def gym(self) -> Any:
        """The wrapped environment, with its wrappers."""
        return self._env

    def observation_spec(self) -> types.NestedArraySpec:
        """Returns the spec of observations; see `spaces.observation_spec`."""
        return self._observation_spec

    def action_spec(self) -> types.NestedArraySpec:
        """Returns the spec of actions; see `spaces.action_spec`."""
        return self._action_spec

    def should_reset(self, current_time_step: ts.TimeStep) -> bool:
        """Returns whether the episode is over; compares identities, which saves 5 us per step."""
        return current_time_step.step_type is _LAST

    def get_info(self) -> dict[str, Any]:
        """Returns the info of the last step (in gymnasium also of a reset), otherwise {}."""
        return self._info

    def get_state(self) -> Any:
        """Returns the result of the environment's own `get_state`.

        Raises:
          ConfigError: If the environment has no `get_state`.
        """
        return self._method("get_state", "get_state(self) -> dict")()

    def set_state(self, state: Any) -> None:
        """Passes `state` to the environment's own `set_state`; a curriculum calls this.

        Raises:
          ConfigError: If it has no `set_state` that takes exactly one argument.
        """
        method = self._method("set_state", "set_state(self, state: dict)")
        try:
            inspect.signature(method).bind(state)
        except TypeError as error:
            raise ConfigError(
                f"{self._owner}.set_state{inspect.signature(method)} cannot be called with one "
                "dict; the curriculum needs set_state(self, state: dict)."
            ) from error
        method(state)

    def close(self) -> None:
        """Closes the wrapped environment; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            if callable(close := getattr(self._env, "close", None)):
                close()

    def set_camera(self, camera: str) -> None:
        """Selects the camera of `render` by the environment's own `set_camera`.

        Raises:
          ConfigError: If it has no `set_camera`, or there is no such camera.
        """
        for layer in self._layers():
            if callable(set_camera := getattr(layer, "set_camera", None)):
                return set_camera(camera)
        raise no_cameras_error(self._owner, camera)

    @abc.abstractmethod
    def seed(self, seed: int) -> int:
        """Seeds the environment from the next reset on. Returns the seed."""

    @abc.abstractmethod
    def render(self, mode: str = "rgb_array") -> NDArray[np.uint8] | None:
        """Returns a frame [H, W, 3] uint8 for "rgb_array"; shows a window for "human"."""

    def _first(self, observation: Any) -> ts.TimeStep:
        """Returns the first time step of an episode; checks its observation."""
        spaces.check_observation(
            observation, self._env.observation_space, self._observation_spec, self._owner
        )
        return ts.TimeStep(_FIRST, _NO_REWARD, _CONTINUES, self._cast_observation(observation))

    def _mid(self, observation: Any, reward: Any) -> ts.TimeStep:
        return ts.TimeStep(_MID, as_reward(reward), _CONTINUES, self._cast_observation(observation))

    def _last(self, observation: Any, reward: Any, is_terminal: bool) -> ts.TimeStep:
        discount = _ENDS if is_terminal else _CONTINUES
        return ts.TimeStep(_LAST, as_reward(reward), discount, self._cast_observation(observation))

    def _layers(self) -> Iterable[Any]:
        """Yields the layers that may have the user's methods, from the outermost inwards."""
        return layers(self._env)

    def _method(self, name: str, signature: str) -> Callable[..., Any]:
        """Returns the method `name` of the outermost layer that has one."""
        for layer in self._layers():
            method = getattr(layer, name, None)
            if callable(method):
                return method
        raise ConfigError(
            f"{self._owner} has no {name}: the curriculum needs {signature} in that class."
        )


def as_reward(reward: Any) -> np.float32:
    """Returns the reward as a float32 scalar.

    Raises:
      ValueError: If it is not a number, or is an array of more than one element.
    """
    if reward is None or isinstance(reward, str):  # NumPy would take these for NaN or a number
        raise _no_reward_error(reward)
    try:
        scalar: Any = np.float32(reward)  # an array, if it is one
    except (TypeError, ValueError):
        raise _no_reward_error(reward) from None
    if not scalar.shape:
        return scalar
    if scalar.size != 1:
        raise ValueError(
            f"the reward is an array of shape {list(scalar.shape)}; expected one number. Add its "
            "parts up in the environment or a wrapper, such as LinearReward of mo_gymnasium."
        )
    return np.float32(scalar.item())


def _no_reward_error(reward: Any) -> ValueError:
    return ValueError(f"the reward is a {type(reward).__name__}; expected one number.")


def wrong_step_error(owner: str, result: Any, allowed: str) -> ConfigError:
    """Returns the error for a `step` whose result is not `allowed`, a tuple in parentheses."""
    found = f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
    return ConfigError(f"{owner}.step returned {found}; expected {allowed}.")


def no_cameras_error(owner: str, camera: str) -> ConfigError:
    """Returns the error for an environment without a choice of cameras."""
    return ConfigError(
        f"{owner} has no choice of cameras (asked for: {camera!r}). MuJoCo environments of "
        "dm_control and gymnasium have, those of PyBullet, and your own with a method "
        "set_camera(self, camera: str)."
    )


def mujoco_camera(camera: str, names: Sequence[str], owner: str) -> int:
    """Returns the id of a camera of a MuJoCo model; -1 is the free one.

    Args:
      camera: Name or id.
      names: Names of the model's cameras, by id; may be empty.
      owner: Name of the environment, for the message.

    Raises:
      ConfigError: If there is no such camera.
    """
    if camera and camera in names:
        return names.index(camera)
    known = {str(number): number for number in range(-1, len(names))}
    if camera in known:
        return known[camera]
    there_are = [f"{number} ({name})" if name else str(number) for number, name in enumerate(names)]
    raise ConfigError(
        f"{owner} has no camera {camera!r}. There are: {', '.join(['-1 (free)', *there_are])}."
    )


def layers(env: Any) -> Iterator[Any]:
    """Yields the environment from its outermost wrapper to the innermost environment."""
    last = innermost(env)
    while env is not last and env is not None:
        yield env
        env = getattr(env, "env", None)
    yield last


def innermost(env: Any) -> Any:
    """Returns the environment inside all wrappers, even if its class inherits from no library."""
    found = getattr(env, "unwrapped", None)
    if found is not None:
        return found
    inner = getattr(env, "env", None)
    return innermost(inner) if _is_environment(inner) else env


def _is_environment(env: Any) -> bool:
    return all(callable(getattr(env, name, None)) for name in ("reset", "step"))


def check_has(env: Any, owner: str, names: Sequence[str]) -> None:
    """Raises ConfigError if an environment lacks a necessary attribute."""
    missing = [name for name in names if getattr(env, name, None) is None]
    if missing:
        raise ConfigError(
            f"{owner} has no {' and no '.join(missing)}; an environment needs {', '.join(names)}, "
            "set before env_ctor returns it."
        )


def check_can_draw(env: Any, owner: str) -> None:
    """Raises ConfigError if an environment has no method `render`."""
    if not callable(getattr(env, "render", None)):
        raise ConfigError(f"{owner} has no method render, which films and windows need.")


def reset_takes_seed(env: Any) -> bool:
    """Returns whether every layer's `reset` accepts the argument `seed`."""
    for layer in layers(env):
        try:
            parameters = inspect.signature(layer.reset).parameters
        except (TypeError, ValueError):  # written in C
            return False
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        if "seed" not in parameters and not takes_any:
            return False
    return True


def check_max_episode_steps(max_episode_steps: int | None) -> None:
    """Raises ConfigError unless it is None or a positive int."""
    if max_episode_steps is None:
        return
    if not isinstance(max_episode_steps, (int, np.integer)) or max_episode_steps < 1:
        raise ConfigError(
            f"max_episode_steps={max_episode_steps!r} must be a positive whole number of env "
            "steps, or None for the registered limit."
        )


def unknown_id_error(name: str, registered: Iterable[str], library: str) -> ConfigError:
    """Returns the error for an unregistered environment id, with the nearest ids."""
    ids = sorted(registered)
    nearest = difflib.get_close_matches(name, ids, n=3, cutoff=0.5)
    hint = f"Nearest registered: {', '.join(nearest)}." if nearest else "No similar id either."
    return ConfigError(
        f"{library} has no environment {name!r} among its {len(ids)} registered ids. {hint} "
        "An id that a package registers when imported can be given as 'package:Id-v0'."
    )
