import gym
import numpy as np
import pytest
from tf_agents.environments import suite_gym

from tfagents_system.commands.checks.sharing import check_sharing
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.environments.partial_observation import KeepObservations
from tfagents_system.environments.time_limits import keep_discount_at_time_limits


class Scribbler(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, writes, shares):
        self._writes, self._shares = writes, shares
        self._buffer = np.zeros(2, np.float32)

    def reset(self):
        return self._buffer

    def step(self, action):
        if self._writes:
            action += 1
        return self._buffer if self._shares else self._buffer.copy(), 0.0, False, {}


@pytest.mark.parametrize("adapt", [GymEnvironment, suite_gym.wrap_env])
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("shares", [False, True])
def test_what_a_gym_environment_does_is_said_whatever_its_wrappers_copy(adapt, writes, shares):
    environment = KeepObservations(adapt(Scribbler(writes, shares)), [0])
    keep_discount_at_time_limits(environment)
    inner = environment.wrapped_env()
    before = dict(vars(inner)), dict(vars(inner.gym))
    row = check_sharing(environment)
    assert ("writes into its argument, the action" in row.value) is writes
    assert ("returns the same array as before" in row.value) is shares
    assert row.verdict == ("note" if writes or shares else "ok")
    assert vars(inner).get("_step") is before[0].get("_step")
    assert vars(inner.gym).keys() == before[1].keys()
