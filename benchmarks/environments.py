"""Environments of known cost: an env step does nothing, or sleeps. NumPy only.

The programs wrap them for their library: gym here, gymnasium for the peers.
"""

import time

import numpy as np


class FreeEnv:
    """Returns observations from a table: an env step costs almost nothing.

    The sizes are the Minitaur's. It never terminates; its wrapper cuts at `horizon`.
    """

    observation_size = 28
    action_size = 8  # each in [-1, 1]
    horizon = 1000  # env steps

    def __init__(self, seed: int = 0):
        """Draws the table."""
        rng = np.random.default_rng(seed)
        self._observations = rng.standard_normal((997, self.observation_size)).astype(np.float32)
        self._position = 0

    def reset(self) -> np.ndarray:
        """Returns the first observation."""
        return self._observations[self._position]

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float]:
        """Returns (next observation, reward)."""
        self._position = (self._position + 1) % len(self._observations)
        return self._observations[self._position], float(action[0])


class ImageEnv(FreeEnv):
    """A FreeEnv whose observations are frames drawn in advance: incompressible noise."""

    frame_shape = (84, 84, 3)
    frame_stack = 3  # frames in an agent's observation

    def __init__(self, seed: int = 0):
        """Draws the frames."""
        super().__init__(seed)
        rng = np.random.default_rng(seed)
        self._observations = rng.integers(0, 256, (64, *self.frame_shape), np.uint8)


class SleepingEnv(FreeEnv):
    """A FreeEnv that takes `step_secs` per step without CPU time, like a robot or a remote one."""

    step_secs = 0.01

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float]:
        """Sleeps, then steps."""
        time.sleep(self.step_secs)
        return super().step(action)
