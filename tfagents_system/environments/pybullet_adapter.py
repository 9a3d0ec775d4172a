"""Adapts environments of pybullet_envs; needs no display.

Some of that package's environments have faults of their own: the racecars cannot render, and a Kuka
arm disconnects the physics server of the next one made in the same process.
"""

import contextlib
import ctypes
import importlib
import inspect
import math
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import gym
import numpy as np

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import gym_adapter

_MAX_FRAME_WIDTH = 480  # pixels; 960 x 720, the Minitaur's default, takes 0.25 s per frame
_CAMERA = ("_cam_yaw", "_cam_pitch", "_cam_dist")  # attribute in all of pybullet_envs
_STDOUT, _STDERR = 1, 2  # file descriptors


def load(
    name: str,
    seed: int | None = None,
    gym_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    camera: str | None = None,
) -> "PybulletEnvironment":
    """Returns an environment of pybullet_envs as a PyEnvironment.

    Args:
      name: Registered id, for example "MinitaurBulletEnv-v0".
      seed: Seed of everything that the environment draws in a reset, >= 0, also from the global
        generators of `random` and `numpy.random` (the Minitaur's masses and friction), whose state
        is restored afterwards. Noise drawn from these during a step stays unseeded. None: no seed.
      gym_kwargs: Keyword arguments of the environment's constructor; a window opens only with
        render=True (in some environments: renders=True).
      max_episode_steps: Time limit in env steps; None keeps the registered one.
      camera: See `PybulletEnvironment.set_camera`; None keeps the environment's own.

    Raises:
      ConfigError: If pybullet is not installed, and as in `gym_adapter.load` and `set_camera`.
    """
    environment = PybulletEnvironment(make(name, gym_kwargs, max_episode_steps), seed=seed)
    if camera is not None:
        environment.set_camera(camera)
    return environment


def make(
    name: str, gym_kwargs: Mapping[str, Any] | None = None, max_episode_steps: int | None = None
) -> gym.Env:
    """Returns the gym environment itself, for wrappers of gym; see `load`."""
    _import_environments()
    spec = gym_adapter.find_spec(name)
    with _held_output(_STDOUT):  # it prints folders, and the arguments of the physics server
        kwargs = {**_without_window(spec), **(gym_kwargs or {})}
        env = gym_adapter.make(name, kwargs, max_episode_steps)
    _limit_frame_size(env)
    return _PybulletWrapper(env)


class PybulletEnvironment(gym_adapter.GymEnvironment):
    """An environment of pybullet_envs, with a camera that turns around the robot."""

    def set_camera(self, camera: str) -> None:
        """Sets the view of `render`: "yaw,pitch,distance", in degrees and meters.

        Raises:
          ConfigError: If `camera` has another form, or the environment has no such choice.
        """
        env = self._env.unwrapped
        if not all(hasattr(env, name) for name in _CAMERA):
            return super().set_camera(camera)
        try:
            yaw, pitch, distance = map(float, camera.split(","))
            if not (math.isfinite(yaw) and math.isfinite(pitch) and 0 < distance < math.inf):
                raise ValueError
        except ValueError:
            own = ",".join(f"{getattr(env, name):g}" for name in _CAMERA)
            raise ConfigError(
                f"{self._owner} has no camera {camera!r}; expected yaw,pitch,distance: two "
                f"angles in degrees, and meters > 0. Its own is {own}."
            ) from None
        for name, value in zip(_CAMERA, (yaw, pitch, distance), strict=True):
            setattr(env, name, value)


class _PybulletWrapper(gym.Wrapper):
    """Seeds draws from the global generators, and silences the first reset."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self._random_states: tuple[Any, Any] | None = None  # states of `random` and `numpy.random`
        self._has_reset = False

    def seed(self, seed: int | None = None) -> Any:
        if seed is not None:
            self._random_states = (
                random.Random(seed).getstate(),
                np.random.RandomState(seed).get_state(),
            )
        return self.env.seed(seed)

    def reset(self, **kwargs: Any) -> Any:
        with self._own_randomness():
            if self._has_reset:
                return self.env.reset(**kwargs)
            self._has_reset = True
            with _held_output(_STDOUT):  # the physics server starts here and prints its arguments
                return self.env.reset(**kwargs)

    @contextlib.contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Sets the global generators to the environment's states, and restores them at the end."""
        if self._random_states is None:
            yield
            return
        outside = _global_states()
        _set_global_states(self._random_states)
        try:
            yield
        finally:
            self._random_states = _global_states()
            _set_global_states(outside)


def _global_states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _set_global_states(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])


def _import_environments() -> None:
    """Imports pybullet_envs, which registers its ids with gym, without its banner on stderr."""
    try:
        with _held_output(_STDOUT, _STDERR):
            importlib.import_module("pybullet")
            importlib.import_module("pybullet_envs")
    except ImportError as error:
        raise ConfigError(
            f"pybullet_adapter needs the package pybullet ({error}): pip install pybullet"
        ) from error


def _without_window(spec: gym.envs.registration.EnvSpec) -> dict[str, bool]:
    """Returns the keyword arguments that turn off a window that opens by default."""
    creator = spec.entry_point
    if not callable(creator):
        try:
            creator = gym.envs.registration.load(creator)
        except ImportError:
            return {}  # gym_adapter.make fails for the same reason, with an explanation
    parameters = inspect.signature(creator).parameters
    names = [name for name in ("render", "renders") if name in parameters]
    return {name: False for name in names if parameters[name].default is True}


def _limit_frame_size(env: gym.Env) -> None:
    """Scales the frame size, a pair of constants in some environments' modules, to at most 480.

    This affects all environments of the module in this process. Scaling frames afterwards would
    not help, because nearly all of the time is spent drawing them.
    """
    for cls in type(env.unwrapped).__mro__:
        module: Any = sys.modules[cls.__module__]
        width = getattr(module, "RENDER_WIDTH", 0)
        if width > _MAX_FRAME_WIDTH:
            module.RENDER_HEIGHT = round(module.RENDER_HEIGHT * _MAX_FRAME_WIDTH / width)
            module.RENDER_WIDTH = _MAX_FRAME_WIDTH


@contextlib.contextmanager
def _held_output(*descriptors: int) -> Iterator[None]:
    """Captures output of Python and C to these descriptors; shows it on stderr after an error.

    It affects the whole process, so use it only briefly, before other threads write.
    """
    libc = ctypes.CDLL(None)  # C has its own buffer, which is flushed before and after
    redirects = {_STDOUT: contextlib.redirect_stdout, _STDERR: contextlib.redirect_stderr}
    with tempfile.TemporaryFile("w+", errors="replace") as held, contextlib.ExitStack() as stack:
        libc.fflush(None)
        for descriptor in descriptors:
            saved = os.dup(descriptor)
            stack.callback(os.close, saved)
            stack.callback(os.dup2, saved, descriptor)
            stack.callback(libc.fflush, None)
            os.dup2(held.fileno(), descriptor)
            stack.enter_context(redirects[descriptor](held))
        try:
            yield
        except Exception:
            stack.close()
            held.seek(0)
            sys.stderr.write(held.read())
            raise
