"""A locomotion task of PyBullet, as the config names it, with settings for all of them."""

from tf_agents.environments import py_environment

from tfagents_system.environments import pybullet_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """A million env steps and a quarter as many train steps.

    Discount, learning rate and target update are from the RL Zoo of Stable-Baselines3. Pink noise
    replaces its gSDE exploration, and the learning rates decay to zero.
    """

    discount = 0.98
    target_update_tau = 0.02
    actor_learning_rate = 7.3e-4
    critic_learning_rate = 7.3e-4
    alpha_learning_rate = 7.3e-4
    learning_rate_schedule = "linear"
    sac_log_alpha = 0.0
    exploration_noise_beta = 1.0
    num_iter = 1000
    num_steps_per_iter = 250
    n_episodes_in_buffer = 300
    n_buffer_init_episodes = 10
    eval_period_itrs = 50
    n_eval_episodes = 10
    checkpoint_period_itrs = 50

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        name = self.env_config["environment"]
        return pybullet_adapter.load(name, seed=seed, gym_kwargs=kwargs)
