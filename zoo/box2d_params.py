"""A Box2D task of gymnasium, as the config names it. Needs ./setup.sh --with box2d."""

from tf_agents.environments import py_environment

from tfagents_system.environments import gymnasium_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """70,000 env steps, each followed by a train step.

    The learning rates are those of the RL Zoo of Stable-Baselines3. Layer normalization and targets
    over three steps made all of three seeds solve LunarLander, which plain SAC did for one.
    """

    actor_learning_rate = 7.3e-4
    critic_learning_rate = 7.3e-4
    alpha_learning_rate = 7.3e-4
    critic_layer_norm = True
    n_step_returns = 3
    sac_log_alpha = 0.0
    num_iter = 70
    num_steps_per_iter = 1000
    n_episodes_in_buffer = 100
    n_buffer_init_episodes = 5
    eval_period_itrs = 10
    n_eval_episodes = 10
    checkpoint_period_itrs = 10

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        name = self.env_config["environment"]
        return gymnasium_adapter.load(name, seed=seed, gym_kwargs=kwargs)
