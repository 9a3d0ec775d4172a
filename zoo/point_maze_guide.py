"""Leads the point of tasks/point_maze.py through the maze, for demonstrations.

Example: sac record --params zoo/demonstrations_params.py --config zoo/point_maze.json
    --policy zoo/point_maze_guide.py --num_episodes 20 --output zoo/point_maze_demonstrations
"""

import numpy as np

CORNERS = np.float32([[0.7, -0.6], [0.7, 0.6], [-0.8, 0.8]])
NEAR = 0.15
NOISE = 0.3  # standard deviation, so that demonstrations differ


class Policy:
    """Goes from corner to corner."""

    def __init__(self):
        self._rng = np.random.default_rng(0)

    def reset(self):
        """Begins an episode."""
        self._next = 0

    def action(self, observation):
        """Returns the direction to the next corner, plus some noise."""
        way = CORNERS[self._next] - observation
        if np.linalg.norm(way) < NEAR and self._next + 1 < len(CORNERS):
            self._next += 1
            way = CORNERS[self._next] - observation
        direction = way / max(np.abs(way).max(), 0.1)
        return np.clip(direction + self._rng.normal(0, NOISE, 2), -1, 1)
