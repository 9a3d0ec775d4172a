"""A maze with a reward only at its end, which random actions do not reach."""

from typing import Any

import gym
import numpy as np
from numpy.typing import NDArray

from tfagents_system.tasks.drawing import BLUE, GRAY, GREEN, Canvas

STRIDE = 0.1  # largest move along an axis
START, GOAL = np.array([-0.8, -0.8], np.float32), np.array([-0.8, 0.8], np.float32)
SPREAD, RADIUS = 0.1, 0.3  # of the starts, of the goal
WALL_HEIGHT, WALL_END = 0.3, 0.5  # it fills |y| < WALL_HEIGHT up to x = WALL_END


class PointMaze(gym.Env):
    """A point in a square, which must go around a wall.

    The observation is its position [x, y], from -1 to 1; an action in [-1, 1] for each axis moves
    it by STRIDE times that, unless the wall is there. The reward is 1 at the goal, which ends the
    episode, and 0 before: the path takes about 35 env steps. The info of the last step has
    `success`, if the point has reached the goal.
    """

    metadata = {"render_fps": 10}

    def __init__(self) -> None:
        """Makes the spaces; each episode begins within SPREAD of START."""
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self) -> NDArray[np.float32]:
        """Begins an episode."""
        offset = self.np_random.uniform(-SPREAD, SPREAD, 2)
        self.place = (START + offset).astype(np.float32)
        return self.place.copy()

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, dict[str, Any]]:
        """Moves the point."""
        move = STRIDE * np.asarray(action, np.float32)
        for axis in (0, 1):  # along the wall, too
            place = self.place.copy()
            place[axis] = np.clip(place[axis] + move[axis], -1.0, 1.0)
            if not (abs(place[1]) < WALL_HEIGHT and place[0] < WALL_END):
                self.place = place
        is_reached = bool(np.linalg.norm(self.place - GOAL) <= RADIUS)
        info = {"success": True} if is_reached else {}
        return self.place.copy(), float(is_reached), is_reached, info

    def render(self, mode: str = "rgb_array") -> NDArray[np.uint8]:
        """Returns a frame [200, 200, 3]: the point is blue, its goal green."""
        canvas = Canvas((-1.0, -1.0), (1.0, 1.0))
        canvas.box((-1.0, -WALL_HEIGHT), (WALL_END, WALL_HEIGHT), GRAY)
        canvas.disc(GOAL, RADIUS, GREEN)
        canvas.disc(self.place, 0.05, BLUE)
        return canvas.frame
