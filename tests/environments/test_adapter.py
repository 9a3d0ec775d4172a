import numpy as np
import pytest
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import adapter


class Layer:
    def __init__(self, env=None):
        self.env = env

    @property
    def unwrapped(self):
        return self.env.unwrapped if self.env else self


def test_layers_run_from_the_outermost_to_the_innermost():
    innermost = Layer()
    middle = Layer(innermost)
    outermost = Layer(middle)
    assert list(adapter.layers(outermost)) == [outermost, middle, innermost]


@pytest.mark.parametrize("reward", [1.5, np.float64(1.5), np.array(1.5), np.array([1.5]), 1.5 + 0])
def test_as_reward_is_a_float32_scalar(reward):
    result = adapter.as_reward(reward)
    assert (result, result.dtype, result.shape) == (1.5, np.float32, ())


def test_as_reward_of_several_elements_raises():
    with pytest.raises(ValueError, match=r"reward is an array of shape \[2\]; expected one"):
        adapter.as_reward(np.zeros(2))


@pytest.mark.parametrize("reward", [None, "1.0", {"speed": 1.0}, 1j])
def test_a_reward_that_is_no_number_is_named_by_its_type(reward):
    with pytest.raises(ValueError, match=f"the reward is a {type(reward).__name__}; expected"):
        adapter.as_reward(reward)


@pytest.mark.parametrize("value", [None, 1, np.int64(5)])
def test_check_max_episode_steps_accepts(value):
    adapter.check_max_episode_steps(value)


@pytest.mark.parametrize("value", [0, -1, 2.5, "7"])
def test_check_max_episode_steps_refuses(value):
    with pytest.raises(ConfigError, match=f"max_episode_steps={value!r} must be a positive whole"):
        adapter.check_max_episode_steps(value)


def test_unknown_id_error_names_the_nearest_first():
    error = adapter.unknown_id_error("Pendulm-v1", ["CartPole-v1", "Pendulum-v1"], "gym")
    assert "no environment 'Pendulm-v1' among its 2" in str(error)
    assert "Nearest registered: Pendulum-v1." in str(error)


def test_unknown_id_error_without_similar_id_says_so():
    assert "No similar id" in str(adapter.unknown_id_error("zzz", ["CartPole-v1"], "gym"))


def test_shared_discounts_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        adapter._CONTINUES[...] = 0.0
    assert adapter._LAST is ts.StepType.LAST
