"""Tasks of dm_control with repeated actions, optionally from pixels."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from tf_agents.environments import py_environment, wrappers
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.environments import dm_control_adapter, headless
from tfagents_system.environments.observation_wrapper import ObservationWrapper

SIZE = 84  # pixels
LUMA = np.array([0.2989, 0.587, 0.114], np.float32)  # of red, green and blue; ITU-R BT.601
_PLAIN = {"shadow": False, "reflection": False}  # they take most of a software renderer's time


class Pixels(ObservationWrapper):
    """Shows a task of dm_control as a gray image [84, 84, 1] uint8, through its camera 0.

    Shadows and reflections are off: they add nothing about the state and take most of the time.
    """

    def __init__(self, environment: py_environment.PyEnvironment):
        """Wraps and owns `environment`; raises ConfigError if MuJoCo cannot draw."""
        super().__init__(environment)
        headless.check_can_render("Pixels")
        self._spec = array_spec.BoundedArraySpec((SIZE, SIZE, 1), np.uint8, 0, 255, "observation")

    def _observe(self, time_step: ts.TimeStep) -> NDArray[np.uint8]:
        physics = self._env.gym.env.physics  # the adapter's, below any wrappers
        return gray(physics.render(SIZE, SIZE, camera_id=0, render_flag_overrides=_PLAIN))


def gray(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns the brightness [H, W, 1] of a frame [H, W, 3], both uint8."""
    return np.rint(frame @ LUMA)[..., np.newaxis].astype(np.uint8)


def repeated(domain: str, task: str, times: int) -> Callable[..., py_environment.PyEnvironment]:
    """Returns a constructor, with the argument `seed`, of the task with repeated actions."""

    def make(seed: int | None) -> py_environment.PyEnvironment:
        return wrappers.ActionRepeat(dm_control_adapter.load(domain, task, seed=seed), times)

    return make
