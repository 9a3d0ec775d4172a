"""Distinguishes time limits from terminations where the environment does not."""

import collections
from typing import Any

import gym
import numpy as np
from tf_agents.environments import gym_wrapper, py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.environments.adapter import innermost
from tfagents_system.environments.gym_adapter import check_time_limits
from tfagents_system.environments.layers import py_layers

_LAST = int(ts.StepType.LAST)


def keep_discount_at_time_limits(environment: py_environment.PyEnvironment) -> None:
    """Corrects the last discount of an environment from a TF-Agents suite, in place.

    `suite_gym`, `suite_pybullet` and `suite_mujoco` wrap a gym environment in a GymWrapper, which
    treats every `done` as a termination, even one of gym's own TimeLimit. This makes the
    GymWrapper read `info["TimeLimit.truncated"]` at last steps. Other environments stay unchanged:
    adapters of this package and `suite_dm_control` report time limits themselves.

    Raises:
      ConfigError: If two of gym's TimeLimits end the episode at the same step.
    """
    for layer in py_layers(environment):
        if isinstance(layer, gym_wrapper.GymWrapper):
            if isinstance(layer.gym, gym.Env):
                check_time_limits(layer.gym, type(innermost(layer.gym)).__name__)
            _read_truncation(layer)


def _read_truncation(wrapper: gym_wrapper.GymWrapper) -> None:
    """Replaces `wrapper._step`, because another wrapper would hide the object of `env_ctor`."""
    step = wrapper._step
    continues = np.asarray(wrapper._discount, np.float32)  # as in all other steps

    def step_and_read_truncation(action: Any) -> ts.TimeStep:
        time_step = step(action)
        if time_step.step_type == _LAST:
            info = wrapper.get_info()
            if isinstance(info, dict) and info.get("TimeLimit.truncated", False):
                return time_step._replace(discount=continues)
        return time_step

    wrapper._step = step_and_read_truncation


class EpisodeEnds:
    """Detects a time limit that an environment reports as a termination.

        ends.note(length, is_terminal)   # after each complete episode
        ends.suspicion                   # None, or a sentence for the user

    True terminations come at various steps. At least 10 episodes of the same length, all with
    discount 0, are suspicious if no episode had another length or this length is the horizon. The
    first counterexample ends the suspicion. Episodes of one step (a bandit's) are not suspicious.
    """

    MIN_EPISODES = 10  # of two equally likely lengths, all are equal in 1 of 1,000 cases

    def __init__(self, horizon: int, ends_there: bool = False):
        """Episodes are cut after `horizon` env steps; if `ends_there`, they rightly end there."""
        self._horizon, self._ends_there = horizon, ends_there
        self._num_ends: collections.Counter[tuple[int, bool]] = collections.Counter()

    def note(self, length: int, is_terminal: bool) -> None:
        """Counts a complete episode of `length` env steps; terminal means a last discount of 0."""
        self._num_ends[length, is_terminal] += 1

    @property
    def suspicion(self) -> str | None:
        """The suspicion as a sentence; None if there is none."""
        lengths = {length for length, _ in self._num_ends}
        length = lengths.pop() if len(lengths) == 1 else self._horizon
        if length == self._horizon and self._ends_there:
            return None
        num_terminal = self._num_ends[length, True]
        if length == 1 or num_terminal < self.MIN_EPISODES or self._num_ends[length, False]:
            return None
        what = "the horizon" if length == self._horizon else "always the same length"
        return (
            f"{num_terminal} episodes ended after {length} steps ({what}) with discount 0, and "
            "none with discount 1; if that is a time limit, its last step must have discount 1, "
            "or the critics learn values that are too low"
        )
