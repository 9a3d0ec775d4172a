"""FreeEnv: the sizes of the Minitaur, at no cost per env step."""

import gym
import numpy as np
from tf_agents.environments import py_environment

from benchmarks.environments import FreeEnv
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.train_params_base import TrainParamsBase


class GymEnv(gym.Env):
    """One of `benchmarks.environments` as a gym environment."""

    def __init__(self, env: FreeEnv):
        self._env = env
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (env.observation_size,))
        self.action_space = gym.spaces.Box(-1.0, 1.0, (env.action_size,))

    def reset(self):
        """Returns the first observation."""
        return self._env.reset()

    def step(self, action):
        """Returns gym's four results; never done."""
        observation, reward = self._env.step(action)
        return observation, reward, False, {}

    def seed(self, seed=None):
        """Draws nothing, so there is nothing to seed."""
        return [seed]


class TrainParams(TrainParamsBase):
    """The first train step after 2,000 env steps, then one for each."""

    num_iter = 1_000_000  # a measurement stops it
    num_steps_per_iter = 1000
    n_buffer_init_episodes = 2
    n_eval_episodes = 0
    checkpoint_period_secs = 3600  # none in a measurement: checkpoint_stall measures them

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment."""
        return GymEnvironment(GymEnv(FreeEnv()), seed=seed)
