"""Separates the environment's arrays from ours, and stops values that are not finite."""

import numbers
from math import isfinite
from typing import Any, Protocol

import numpy as np
import tree
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import leaf_name

_FLOAT32 = np.dtype(np.float32)


class Environment(Protocol):
    """The part of a PyEnvironment that is needed here."""

    def reset(self) -> ts.TimeStep:
        """Begins an episode."""

    def step(self, action: Any) -> ts.TimeStep:
        """Takes one env step."""


class InvalidArrayError(ConfigError):
    """An observation or action has NaN, infinity or a wrong shape, or a number is missing.

    The message tells which, and when.
    """

    kept_nothing = False  # True if this start of the program has kept no env step


def reset(environment: Environment) -> ts.TimeStep:
    """Begins an episode; returns arrays that the environment does not share."""
    return _received(environment.reset())


def step(environment: Environment, action: Any) -> ts.TimeStep:
    """Takes one env step; the two sides share no arrays.

    An environment may write into the action that it gets, and return the same buffer at each step.
    """
    return _received(environment.step(own(action)))


def own(nest: Any) -> Any:
    """Returns a copy of a nest of arrays, which only the caller writes to."""
    if type(nest) is np.ndarray:
        return nest.copy()
    if isinstance(nest, (np.generic, numbers.Number)):
        return nest
    if type(nest) is dict:
        return {key: own(part) for key, part in nest.items()}
    if type(nest) is tuple:
        return tuple(map(own, nest))
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):  # such as a Trajectory
        return type(nest)(*map(own, nest))
    if tree.is_nested(nest):
        return tree.map_structure(own, nest)
    return np.array(nest)  # an array of another library


def check_finite(nest: Any, name: str, env_step: int) -> None:
    """Rejects floats that no policy or robot should get; takes 0.3 us for a vector.

    Args:
      nest: An observation or an action.
      name: "observation" or "action".
      env_step: In the episode, for the message.

    Raises:
      InvalidArrayError: If there is NaN or infinity; the message names the leaf.
    """
    if type(nest) is np.ndarray and nest.dtype is _FLOAT32 and nest.ndim == 1:  # most are
        if isfinite(nest.dot(nest)):
            return
    if is_finite(nest):
        return
    for path, leaf in tree.flatten_with_path(nest):
        if not is_finite(np.asarray(leaf)):
            raise InvalidArrayError(
                f"{leaf_name(name, *path)} is not finite at env step {env_step} of the episode."
            )


def check_shapes(observation: Any, first: Any, env_step: int) -> None:
    """Compares the shapes of an observation with those of the first one of its episode.

    Raises:
      InvalidArrayError: If one differs; the message names the leaf.
    """
    now = {path: np.shape(leaf) for path, leaf in tree.flatten_with_path(observation)}
    for path, leaf in tree.flatten_with_path(first):
        if now.get(path) != np.shape(leaf):
            name = leaf_name("observation", *path)
            found = f"has shape {list(now[path])}" if path in now else "is missing"
            raise InvalidArrayError(
                f"{name} {found} at env step {env_step} of the episode; at its reset it had "
                f"{list(np.shape(leaf))}."
            )


def _received(time_step: ts.TimeStep) -> ts.TimeStep:
    try:
        return ts.TimeStep(
            time_step.step_type, time_step.reward, time_step.discount, own(time_step.observation)
        )
    except AttributeError:
        raise ConfigError(
            f"The environment returned a {type(time_step).__name__}; expected a TimeStep, such "
            "as ts.restart(observation)."
        ) from None


def is_finite(nest: Any) -> bool:
    """Returns whether all numbers are finite: by their sum, which is cheap and rarely overflows."""
    if type(nest) is np.ndarray:
        if nest.dtype.kind != "f":
            return True
        flat = nest if nest.ndim == 1 else nest.ravel()
        return isfinite(flat.dot(flat)) or bool(np.isfinite(flat).all())
    if type(nest) is dict:
        return all(map(is_finite, nest.values()))
    return all(is_finite(np.asarray(leaf)) for leaf in tree.flatten(nest))
