"""One recipe for tasks of MuJoCo, dm_control and PyBullet, as the config names them.

The first two need ./setup.sh --with mujoco, or --with dm_control.
"""

from tf_agents.environments import py_environment

from tfagents_system.environments import dm_control_adapter, gymnasium_adapter, pybullet_adapter
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """XQC as published, but with networks of 2x256 and faster critics, for 200,000 env steps.

    An iteration is 1,000 env steps and 2,000 train steps.
    """

    algorithm = "xqc"
    discount = 0.995
    critic_learning_rate = 1e-3
    num_iter = 200
    num_steps_per_iter = 2000
    n_episodes_in_buffer = 500
    n_buffer_init_episodes = 5
    eval_period_itrs = 10
    n_eval_episodes = 10
    checkpoint_period_itrs = 20

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        name = self.env_config["environment"]
        if "/" in name:
            domain, task = name.split("/")
            return dm_control_adapter.load(domain, task, seed=seed)
        if "BulletEnv" in name:
            return pybullet_adapter.load(name, seed=seed, gym_kwargs=kwargs)
        return gymnasium_adapter.load(name, seed=seed, gym_kwargs=kwargs)
