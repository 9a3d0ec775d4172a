"""A MuJoCo task of gymnasium, as the config names it. Needs ./setup.sh --with mujoco."""

from tf_agents.environments import py_environment

from tfagents_system.environments import gymnasium_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """200,000 env steps, with a train step for every second one, and SAC's usual settings.

    In addition, it has pink noise, and the learning rates decay to zero.
    """

    sac_log_alpha = 0.0
    exploration_noise_beta = 1.0
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
        name = self.env_config["environment"]
        return gymnasium_adapter.load(name, seed=seed, gym_kwargs=kwargs)
