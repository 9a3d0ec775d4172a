"""A corridor with a key and a door, whose reward no random walk reaches."""

from typing import Any

import gym
import numpy as np
from numpy.typing import NDArray


class KeyDoor(gym.Env):
    """A corridor with a key in its first cell and a door in its last; episodes begin in the middle.

    The observation [2 cells] is 1 at the current cell, in its first half without the key and in its
    second with it, and 0 elsewhere: what is right in one cell says nothing about others. Action 0
    is a step back, action 1 a step ahead. The door with the key pays 1 and ends the episode;
    everything else pays 0. After twice as many steps as are needed, a time limit ends it. The info
    of the last step has `success`.
    """

    def __init__(self, reach: int = 7):
        """Makes the spaces; `reach` is the number of steps from the middle to either end."""
        self._num_cells, self._num_steps_at_most = 2 * reach + 1, 2 * 3 * reach
        self.observation_space = gym.spaces.Box(0.0, 1.0, (2 * self._num_cells,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self) -> NDArray[np.float32]:
        """Begins an episode."""
        self.cell, self.has_key, self._num_steps = self._num_cells // 2, False, 0
        return self._observe()

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, dict[str, Any]]:
        """Takes a step, and the key if it is there."""
        self.cell = int(np.clip(self.cell + (1 if action else -1), 0, self._num_cells - 1))
        self.has_key |= self.cell == 0
        self._num_steps += 1
        is_open = self.has_key and self.cell == self._num_cells - 1
        is_cut = not is_open and self._num_steps == self._num_steps_at_most
        info: dict[str, Any] = {"TimeLimit.truncated": True} if is_cut else {}
        if is_open or is_cut:
            info["success"] = is_open
        return self._observe(), float(is_open), is_open or is_cut, info

    def _observe(self) -> NDArray[np.float32]:
        cells = np.zeros([2, self._num_cells], np.float32)
        cells[int(self.has_key), self.cell] = 1
        return cells.ravel()
