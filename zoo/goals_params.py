"""A task of goals whose reward tells only whether the goal is reached, as the config names it."""

from tf_agents.environments import py_environment

from tfagents_system.environments import gymnasium_adapter
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.tasks.bit_flip import BitFlip
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """10,000 env steps of short episodes, each stored with four more goals.

    Most goals are reached in a few env steps, so that a lower discount and faster targets do.
    """

    her_copies = 4
    discount = 0.95
    target_update_tau = 0.02
    actor_learning_rate = 1e-3
    critic_learning_rate = 1e-3
    sac_log_alpha = -2.0
    num_iter = 20
    n_train_episodes_per_iter = 50
    num_steps_per_iter = 500
    n_episodes_in_buffer = 1000
    n_buffer_init_episodes = 50
    eval_period_itrs = 4
    n_eval_episodes = 50
    checkpoint_period_itrs = 20

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        name = self.env_config["environment"]
        if name == "bit-flip":
            return GymEnvironment(BitFlip(**kwargs), seed)
        return gymnasium_adapter.load(name, seed=seed, gym_kwargs=kwargs)
