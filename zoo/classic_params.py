"""A classic control task of gymnasium with discrete actions, as the config names it."""

from tf_agents.environments import py_environment

from tfagents_system.environments import gymnasium_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """20,000 env steps and as many train steps, with small networks.

    The value of staying alive builds up over hundreds of env steps, so slow target updates would
    need several times as many steps.
    """

    target_update_tau = 0.02
    actor_learning_rate = 1e-3
    critic_learning_rate = 1e-3
    actor_fc_layer_params = (64, 64)
    critic_joint_fc_layer_params = (64, 64)
    sac_log_alpha = -2.0
    num_iter = 20
    n_train_episodes_per_iter = 2
    num_steps_per_iter = 1000
    n_episodes_in_buffer = 100
    n_buffer_init_episodes = 2
    eval_period_itrs = 2
    n_eval_episodes = 10
    checkpoint_period_itrs = 10

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        name = self.env_config["environment"]
        return gymnasium_adapter.load(name, seed=seed, gym_kwargs=kwargs)
