"""PyBullet's humanoid by XQC, which sees how its observation changes."""

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.environments import pybullet_adapter
from tfagents_system.environments.observation_wrapper import ObservationWrapper
from tfagents_system.train_params_base import TrainParamsBase


class WithChange(ObservationWrapper):
    """Appends the change since the last simulator step to an observation; it is 0 at a start.

    The humanoid's observation lacks the angular velocity of its torso, without which a policy
    cannot tell falling from swaying.
    """

    def __init__(self, environment: py_environment.PyEnvironment):
        """Wraps and owns `environment`."""
        super().__init__(environment)
        (size,) = environment.observation_spec().shape
        self._spec = array_spec.ArraySpec((2 * size,), np.float32, "observation")
        self._last = np.zeros(size, np.float32)

    def _observe(self, time_step: ts.TimeStep) -> np.ndarray:
        observation = np.array(time_step.observation, np.float32)
        change = observation - (observation if time_step.is_first() else self._last)
        self._last = observation
        return np.concatenate([observation, change])


class TrainParams(TrainParamsBase):
    """XQC with repeated actions: an env step is two simulator steps, and an episode has 500.

    An iteration is 1,000 env steps and 2,000 train steps.
    """

    algorithm = "xqc"
    action_repeat = 2
    discount = 0.99
    critic_learning_rate = 1e-3
    num_iter = 300
    num_steps_per_iter = 2000
    n_train_episodes_per_iter = 2
    n_episodes_in_buffer = 500
    n_buffer_init_episodes = 5
    eval_period_itrs = 10
    n_eval_episodes = 10
    checkpoint_period_itrs = 20

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        name = self.env_config["environment"]
        return WithChange(pybullet_adapter.load(name, seed=seed, gym_kwargs=kwargs))
