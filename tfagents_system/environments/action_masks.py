"""Adds action masks to observations, and checks them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.action_masks import ACTION_MASK, Choices, has_mask
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import GUEST
from tfagents_system.environments.adapter import layers
from tfagents_system.environments.gymnasium_adapter import GymnasiumEnvironment
from tfagents_system.environments.layers import py_layers
from tfagents_system.environments.observation_wrapper import ObservationWrapper

_Read = Callable[[], Any]


class ActionMasks(ObservationWrapper):
    """Adds the leaf `action_mask` to observations: float32 [N], 1 for each integer that is allowed.

    An observation that is not a dict becomes {"observation": ..., "action_mask": ...}. At the last
    step of an episode, where no action follows, an empty or missing mask becomes one of ones.
    """

    def __init__(
        self, environment: py_environment.PyEnvironment, choices: Choices, read: _Read | None
    ):
        """Wraps and owns `environment`; `read` returns the mask, None if observations have it."""
        super().__init__(environment)
        self._choices, self._read = choices, read
        self._env_step = 0
        self._spec = with_mask(self._spec, mask_spec(choices))

    def _observe(self, time_step: ts.TimeStep) -> dict[str, Any]:
        self._env_step = 0 if time_step.is_first() else self._env_step + 1
        given = self._read() if self._read else time_step.observation[ACTION_MASK]
        if given is None and time_step.is_last():  # nothing acts any more
            given = np.zeros(self._choices.num_integers)
        where = f"at env step {self._env_step} of the episode"
        mask = checked_mask(given, self._choices, bool(time_step.is_last()), where)
        return with_mask(time_step.observation, mask)


def checked_mask(given: Any, choices: Choices, is_last: bool, where: str) -> NDArray[np.float32]:
    """Returns a mask as float32 [N].

    Args:
      given: An array, or one for each choice.
      choices: The discrete choices of the action.
      is_last: Whether it belongs to an episode's last time step, where an empty mask becomes ones.
      where: When, for the message.

    Raises:
      ConfigError: If it is not a mask of the action, or allows nothing.
    """
    parts = given if isinstance(given, (tuple, list)) else [given]
    try:
        mask = np.concatenate([np.ravel(part) for part in parts])
    except ValueError:
        mask = np.zeros(0)
    if mask.shape != (choices.num_integers,) or not np.isin(mask, (0, 1)).all():
        raise ConfigError(
            f"The action mask is {given!r} {where}; expected {choices.num_integers} numbers, 1 "
            "for each integer that the action may have, otherwise 0."
        )
    mask = mask.astype(np.float32)
    if empty := choices.without_choice(mask):
        if is_last:
            return np.ones_like(mask)
        which = f" for its entry {empty[0]}" if len(choices.sizes) > 1 else ""
        raise ConfigError(f"The action mask allows no action{which} {where}.")
    return mask


def mask_spec(choices: Choices) -> array_spec.BoundedArraySpec:
    """Returns the spec of a mask."""
    return array_spec.BoundedArraySpec([choices.num_integers], np.float32, 0.0, 1.0, ACTION_MASK)


def with_action_masks(environment: py_environment.PyEnvironment) -> py_environment.PyEnvironment:
    """Returns the environment, wrapped in ActionMasks if it has masks.

    They come from the key `action_mask` of the observation, from a method `action_masks`, as
    sb3-contrib has it, or from `info["action_mask"]` of gymnasium, for which it is reset once.
    """
    choices = Choices(tree.flatten(environment.action_spec()))
    if not choices.sizes:
        return environment
    if has_mask(environment.observation_spec()):
        return ActionMasks(environment, choices, None)
    for layer in _all_layers(environment):
        if callable(method := getattr(type(layer), "action_masks", None)):
            return ActionMasks(environment, choices, method.__get__(layer))
    for layer in py_layers(environment):
        if isinstance(layer, GymnasiumEnvironment):
            with GUEST.visit(f"reset of {type(layer.gym.unwrapped).__name__}"):
                info = layer.first_info()
            if ACTION_MASK in info:
                return ActionMasks(environment, choices, lambda: _mask_of(environment.get_info()))
    return environment


def _mask_of(info: Any) -> Any:
    return info.get(ACTION_MASK) if isinstance(info, Mapping) else None


def _all_layers(environment: Any) -> list[Any]:
    found = list(py_layers(environment))
    gym = getattr(found[-1], "gym", None)
    return found + (list(layers(gym)) if gym is not None else [])


def with_mask(observation: Any, mask: Any) -> dict[str, Any]:
    """Returns an observation, or its spec, with its mask, as a dict even if it was not one."""
    parts = observation if isinstance(observation, Mapping) else {"observation": observation}
    return {**parts, ACTION_MASK: mask}
