"""Provides wrappers that hide part of the observation, or add inputs that a memory needs.

    environment = gym_adapter.load("Pendulum-v1", seed=seed)
    environment = LastAction(KeepObservations(environment, [2]))  # velocity, last torque

They wrap any PyEnvironment, in `TrainParams.env_ctor`. Rewards, discounts, rendering, seeds, info
and the curriculum's `set_state` pass through.
"""

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.action_masks import ACTION_MASK, has_mask
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.environments.info_keys import ACTION
from tfagents_system.environments.observation_wrapper import ObservationWrapper
from tfagents_system.environments.own_arrays import own


class KeepObservations(ObservationWrapper):
    """Keeps only the named parts of the observation, in the given order.

    Parts are entries of a vector, or values of a dict. A dict with one value left becomes that
    value itself. An action mask is kept, too.
    """

    def __init__(self, environment: py_environment.PyEnvironment, parts: Sequence[int | str]):
        """Wraps `environment` and owns it.

        Args:
          environment: Its observation is a vector or a dict.
          parts: Indices of a vector, from 0, or keys of a dict; each once.

        Raises:
          ConfigError: If a part does not exist or is named twice, none is named, or the observation
            is neither a vector nor a dict.
        """
        super().__init__(environment)
        self._parts = _checked_parts(self._spec, parts, type(self).__name__)
        if self._parts == [ACTION_MASK]:
            raise ConfigError(
                f"{type(self).__name__}: of the observation only {ACTION_MASK!r} is left, which is "
                "no input of the policy; expected one more part."
            )
        if has_mask(self._spec) and ACTION_MASK not in self._parts:
            self._parts.append(ACTION_MASK)
        if isinstance(self._spec, Mapping):
            self._spec = self._picked(self._spec)
        else:
            low, high = _bounds(self._spec)
            self._spec = _vector_spec(low[self._parts], high[self._parts], self._spec.dtype)

    def _observe(self, time_step: ts.TimeStep) -> Any:
        return self._picked(time_step.observation)

    def _picked(self, observation: Any) -> Any:
        if not isinstance(observation, Mapping):
            return observation[self._parts]
        if len(self._parts) == 1:
            return observation[self._parts[0]]
        return {key: observation[key] for key in self._parts}


class DropObservations(KeepObservations):
    """Drops the named parts of the observation, but no action mask; see `KeepObservations`."""

    def __init__(self, environment: py_environment.PyEnvironment, parts: Sequence[int | str]):
        """Takes the arguments of `KeepObservations`; the remaining parts keep their order."""
        spec = environment.observation_spec()
        dropped = _checked_parts(spec, parts, type(self).__name__)
        if ACTION_MASK in dropped:
            raise ConfigError(
                f"DropObservations: the parts are {dropped}, but the policy needs {ACTION_MASK!r} "
                "to choose allowed actions. Leave it out of the parts."
            )
        every = spec if isinstance(spec, Mapping) else range(spec.shape[0])
        super().__init__(environment, [part for part in every if part not in dropped])


class FirstObservationOnly(ObservationWrapper):
    """Shows some entries only in the first observation of an episode.

    Later they are zero, so that the policy must remember them.
    """

    def __init__(self, environment: py_environment.PyEnvironment, indices: Sequence[int]):
        """Wraps `environment` and owns it.

        Args:
          environment: Its observation is a vector.
          indices: Indices of the entries, from 0.

        Raises:
          ConfigError: As `KeepObservations`, and if the observation is not a vector.
        """
        super().__init__(environment)
        _check_is_vector(self._spec, type(self).__name__)
        self._indices = _checked_parts(self._spec, indices, type(self).__name__)
        self._spec = _with_zero(self._spec)

    def _observe(self, time_step: ts.TimeStep) -> NDArray[Any]:
        observation = np.array(time_step.observation)
        if not time_step.is_first():
            observation[self._indices] = 0
        return observation


class LastAction(ObservationWrapper):
    """Appends the last action, and optionally its reward, to the observation.

    Both are in the environment's units (the action for example in N m), and zero in the first
    observation of an episode. Float32 [n + A], or [n + A + 1] with the reward last. The action is
    the one that was taken: the info's, if a person or a safety layer has replaced the policy's.
    """

    def __init__(self, environment: py_environment.PyEnvironment, with_reward: bool = False):
        """Wraps `environment` and owns it.

        Args:
          environment: Its observation and action are vectors.
          with_reward: Whether to append the reward of the last step, too.

        Raises:
          ConfigError: If observation or action is not a vector.
        """
        super().__init__(environment)
        self._with_reward = with_reward
        owner, action_spec = type(self).__name__, environment.action_spec()
        _check_is_vector(self._spec, owner)
        _check_is_vector(action_spec, owner, "action")
        self._nothing = self._action = np.zeros(action_spec.shape, np.float32)
        bounds = [_bounds(self._spec), _bounds(_with_zero(action_spec))]
        if with_reward:
            bounds.append((np.array([-np.inf]), np.array([np.inf])))
        low, high = (np.concatenate(side) for side in zip(*bounds, strict=True))
        self._spec = _vector_spec(low, high, np.float32)

    def _step(self, action: Any) -> ts.TimeStep:
        self._action = action
        return super()._step(own(action))  # the environment may write into it

    def _observe(self, time_step: ts.TimeStep) -> NDArray[Any]:
        parts = [time_step.observation, self._nothing if time_step.is_first() else self._taken()]
        if self._with_reward:
            parts.append([time_step.reward])
        return np.concatenate(parts, dtype=np.float32, casting="same_kind")

    def _taken(self) -> Any:
        """Returns the action of the newest env step: the info's, if it reports one."""
        try:
            info = self._env.get_info()
        except NotImplementedError:
            return self._action
        reported = info.get(ACTION) if isinstance(info, Mapping) else None
        if reported is None or np.shape(reported) != self._nothing.shape:
            return self._action  # a worker rejects an env step that reports another shape
        return reported


