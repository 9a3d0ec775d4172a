"""Adds the remaining time to observations."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.observation_wrapper import ObservationWrapper

TIME_LEFT = "time_left"  # key in a dict


class TimeLeft(ObservationWrapper):
    """Adds the share of the horizon that is left: 1 at the reset, 0 at the horizon's last step.

    A vector of floats gets it as its last entry, a dict as the float32 [1] `time_left`. The last
    step of the horizon has discount 0: an agent that sees the time learns values up to the limit,
    and no episode goes on from where no time is left (Pardo et al. 2018, Time Limits in
    Reinforcement Learning, section 3).
    """

    def __init__(self, environment: py_environment.PyEnvironment, horizon: int):
        """Wraps and owns `environment`.

        Args:
          environment: Its observation is a vector of floats or a dict.
          horizon: Env steps after which an episode is cut.

        Raises:
          ConfigError: If its observation is neither, or has the key `time_left`.
        """
        super().__init__(environment)
        self._horizon, self._num_steps = horizon, 0
        spec = self._spec
        if isinstance(spec, Mapping) and TIME_LEFT not in spec:
            share = array_spec.BoundedArraySpec([1], np.float32, 0.0, 1.0, TIME_LEFT)
            self._spec = {**spec, TIME_LEFT: share}
        elif isinstance(spec, array_spec.ArraySpec) and _is_vector(spec):
            low, high = (
                np.broadcast_to(getattr(spec, side, bound), spec.shape)
                for side, bound in (("minimum", -np.inf), ("maximum", np.inf))
            )
            self._spec = array_spec.BoundedArraySpec(
                [spec.shape[0] + 1], spec.dtype, [*low, 0.0], [*high, 1.0], spec.name
            )
        else:
            raise ConfigError(
                f"TrainParams.time_aware is True, but the observation of the environment is {spec};"
                f" expected a vector of floats, or a dict without the key {TIME_LEFT!r}."
            )

    def _step(self, action: Any) -> ts.TimeStep:
        time_step = super()._step(action)
        if self._num_steps >= self._horizon:
            time_step = time_step._replace(discount=np.float32(0.0))
        return time_step

    def _observe(self, time_step: ts.TimeStep) -> Any:
        self._num_steps = 0 if time_step.is_first() else self._num_steps + 1
        share = max(0.0, 1 - self._num_steps / self._horizon)
        observation = time_step.observation
        if isinstance(self._spec, Mapping):
            return {**observation, TIME_LEFT: np.array([share], np.float32)}
        return np.append(observation, share).astype(self._spec.dtype)


def is_used_up(observation: Any) -> Any:
    """Returns whether no time is left in observations of a `time_aware` environment: [...].

    They are arrays or tensors, with any axes before those of an observation. Code that sets
    discounts anew leaves them 0 there, because no episode goes on from there.
    """
    if isinstance(observation, Mapping):  # with a mask of actions, a vector is in one, too
        observation = observation[TIME_LEFT if TIME_LEFT in observation else "observation"]
    return observation[..., -1] <= 0


def _is_vector(spec: array_spec.ArraySpec) -> bool:
    return len(spec.shape) == 1 and np.dtype(spec.dtype).kind == "f"
