"""HalfCheetahBulletEnv-v0 (PyBullet), with the RL Zoo's settings for SAC."""

from tf_agents.environments import py_environment

from tfagents_system.environments import pybullet_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """One train step per env step; evaluates every 10,000.

    Pink noise replaces the Zoo's gSDE exploration, and the default networks its 400 and 300 units.
    """

    discount = 0.98
    target_update_tau = 0.02
    actor_learning_rate = 7.3e-4
    critic_learning_rate = 7.3e-4
    alpha_learning_rate = 7.3e-4
    sac_log_alpha = 0.0
    exploration_noise_beta = 1.0
    num_iter = 1000
    num_steps_per_iter = 1000
    n_episodes_in_buffer = 300
    n_buffer_init_episodes = 10
    eval_period_itrs = 10

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; `kwargs` go to gym.make."""
        return pybullet_adapter.load("HalfCheetahBulletEnv-v0", seed=seed, gym_kwargs=kwargs)
