"""InvertedDoublePendulumBulletEnv-v0 (PyBullet): balance; an episode ends when it falls."""

from tf_agents.environments import py_environment

from tfagents_system.environments import pybullet_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """One train step per env step; the RL Zoo's learning rates, discount and target update."""

    discount = 0.98
    target_update_tau = 0.02
    actor_learning_rate = 7.3e-4
    critic_learning_rate = 7.3e-4
    alpha_learning_rate = 7.3e-4
    sac_log_alpha = 0.0
    num_iter = 1_000_000  # a measurement stops it
    num_steps_per_iter = 1000
    n_episodes_in_buffer = 100
    n_buffer_init_episodes = 1
    eval_period_itrs = 1

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; `kwargs` go to gym.make."""
        return pybullet_adapter.load(
            "InvertedDoublePendulumBulletEnv-v0", seed=seed, gym_kwargs=kwargs
        )
