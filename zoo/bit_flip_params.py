"""Bit flipping: a goal-conditioned task whose reward tells only whether the goal is reached."""

from tf_agents.environments import py_environment

from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.tasks.bit_flip import BitFlip
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """9,500 env steps of short episodes, each stored with four more goals.

    A fixed temperature makes the policy retry actions that it has given up: with an adaptive one,
    some bits are never flipped any more. Most goals are a few env steps away, so a low discount
    and fast target updates suffice.
    """

    her_copies = 4
    discount = 0.95
    target_update_tau = 0.02
    actor_learning_rate = 1e-3
    critic_learning_rate = 1e-3
    actor_fc_layer_params = (128, 128)
    critic_joint_fc_layer_params = (128, 128)
    train_batch_size = 128
    normalize_observations = True
    sac_log_alpha = -1.5
    learn_alpha = False
    num_iter = 18
    n_train_episodes_per_iter = 50
    num_steps_per_iter = 500
    n_episodes_in_buffer = 1000
    n_buffer_init_episodes = 50
    eval_period_itrs = 2
    n_eval_episodes = 50
    checkpoint_period_itrs = 18

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        return GymEnvironment(BitFlip(**kwargs), seed)