class ObservationStack(ObservationWrapper):
    """Joins the last k observation vectors, the oldest first, to one [k n].

    Vectors before the start of an episode are zero.
    """

    def __init__(self, environment: py_environment.PyEnvironment, k: int):
        """Wraps `environment` and owns it.

        Args:
          environment: Its observation is a vector.
          k: Number of observations, >= 1, including the newest.

        Raises:
          ConfigError: If k is less than 1, or the observation is not a vector.
        """
        super().__init__(environment)
        if k < 1:
            raise ConfigError(f"ObservationStack: k is {k}; expected 1 or more.")
        _check_is_vector(self._spec, type(self).__name__)
        low, high = _bounds(_with_zero(self._spec))
        self._blank = np.zeros(self._spec.shape, self._spec.dtype)
        self._spec = _vector_spec(np.tile(low, k), np.tile(high, k), self._spec.dtype)
        self._k = k
        self._observations: collections.deque[NDArray[Any]] = collections.deque(maxlen=k)

    def _observe(self, time_step: ts.TimeStep) -> NDArray[Any]:
        if time_step.is_first():
            self._observations.extend([self._blank] * self._k)
        self._observations.append(np.array(time_step.observation))
        return np.concatenate(self._observations)


class ObservationDropout(ObservationWrapper):
    """Sets observations to zero at random.

    Each is dropped independently, including the first of an episode. An action mask is kept.
    """

    def __init__(
        self, environment: py_environment.PyEnvironment, probability: float, seed: int | None = None
    ):
        """Wraps `environment` and owns it.

        Args:
          environment: Any environment.
          probability: Probability of losing an observation, in [0, 1).
          seed: Seed of the environment, >= 0; the dropout's draws differ from the environment's.
            None draws one from the system.

        Raises:
          ConfigError: If the probability is outside [0, 1).
        """
        super().__init__(environment)
        if not 0 <= probability < 1:
            raise ConfigError(
                f"ObservationDropout: probability is {probability}; expected 0 <= p < 1."
            )
        self._probability = probability
        self._random = _generator(seed)
        self._spec = tree.map_structure(_with_zero, self._spec)

    def seed(self, seed: int) -> Any:
        """Seeds the environment and, at once, the dropout. Returns the environment's result."""
        self._random = _generator(seed)
        return self._env.seed(seed)

    def _observe(self, time_step: ts.TimeStep) -> Any:
        observation = time_step.observation
        if self._random.random() >= self._probability:
            return observation
        nothing = tree.map_structure(np.zeros_like, observation)
        if has_mask(observation):  # one of zeros would allow no action
            nothing = {**nothing, ACTION_MASK: observation[ACTION_MASK]}
        return nothing


def _generator(seed: int | None) -> np.random.Generator:
    """Returns a generator with a spawned seed, because gym's environments use the seed itself."""
    return np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])


def _checked_parts(spec: Any, parts: Sequence[int | str], owner: str) -> list[Any]:
    """Returns the parts as a list; raises ConfigError unless all exist and are named once."""
    parts = list(parts)
    if isinstance(spec, Mapping):
        for key in parts:
            if key not in spec:
                hint = did_you_mean(str(key), spec)
                raise ConfigError(f"{owner}: the observation has no key {key!r}.{hint}")
    else:
        _check_is_vector(spec, owner)
        size = spec.shape[0]
        for index in parts:
            if not isinstance(index, (int, np.integer)) or not 0 <= index < size:
                raise ConfigError(
                    f"{owner}: the observation has no index {index!r}; expected 0 to {size - 1}."
                )
    if not parts or len(set(parts)) < len(parts):
        raise ConfigError(f"{owner}: the parts are {parts}; expected one or more, each once.")
    return parts


def _check_is_vector(spec: Any, owner: str, what: str = "observation") -> None:
    is_array = isinstance(spec, array_spec.ArraySpec)
    if is_array and len(spec.shape) == 1 and np.issubdtype(spec.dtype, np.floating):
        return
    found = f"{spec.dtype} {list(spec.shape)}" if is_array else f"a {type(spec).__name__}"
    raise ConfigError(f"{owner} needs an {what} that is a vector of floats; this one is {found}.")


def _bounds(spec: array_spec.ArraySpec) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns minimum and maximum of each entry."""
    low, high = getattr(spec, "minimum", -np.inf), getattr(spec, "maximum", np.inf)
    return np.broadcast_to(low, spec.shape), np.broadcast_to(high, spec.shape)


def _with_zero(spec: array_spec.ArraySpec) -> array_spec.ArraySpec:
    """Returns the spec with its bounds, if it has any, widened to include zero."""
    if not isinstance(spec, array_spec.BoundedArraySpec):
        return spec
    low, high = np.minimum(spec.minimum, 0), np.maximum(spec.maximum, 0)
    return array_spec.BoundedArraySpec(spec.shape, spec.dtype, low, high, spec.name)


def _vector_spec(low: NDArray[Any], high: NDArray[Any], dtype: Any) -> array_spec.BoundedArraySpec:
    low, high = np.array(low, dtype), np.array(high, dtype)
    return array_spec.BoundedArraySpec(low.shape, dtype, low, high, "observation")
