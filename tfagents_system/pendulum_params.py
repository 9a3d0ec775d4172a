"""Pendulum-v1 (gymnasium): swing up and balance; solved in less than a minute on two cores."""

from typing import Any

from tf_agents.environments import py_environment

from tfagents_system.environments import gymnasium_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """200 env steps per episode; an untrained policy returns about -1200, a good one -150."""

    actor_learning_rate = 1e-3
    critic_learning_rate = 1e-3
    alpha_learning_rate = 1e-3
    sac_log_alpha = 0.0
    actor_fc_layer_params = (64, 64)
    critic_joint_fc_layer_params = (64, 64)
    num_iter = 50
    num_steps_per_iter = 200  # one train step per env step
    n_episodes_in_buffer = 100
    n_buffer_init_episodes = 5
    eval_period_itrs = 5
    log_period_itrs = 1
    checkpoint_period_itrs = 25

    def env_ctor(
        self, *args: Any, seed: int | None = None, **kwargs: Any
    ) -> py_environment.PyEnvironment:
        """Returns the environment; `kwargs` go to its constructor."""
        return gymnasium_adapter.load("Pendulum-v1", seed=seed, gym_kwargs=kwargs)
