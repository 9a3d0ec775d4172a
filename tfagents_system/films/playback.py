"""Chooses a film's playback rate: real time if the environment tells its time step."""

import numbers
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeGuard

from tf_agents.environments import wrappers

from tfagents_system.environments.layers import py_layers

DEFAULT_RATE = 30.0  # frames per second
_MAX_RATE = 60.0  # browsers and screens show no more
_STEP_SECS_RANGE = (1e-3, 1.0)  # a `dt` outside this range means something else
_STEP_SECS = (
    lambda env: env.dt,  # gymnasium's MuJoCo, Pendulum, our dm_control, most users' environments
    lambda env: env.scene.dt,  # the walkers of pybullet_envs, after a reset
    lambda env: env._time_step * env._action_repeat,  # the Minitaur of pybullet_envs
)


class Playback(NamedTuple):
    """The env steps to film, and their speed."""

    frames_per_sec: Fraction
    steps_per_frame: int


def playback_of(environment: Any) -> Playback:
    """Returns the playback of a PyEnvironment that has been reset.

    The rate of simulator steps is 1 / dt, else the frame rate of the environment's metadata, else
    30 per second; an env step has as many of them as actions are repeated. Above 60 env steps per
    second only every n-th is filmed, near 30 per second.
    """
    innermost = innermost_of(environment)
    rate = (
        _steps_per_sec(innermost)
        or _steps_per_sec(environment)
        or _metadata_rate(innermost)
        or DEFAULT_RATE
    )
    for layer in py_layers(environment):
        if isinstance(layer, wrappers.ActionRepeat):
            rate /= layer._times
    steps_per_frame = round(rate / DEFAULT_RATE) if rate > _MAX_RATE else 1
    return Playback(Fraction(rate / steps_per_frame).limit_denominator(1000), steps_per_frame)


def innermost_of(environment: Any) -> Any:
    """Returns the innermost environment, inside a PyEnvironment and all wrappers."""
    environment = getattr(environment, "gym", environment)  # adapter, suite_gym
    return getattr(environment, "unwrapped", environment)


def _steps_per_sec(env: Any) -> float | None:
    for read in _STEP_SECS:
        try:
            step_secs = read(env)
        except (AttributeError, TypeError):
            continue
        lowest, highest = _STEP_SECS_RANGE
        if _is_real(step_secs) and lowest <= step_secs <= highest:
            return 1.0 / float(step_secs)
    return None


def _is_real(value: Any) -> TypeGuard[float]:
    return isinstance(value, numbers.Real)


def _metadata_rate(env: Any) -> float | None:
    metadata = getattr(env, "metadata", None)
    if not isinstance(metadata, Mapping):
        return None
    for key in ("render_fps", "video.frames_per_second"):
        rate = metadata.get(key)
        if _is_real(rate) and rate >= 1:
            return float(rate)
    return None
