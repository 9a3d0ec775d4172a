"""A swimmer looks for a platform that it feels only when on it, and returns there.

Source: Yang and Nguyen 2021, Recurrent Off-policy Baselines for Memory-based Continuous Control,
arXiv:2110.12628, after the water maze of Morris 1984.
"""

import math
from typing import Any

import gym
import numpy as np
from numpy.typing import NDArray

from tfagents_system.tasks.drawing import BLACK, GRAY, GREEN, Canvas


class WaterMaze(gym.Env):
    """A disc of radius 1 with a platform of radius 0.2, which is fixed during an episode.

    Observation [x, y, 1 on the platform and 0 elsewhere, platform x, platform y]; a swimmer does
    not see the last two. Action a in [-0.2, 0.2]^2; a step is 0.2 a, or nothing if it would leave
    the disc. Reward 1 for each step that ends on the platform. After every five of these, the
    swimmer is moved elsewhere: the observation has the new place, and still the 1. Places off the
    platform, and platforms that are entirely inside the disc, have uniform angle and distance from
    the centre. No episode terminates.
    """

    observation_space = gym.spaces.Box(-1.0, 1.0, (5,), np.float32)
    action_space = gym.spaces.Box(-0.2, 0.2, (2,), np.float32)
    metadata = {"render_fps": 10}
    platform_radius = 0.2
    steps_until_moved = 5  # on the platform

    def reset(self) -> NDArray[np.float32]:
        """Begins an episode."""
        self._steps_on_platform = 0
        self.platform = self._draw_platform()
        self.position = self._start()
        return self._observe(False)

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, dict[str, Any]]:
        """Swims."""
        self._swim(np.asarray(action, np.float64))
        is_on_platform = self._is_on_platform(self.position)
        reward = self._reward()
        self._steps_on_platform += is_on_platform
        if self._steps_on_platform == self.steps_until_moved:
            self._steps_on_platform = 0
            self.position = self._start()
        return self._observe(is_on_platform), reward, False, {}

    def render(self, mode: str = "rgb_array") -> NDArray[np.uint8]:
        """Returns a frame."""
        canvas = Canvas((-1.05, -1.05), (1.05, 1.05))
        canvas.disc((0, 0), 1, GRAY)
        canvas.disc(self.platform, self.platform_radius, GREEN)
        canvas.disc(self.position, 0.05, BLACK)
        return canvas.frame

    def _swim(self, action: NDArray[np.float64]) -> None:
        self._go_to(self.position + 0.2 * action)

    def _go_to(self, position: NDArray[np.float64]) -> bool:
        """Moves to `position` if it is inside the disc; returns whether it is."""
        is_inside = np.linalg.norm(position) < 1
        if is_inside:
            self.position = position
        return bool(is_inside)

    def _reward(self) -> float:
        return float(self._is_on_platform(self.position))

    def _draw_platform(self) -> NDArray[np.float64]:
        while True:
            center = self._draw_place(self.np_random.random())
            if np.linalg.norm(center) + self.platform_radius < 1:
                return center

    def _start(self) -> NDArray[np.float64]:
        while True:
            position = self._draw_place(self.np_random.random())
            if not self._is_on_platform(position):
                return position

    def _draw_place(self, distance: float) -> NDArray[np.float64]:
        angle = 2 * math.pi * self.np_random.random()
        return distance * np.array([math.cos(angle), math.sin(angle)])

    def _is_on_platform(self, position: NDArray[np.float64]) -> bool:
        return bool(np.linalg.norm(position - self.platform) < self.platform_radius)

    def _observe(self, is_on_platform: bool) -> NDArray[np.float32]:
        return np.array([*self.position, is_on_platform, *self.platform], np.float32)


class DenseWaterMaze(WaterMaze):
    """A water maze whose reward is minus the distance to the centre of the platform."""

    def _reward(self) -> float:
        return -float(np.linalg.norm(self.position - self.platform))


class SimpleWaterMaze(WaterMaze):
    """A water maze with inertia, where the swimmer always starts at rest in the centre.

    The platform, of radius 0.3, is 0.7 away; its angle is uniform. Action a in [-0.03, 0.03]^2 is
    an acceleration: v becomes v + a within [-0.1, 0.1]^2, then v is added to the position. A step
    that would leave the disc is not taken, and v becomes 0.
    """

    action_space = gym.spaces.Box(-0.03, 0.03, (2,), np.float32)
    platform_radius = 0.3
    platform_distance = 0.7
    max_speed = 0.1  # in each coordinate, per step
    velocity: NDArray[np.float64]

    def _swim(self, action: NDArray[np.float64]) -> None:
        self.velocity = np.clip(self.velocity + action, -self.max_speed, self.max_speed)
        if not self._go_to(self.position + self.velocity):
            self.velocity = np.zeros(2)

    def _draw_platform(self) -> NDArray[np.float64]:
        return self._draw_place(self.platform_distance)

    def _start(self) -> NDArray[np.float64]:
        self.velocity = np.zeros(2)
        return np.zeros(2)
