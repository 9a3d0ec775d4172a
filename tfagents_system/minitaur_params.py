"""MinitaurBulletEnv-v0 (PyBullet): a quadruped robot learns to walk forward."""

from tf_agents.environments import py_environment

from tfagents_system.environments import pybullet_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """500 iterations of 1000 env steps and 1000 train steps each."""

    sac_log_alpha = -4.0  # rewards are about 0.01 a step: an alpha of e would drown them for long
    num_iter = 500
    num_steps_per_iter = 1000  # one train step per env step at a horizon of 1000
    n_episodes_in_buffer = 500
    n_buffer_init_episodes = 10
    eval_period_itrs = 25
    log_period_itrs = 1
    checkpoint_period_itrs = 25

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; `kwargs` go to gym.make."""
        return pybullet_adapter.load("MinitaurBulletEnv-v0", seed=seed, gym_kwargs=kwargs)
