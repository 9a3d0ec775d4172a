"""The maze of tasks/point_maze.py, with or without demonstrations, as the config says."""

from tf_agents.environments import py_environment

from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.tasks.point_maze import PointMaze
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """RLPD: half of each minibatch from demonstrations, layer normalization, many train steps.

    Source: Ball et al. 2023, Efficient Online Reinforcement Learning with Offline Data,
    arXiv:2302.02948.
    """

    critic_layer_norm = True
    n_step_returns = 5
    discount = 0.95  # one step more or less changes a value by 5 %
    target_update_tau = 0.02
    sac_log_alpha = -5.0  # the entropy bonus of a whole episode must be less than the goal's reward
    alpha_learning_rate = 3e-3
    actor_fc_layer_params = (64, 64)
    critic_joint_fc_layer_params = (64, 64)
    actor_learning_rate = 3e-4
    critic_learning_rate = 1e-3
    num_iter = 24
    n_train_episodes_per_iter = 1
    num_steps_per_iter = 200
    n_episodes_in_buffer = 100
    n_buffer_init_episodes = 5
    eval_period_itrs = 6
    n_eval_episodes = 10
    checkpoint_period_itrs = 24

    def __init__(self, env_config):
        super().__init__(env_config)
        self.demonstrations = env_config.get("demonstrations")

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        return GymEnvironment(PointMaze(**kwargs), seed)
