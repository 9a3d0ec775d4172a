"""A task of the DeepMind Control Suite that is seen through a camera, as the config names it.

Needs ./setup.sh --with dm_control.
"""

from tf_agents.environments import py_environment

from tfagents_system.tasks import partial
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """40,000 env steps, of two simulator steps each, and two train steps for every five.

    Learning rate, first temperature and random shifts are those of DrQ (Yarats et al. 2021,
    arXiv:2004.13649). Train steps are few, so values travel fast: by three-step returns and targets
    that follow quickly.
    """

    frame_stack = 3
    image_encoder = "simple"
    image_augmentation = 4
    train_batch_size = 128
    actor_learning_rate = 1e-3
    critic_learning_rate = 1e-3
    n_step_returns = 3
    discount = 0.98
    target_update_tau = 0.02
    sac_log_alpha = -2.3
    num_iter = 80
    num_steps_per_iter = 200
    n_episodes_in_buffer = 100
    n_buffer_init_episodes = 4
    eval_period_itrs = 5
    n_eval_episodes = 5
    checkpoint_period_itrs = 5

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        return partial.load(self.env_config["environment"], seed=seed)
