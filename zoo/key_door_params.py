"""A key and a door at the ends of a corridor: only exploration finds the reward."""

from tf_agents.environments import py_environment

from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.tasks.key_door import KeyDoor
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """19,700 env steps; random network distillation rewards new cells.

    Its reward shrinks as its network learns: low discounts and fast target updates let the values
    of formerly new cells fade as soon. The entropy is enough to leave a loop of cells whose best
    actions point at each other.
    """

    reward_signals = {
        "extrinsic": {"strength": 10.0},
        "rnd": {"strength": 10.0, "learning_rate": 3e-5},
    }
    fresh_samples_per_step = 256  # so that it soon learns from new cells
    discount = 0.95
    target_update_tau = 0.05
    target_entropy = 0.3
    sac_log_alpha = -4.0
    alpha_learning_rate = 3e-3
    actor_learning_rate = 1e-3
    critic_learning_rate = 1e-3
    matmul_precision = "float32"  # new and known cells differ little in value
    actor_fc_layer_params = (64, 64)
    critic_joint_fc_layer_params = (64, 64)
    num_iter = 450
    n_train_episodes_per_iter = 1
    num_steps_per_iter = 42
    n_episodes_in_buffer = 1000
    n_buffer_init_episodes = 20
    eval_period_itrs = 45
    n_eval_episodes = 5
    checkpoint_period_itrs = 450

    def env_ctor(self, *args, seed=None, **kwargs) -> py_environment.PyEnvironment:
        """Returns the environment; each worker makes its own."""
        return GymEnvironment(KeyDoor(**kwargs), seed)
