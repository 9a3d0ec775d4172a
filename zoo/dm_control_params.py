"""A task of the DeepMind Control Suite, as the config names it.

Needs ./setup.sh --with dm_control.
"""

from tf_agents.environments import py_environment

from tfagents_system.environments import dm_control_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """200,000 env steps, half as many train steps, and SAC's usual settings.

    In addition, the learning rates decay to zero.
    """

    sac_log_alpha = 0.0
    learning_rate_schedule = "linear"
    num_iter = 200
    num_steps_per_iter = 500
    n_episodes_in_buffer = 500
    n_buffer_init_episodes = 5
    eval_period_itrs = 20
    n_eval_episodes = 10
    checkpoint_period_itrs = 20

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        domain, task = self.env_config["environment"].split("/")
        return dm_control_adapter.load(domain, task, seed=seed)
