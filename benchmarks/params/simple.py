"""A task of tasks/simple.py, as the config names it, with the sizes of its reference tests."""

import gym
from tf_agents.environments import py_environment

from tfagents_system.environments import gym_adapter
from tfagents_system.tasks.simple import TASKS, Simple
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """One train step per env step, with a single small layer."""

    actor_fc_layer_params = (16,)
    critic_joint_fc_layer_params = (16,)
    actor_learning_rate = critic_learning_rate = alpha_learning_rate = 5e-3
    target_update_tau = 0.01
    sac_log_alpha = -4.6  # log 0.01
    n_train_episodes_per_iter = 1
    n_eval_episodes = 5

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        task = Simple(**TASKS[self.env_config["task"]])
        limited = gym.wrappers.TimeLimit(task, self.env_config["horizon"])
        return gym_adapter.GymEnvironment(limited, seed=seed)
