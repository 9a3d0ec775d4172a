"""SleepingEnv: workers mostly sleep, and learning is too cheap to hold them back."""

from tf_agents.environments import py_environment

from benchmarks.environments import SleepingEnv
from benchmarks.params import free
from tfagents_system.environments.gym_adapter import GymEnvironment


class TrainParams(free.TrainParams):
    """One train step for 50 env steps."""

    num_steps_per_iter = 200
    n_train_episodes_per_iter = 50  # of 200 env steps
    n_buffer_init_episodes = 5
    n_episodes_in_buffer = 1000

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment."""
        return GymEnvironment(free.GymEnv(SleepingEnv()), seed=seed)
