"""A task of partial observation, as the config names it, with memory or without."""

from typing import Any

from tf_agents.environments import py_environment

from tfagents_system.tasks import partial
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """One train step per env step; with memory, of 16 segments of 50 env steps each."""

    actor_learning_rate = 1e-3
    critic_learning_rate = 1e-3
    alpha_learning_rate = 1e-3
    sac_log_alpha = 0.0
    actor_fc_layer_params = (64, 64)
    critic_joint_fc_layer_params = (64, 64)
    rnn_units = 64
    num_iter = 50
    n_episodes_in_buffer = 100
    n_buffer_init_episodes = 5
    eval_period_itrs = 10
    n_eval_episodes = 20
    log_period_itrs = 1
    checkpoint_period_itrs = 25

    def __init__(self, env_config: dict[str, Any]):
        """The config says whether there is memory."""
        super().__init__(env_config)
        self.num_steps_per_iter = env_config["horizon"]
        self.recurrent = env_config["memory"]
        if self.recurrent:
            self.segment_len, self.train_batch_size = 50, 16

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        return partial.load(self.env_config["environment"], seed=seed)
