"""The measured environments as gymnasium environments."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from benchmarks.environments import FreeEnv, ImageEnv

MINITAUR_WEIGHTS = {"distance_weight": 100.0, "energy_weight": 0.5}  # as in config/minitaur.json
GYM_KWARGS = {"MinitaurBulletEnv-v0": {"render": False, **MINITAUR_WEIGHTS}}


class GymnasiumEnv(gymnasium.Env):
    """One of `benchmarks.environments`."""

    def __init__(self, env: FreeEnv):
        self._env = env
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (env.observation_size,))
        if isinstance(env, ImageEnv):
            height, width, channels = env.frame_shape
            stacked = (height, width, channels * env.frame_stack)
            self.observation_space = gymnasium.spaces.Box(0, 255, stacked, np.uint8)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (env.action_size,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Returns gymnasium's two results."""
        super().reset(seed=seed)
        return self._env.reset(), {}

    def step(self, action):
        """Returns gymnasium's five results; never terminated."""
        observation, reward = self._env.step(action)
        return observation, reward, False, False, {}


class OldGymEnv(gymnasium.Env):
    """An environment of gym 0.23 without its time limit, so that `done` is a termination."""

    def __init__(self, env: Any):
        self._env = env
        spaces = env.observation_space, env.action_space
        self.observation_space, self.action_space = (
            gymnasium.spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32))
            for space in spaces
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Returns gymnasium's two results."""
        super().reset(seed=seed)
        if seed is not None:
            self._env.seed(seed)
        return np.asarray(self._env.reset(), np.float32), {}

    def step(self, action):
        """Returns gymnasium's five results; never truncated."""
        observation, reward, done, info = self._env.step(action)
        return np.asarray(observation, np.float32), float(reward), bool(done), False, info

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()


def make_environment(name: str) -> gymnasium.Env:
    """Returns the environment with its registered time limit."""
    if name == "ImageEnv":  # only for its spaces: a peer's learner gets random transitions
        return GymnasiumEnv(ImageEnv())
    if name == "FreeEnv":
        return TimeLimit(GymnasiumEnv(FreeEnv()), FreeEnv.horizon)
    if "BulletEnv" in name:
        import gym
        import pybullet_envs  # noqa: F401  (registers its environments)

        with_limit = gym.make(name, **GYM_KWARGS.get(name, {}))
        return TimeLimit(OldGymEnv(with_limit.unwrapped), with_limit.spec.max_episode_steps)
    return gymnasium.make(name)
