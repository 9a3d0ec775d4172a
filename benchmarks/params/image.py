"""ImageEnv: frames of 84 x 84 x 3; the agent sees the newest three."""

import gym
import numpy as np
from tf_agents.environments import py_environment

from benchmarks.environments import ImageEnv
from benchmarks.params.free import GymEnv
from benchmarks.params.free import TrainParams as FreeParams
from tfagents_system.environments.gym_adapter import GymEnvironment


class TrainParams(FreeParams):
    """The convolutions and hidden layers of the peers' CnnPolicy, and their default minibatch."""

    frame_stack = ImageEnv.frame_stack
    image_encoder = "nature_cnn"
    n_episodes_in_buffer = 10

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment."""
        environment = GymEnv(ImageEnv())
        environment.observation_space = gym.spaces.Box(0, 255, ImageEnv.frame_shape, np.uint8)
        return GymEnvironment(environment, seed=seed)
