"""gym's pendulum with a pole whose length is drawn in each episode."""

from typing import Any

import gym
import numpy as np
from gym.envs.classic_control.pendulum import PendulumEnv
from numpy.typing import NDArray


class VariableLengthPendulum(PendulumEnv):
    """Pendulum-v1 with a pole of 0.2 m or 1 m, drawn at each reset with equal chances.

    Observation [cos, sin, angular velocity, length].
    """

    lengths = 0.2, 1.0  # m
    observation_space: gym.spaces.Box

    def __init__(self) -> None:
        super().__init__()
        low, high = self.observation_space.low, self.observation_space.high
        self.observation_space = gym.spaces.Box(
            np.append(low, np.float32(self.lengths[0])), np.append(high, np.float32(1.0))
        )

    def reset(self, **kwargs: Any) -> NDArray[np.float32]:
        """Begins an episode; takes `seed` as gym does."""
        super().reset(**kwargs)
        self.l = float(self.np_random.choice(self.lengths))
        return self._get_obs()

    def _get_obs(self) -> NDArray[np.float32]:
        return np.append(super()._get_obs(), np.float32(self.l))
