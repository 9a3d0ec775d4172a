"""A locomotion task of PyBullet, as the config names it, with the default settings."""

from tf_agents.environments import py_environment

from tfagents_system.environments import pybullet_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """One train step per env step; an iteration is an episode of maximum length."""

    num_iter = 1000
    num_steps_per_iter = 1000
    n_episodes_in_buffer = 1000
    n_buffer_init_episodes = 5

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; `kwargs` go to gym.make."""
        name = self.env_config["environment"]
        return pybullet_adapter.load(name, seed=seed, gym_kwargs=kwargs)
