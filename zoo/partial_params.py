"""A partially observable task, as the config names it, with or without memory."""

from typing import Any

from tf_agents.environments import py_environment

from tfagents_system.pendulum_params import TrainParams as PendulumParams
from tfagents_system.tasks import partial


class TrainParams(PendulumParams):
    """The settings of the Pendulum example; with memory, minibatches of 16 segments of 50 steps."""

    rnn_units = 64
    eval_period_itrs = 10
    n_eval_episodes = 20

    def __init__(self, env_config: dict[str, Any]):
        """Reads from the config whether there is memory."""
        super().__init__(env_config)
        self.num_steps_per_iter = env_config["horizon"]
        self.recurrent = env_config["memory"]
        if self.recurrent:
            self.segment_len, self.train_batch_size = 50, 16

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        return partial.load(self.env_config["environment"], seed=seed)
