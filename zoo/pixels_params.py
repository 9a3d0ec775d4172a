"""A pixel task of the DeepMind Control Suite, as the config names it.

Needs ./setup.sh --with dm_control.
"""

from tf_agents.environments import py_environment

from tfagents_system.tasks.control_suite import Pixels, repeated
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """45,000 env steps, of `action_repeat` simulator steps each, and as many train steps.

    Initial learning rate, initial temperature and random shifts are DrQ's (Yarats et al. 2021,
    arXiv:2004.13649). There are few train steps, so minibatches are small, and values must
    propagate fast: by three-step returns and fast target updates.
    """

    frame_stack = 3
    image_encoder = "simple"
    image_augmentation = 4
    train_batch_size = 64
    fresh_samples_per_step = 32
    actor_learning_rate = 1e-3
    critic_learning_rate = 1e-3
    alpha_learning_rate = 1e-3
    learning_rate_schedule = "linear"
    n_step_returns = 3
    discount = 0.95
    target_update_tau = 0.02
    sac_log_alpha = -2.3
    num_iter = 360
    num_steps_per_iter = 125
    n_episodes_in_buffer = 400
    n_buffer_init_episodes = 8
    eval_period_itrs = 5
    n_eval_episodes = 5
    checkpoint_period_itrs = 5

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        domain, task = self.env_config["environment"].split("/")
        return Pixels(repeated(domain, task, self.env_config["action_repeat"])(seed))
