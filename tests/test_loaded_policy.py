"""A policy of `load_policy` keeps its memory from call to call, and needs what its actor sees."""

import subprocess
import sys

import numpy as np
import pytest
from export.test_policy import experiment
from tf_agents.specs import array_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.interactive import Policy, load_policy

PRIVILEGED = """
import gymnasium
import subprocess
import sys

import numpy as np
from tfagents_system.environments.gymnasium_adapter import GymnasiumEnvironment
from tfagents_system.train_params_base import TrainParamsBase

class Arm(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict(
        angles=gymnasium.spaces.Box(-1, 1, (3,)), state=gymnasium.spaces.Box(-1, 1, (4,))
    )
    action_space = gymnasium.spaces.Box(-1, 1, (2,))

class TrainParams(TrainParamsBase):
    actor_fc_layer_params = critic_joint_fc_layer_params = (8,)
    critic_observations = ["state"]

    def env_ctor(self, *args, seed=None, **kwargs):
        return GymnasiumEnvironment(Arm())
"""


class Counting:
    """Counts the steps of an episode, as networks do that forget at first steps."""

    def initial_state(self):
        return 0

    def action(self, time_step, state):
        state = 1 if time_step.is_first() else state + 1
        return state, state


def test_only_the_first_call_of_an_episode_is_its_first_step():
    policy = Policy(Counting(), array_spec.ArraySpec([1], np.float32))
    observation = np.zeros(1, np.float32)
    assert [policy(observation) for _ in range(3)] == [1, 2, 3]
    policy.reset()
    assert [policy(observation) for _ in range(2)] == [1, 2]


def test_a_loaded_policy_needs_nothing_that_only_critics_see(tmp_path):
    policy = load_policy(experiment(tmp_path / "arm", PRIVILEGED).root)
    angles = np.float32([0.1, 0.2, 0.3])
    action = policy({"angles": angles})
    assert action.shape == (2,)
    np.testing.assert_array_equal(policy({"angles": angles, "state": np.ones(4)}), action)
    with pytest.raises(ConfigError, match="without angles; expected a dict with angles"):
        policy({"state": np.ones(4)})


def test_a_policy_is_loaded_where_warnings_are_errors(tmp_path):
    root = experiment(tmp_path / "arm", PRIVILEGED).root
    code = f"import tfagents_system as sac; sac.load_policy({str(root)!r})"  # imports TF-Agents
    code += "; import warnings; warnings.warn('mine')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=240
    )
    assert done.stderr.splitlines()[-1] == "UserWarning: mine"
