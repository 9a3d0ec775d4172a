"""A car between two flags must ask which one is the right one."""

from typing import Any

import gym
import numpy as np
from numpy.typing import NDArray

from tfagents_system.tasks.drawing import BLACK, BLUE, GRAY, GREEN, RED, Canvas


class CarFlag(gym.Env):
    """A car on a line with flags at -1 and 1, of which one, at random, is the right one.

    Observation [x, velocity, side]: side is -1 or 1, the side of the right flag, while the car is
    within 0.2 of x = 0.5, and 0 elsewhere. Action a in [-1, 1] adds 0.0015 a to the velocity, which
    stays within 0.2 and is then added to x. x begins uniformly within 0.2 of 0, at rest. An episode
    terminates at either flag. The reward is -1 per step; at the wrong flag it is -1 more for each
    remaining step of the 160, so that the wrong flag is as bad as none. The info of the last step
    has `success`.

    Source: Yang and Nguyen 2021, Recurrent Off-policy Baselines for Memory-based Continuous
    Control, arXiv:2110.12628.
    """

    horizon = 160  # env steps
    observation_space = gym.spaces.Box(
        np.array([-2.4, -0.2, -1.0], np.float32), np.array([2.4, 0.2, 1.0], np.float32)
    )
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    metadata = {"render_fps": 30}

    def reset(self) -> NDArray[np.float32]:
        """Begins an episode."""
        self.position, self.velocity = self.np_random.uniform(-0.2, 0.2), 0.0
        self.right_side = int(self.np_random.choice((-1, 1)))
        self._steps_left = self.horizon
        return self._observe()

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, dict[str, Any]]:
        """Accelerates and moves."""
        self._steps_left -= 1
        self.velocity = float(np.clip(self.velocity + 0.0015 * float(action[0]), -0.2, 0.2))
        self.position += self.velocity
        is_at_flag = abs(self.position) >= 1
        is_right = is_at_flag and self.position * self.right_side > 0
        reward = -1.0 - (self._steps_left if is_at_flag and not is_right else 0)
        return self._observe(), reward, is_at_flag, {"success": is_right}

    def render(self, mode: str = "rgb_array") -> NDArray[np.uint8]:
        """Returns a frame; the right flag is green, the place that shows its side is blue."""
        canvas = Canvas((-1.3, -0.3), (1.3, 0.5))
        canvas.line((-1.3, 0), (1.3, 0), 0.01, GRAY)
        canvas.line((0.3, 0), (0.7, 0), 0.03, BLUE)
        for side in (-1, 1):
            color = GREEN if side == self.right_side else RED
            canvas.line((side, 0), (side, 0.35), 0.02, BLACK)
            canvas.box((side, 0.22), (side + 0.15, 0.35), color)
        canvas.box((self.position - 0.08, 0.01), (self.position + 0.08, 0.1), BLACK)
        return canvas.frame

    def _observe(self) -> NDArray[np.float32]:
        side = self.right_side if abs(self.position - 0.5) <= 0.2 else 0
        return np.array([self.position, self.velocity, side], np.float32)
