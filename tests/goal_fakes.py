"""An environment with goals."""

import gym
import numpy as np


class Walk(gym.Env):
    """Walks right by the action; the reward is minus the distance to the goal 100."""

    def __init__(self, takes_batches=True, lies=False, fails=False):
        place = gym.spaces.Box(-1e3, 1e3, (1,), np.float32)
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = gym.spaces.Dict({name: place for name in names})
        self.action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
        self._takes_batches, self._lies, self._fails = takes_batches, lies, fails
        self.num_calls = 0

    def reset(self):
        self.place = 0.0
        return self._observe()

    def step(self, action):
        self.place += 1.0
        reward = self.place - 100.0 + 7.0 * self._lies
        return self._observe(), reward, False, {"weight": self.place}

    def compute_reward(self, achieved_goal, desired_goal, info):
        self.num_calls += 1
        if self._fails:
            raise RuntimeError("no rewards today")
        if not self._takes_batches:
            return -abs(float(achieved_goal.item()) - float(desired_goal.item()))
        return -np.abs(achieved_goal - desired_goal)[..., 0]

    def _observe(self):
        place = np.array([self.place], np.float32)
        return {"observation": place, "achieved_goal": place,
                "desired_goal": np.array([100.0], np.float32)}  # fmt: skip
