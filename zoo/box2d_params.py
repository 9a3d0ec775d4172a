"""A Box2D task of gymnasium, as the config names it. Needs ./setup.sh --with box2d."""

from tf_agents.environments import py_environment

from tfagents_system.environments import gymnasium_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """About 125,000 env steps and half as many train steps, because the simulator is fast.

    The learning rates are from the RL Zoo of Stable-Baselines3.
    """

    actor_learning_rate = 7.3e-4
    critic_learning_rate = 7.3e-4
    alpha_learning_rate = 7.3e-4
    critic_layer_norm = True
    n_step_returns = 3
    sac_log_alpha = 0.0
    num_iter = 120
    num_steps_per_iter = 500
    n_episodes_in_buffer = 150
    n_buffer_init_episodes = 5
    eval_period_itrs = 20
    n_eval_episodes = 10
    checkpoint_period_itrs = 20

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        name = self.env_config["environment"]
        return gymnasium_adapter.load(name, seed=seed, gym_kwargs=kwargs)
