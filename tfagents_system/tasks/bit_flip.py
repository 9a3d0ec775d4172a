"""Bit flipping, a task with goals whose reward tells nothing until the goal is reached.

Source: Andrychowicz et al. 2017, Hindsight Experience Replay, arXiv:1707.01495, section 3.1.
"""

from typing import Any

import gym
import numpy as np
from numpy.typing import NDArray


class BitFlip(gym.Env):
    """Bits that must become those of the goal, by flipping one bit at a time.

    The observation is a dict of vectors [num_bits] of 0 and 1: `observation` and `achieved_goal`,
    which are the bits, and `desired_goal`. Action i flips bit i. The reward is 0 if the bits are
    those of the goal, which ends the episode, and -1 otherwise. After `num_bits` env steps, which
    are always enough, a time limit ends it. The info of the last step has `success`.
    """

    def __init__(self, num_bits: int = 10):
        """Makes the spaces; the first bits and the goal differ in each episode."""
        bits = gym.spaces.Box(0.0, 1.0, (num_bits,), np.float32)
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = gym.spaces.Dict({name: bits for name in names})
        self.action_space = gym.spaces.Discrete(num_bits)
        self._num_bits = num_bits

    def reset(self) -> dict[str, NDArray[np.float32]]:
        """Begins an episode, with bits that are not those of the goal."""
        self.bits, self.goal = self._draw(), self._draw()
        while np.array_equal(self.bits, self.goal):
            self.goal = self._draw()
        self._num_flips = 0
        return self._observe()

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Flips a bit."""
        self.bits[int(action)] = 1 - self.bits[int(action)]
        self._num_flips += 1
        is_reached = self.compute_terminated(self.bits, self.goal, {})
        is_cut = not is_reached and self._num_flips == self._num_bits
        info: dict[str, Any] = {"TimeLimit.truncated": True} if is_cut else {}
        if is_reached or is_cut:
            info["success"] = is_reached
        reward = float(self.compute_reward(self.bits, self.goal, info))
        return self._observe(), reward, is_reached or is_cut, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Returns 0 for reached goals [..., num_bits] and -1 for others, [...]."""
        return np.all(achieved_goal == desired_goal, axis=-1) - 1.0

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        """Returns whether a goal [num_bits] is reached."""
        return np.array_equal(achieved_goal, desired_goal)

    def _draw(self) -> NDArray[np.float32]:
        return self.np_random.integers(0, 2, self._num_bits).astype(np.float32)

    def _observe(self) -> dict[str, NDArray[np.float32]]:
        return {
            "observation": self.bits.copy(),
            "achieved_goal": self.bits.copy(),
            "desired_goal": self.goal.copy(),
        }
