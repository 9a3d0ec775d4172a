"""Separates the environment's arrays from ours, and stops values that are not finite."""

import numbers
from math import isfinite
from typing import Any, Protocol

import numpy as np
import tree
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError

_FLOAT32 = np.dtype(np.float32)


class Environment(Protocol):
    """What is needed of a PyEnvironment."""

    def reset(self) -> ts.TimeStep:
        """Begins an episode."""

    def step(self, action: Any) -> ts.TimeStep:
        """Takes one env step."""


class NotFiniteError(ConfigError):
    """An observation or action has NaN or infinity, or what should be a number is none.

    The message says which, and when.
    """


def reset(environment: Environment) -> ts.TimeStep:
    """Begins an episode; returns arrays that the environment does not hold."""
    return _received(environment.reset())


def step(environment: Environment, action: Any) -> ts.TimeStep:
    """Takes one env step; neither side holds arrays of the other.

    An environment may write into the action that it gets, and return one buffer at each step.
    """
    return _received(environment.step(own(action)))


def own(nest: Any) -> Any:
    """Returns a nest of arrays with copies of them, which nobody else writes into."""
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
    return np.array(nest)  # of another library


def check_finite(nest: Any, name: str, env_step: int) -> None:
    """Refuses floats that no policy and no robot should get; 0.3 us for a vector.

    Args:
      nest: An observation or an action.
      name: "observation" or "action".
      env_step: Of the episode, for the message.

    Raises:
      NotFiniteError: If there is NaN or infinity; names the leaf.
    """
    if type(nest) is np.ndarray and nest.dtype is _FLOAT32 and nest.ndim == 1:  # most are
        if isfinite(nest.dot(nest)):
            return
    if _is_finite(nest):
        return
    for path, leaf in tree.flatten_with_path(nest):
        if not _is_finite(np.asarray(leaf)):
            leaf_name = "/".join(map(str, (name, *path)))
            raise NotFiniteError(
                f"{leaf_name} is not finite at env step {env_step} of the episode."
            )


def _received(time_step: ts.TimeStep) -> ts.TimeStep:
    try:
        return ts.TimeStep(
            time_step.step_type, time_step.reward, time_step.discount, own(time_step.observation)
        )
    except AttributeError:
        raise ConfigError(
            f"The environment returned a {type(time_step).__name__}; allowed is a TimeStep, such "
            "as ts.restart(observation)."
        ) from None


def _is_finite(nest: Any) -> bool:
    """A sum is finite if all terms are, unless it overflows: cheap, and rarely inconclusive."""
    if type(nest) is np.ndarray:
        if nest.dtype.kind != "f":
            return True
        flat = nest if nest.ndim == 1 else nest.ravel()
        return isfinite(flat.dot(flat)) or bool(np.isfinite(flat).all())
    if type(nest) is dict:
        return all(map(_is_finite, nest.values()))
    return all(_is_finite(np.asarray(leaf)) for leaf in tree.flatten(nest))
