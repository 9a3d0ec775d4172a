"""MinitaurBulletEnv-v0 (PyBullet): a quadruped robot learns to walk forward."""

from typing import Any

from tf_agents.environments import py_environment

from tfagents_system.environments import pybullet_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """500 iterations of 1000 env steps (10 s of the robot's time) and 1000 train steps each.

    The config's weights are 100 times the registered ones, so that a return is in centimetres
    walked forward (minus the energy used), not in metres: a reward of 0.01 per step would be as
    small as the critics' fluctuations from one gradient step to the next.
    """

    sac_log_alpha = -2.0
    fresh_samples_per_step = None  # as for the policy in examples/minitaur
    num_iter = 500
    num_steps_per_iter = 1000  # one train step per env step at a horizon of 1000
    n_episodes_in_buffer = 500
    n_buffer_init_episodes = 10
    eval_period_itrs = 25
    log_period_itrs = 1
    checkpoint_period_itrs = 25
    checkpoint_period_secs = 300  # saving a full replay buffer takes several seconds

    def env_ctor(
        self, *args: Any, seed: int | None = None, **kwargs: Any
    ) -> py_environment.PyEnvironment:
        """Returns the environment with the config's reward weights; `kwargs` go to gym.make."""
        names = ("distance_weight", "energy_weight")
        weights = {name: self.env_config[name] for name in names if name in self.env_config}
        return pybullet_adapter.load(
            "MinitaurBulletEnv-v0", seed=seed, gym_kwargs={**weights, **kwargs}
        )
