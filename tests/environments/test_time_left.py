"""`time_aware` with each kind of environment."""

import gym
import numpy as np
import pytest
from fakes import CountingEnv
from simulators import ONE_OF_EACH
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.train_params_base import TrainParamsBase

ZERO = np.zeros(1, np.float32)


class DictEnv(py_environment.PyEnvironment):
    """A dict of a place and a goal; never ends."""

    def observation_spec(self):
        return {name: array_spec.ArraySpec([1], np.float32, name) for name in ("place", "goal")}

    def action_spec(self):
        return array_spec.BoundedArraySpec([1], np.float32, -1.0, 1.0, "action")

    def _observe(self):
        return {"place": np.float32([3]), "goal": np.float32([4])}

    def _reset(self):
        return ts.restart(self._observe())

    def _step(self, action):
        return ts.transition(self._observe(), 1.0)


class Numbered(gym.Env):
    observation_space = gym.spaces.Discrete(5)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self):
        return 0

    def step(self, action):
        return 0, 0.0, False, {}


def aware(make, horizon=4, repeat=1):
    class Params(TrainParamsBase):
        time_aware = True
        action_repeat = repeat

        def env_ctor(self, *args, seed=None, **kwargs):
            return make()

    return make_collect_environment(Params({"horizon": horizon}), seed=1)


def test_the_share_falls_from_1_at_the_reset_to_0_at_the_horizon():
    environment = aware(CountingEnv)
    assert environment.observation_spec().shape == (2,)
    for _ in range(2):
        observations = [environment.reset().observation]
        observations += [environment.step(ZERO).observation for _ in range(4)]
        assert np.array(observations).tolist() == [
            [0, 1], [1, 3 / 4], [2, 2 / 4], [3, 1 / 4], [4, 0],
        ]  # fmt: skip


def test_the_horizon_ends_the_task():
    for make in (CountingEnv, lambda: CountingEnv(truncates_at=4)):
        environment = aware(make)
        for _ in range(2):
            environment.reset()
            discounts = [float(environment.step(ZERO).discount) for _ in range(4)]
            assert discounts == [1.0, 1.0, 1.0, 0.0]


def test_ends_before_the_horizon_keep_their_discounts():
    for make, discount in ((lambda: CountingEnv(terminates_at=2), 0.0),
                           (lambda: CountingEnv(truncates_at=2), 1.0)):  # fmt: skip
        environment = aware(make)
        environment.reset()
        environment.step(ZERO)
        last = environment.step(ZERO)
        assert last.is_last() and last.discount == discount
        assert last.observation.tolist() == [2, 2 / 4]
        assert environment.reset().observation.tolist() == [0, 1]


def test_a_repeated_action_takes_one_step_of_the_horizon():
    environment = aware(CountingEnv, horizon=4, repeat=3)
    environment.reset()
    assert environment.step(ZERO).observation.tolist() == [3, 3 / 4]


def test_a_dict_gets_a_key():
    environment = aware(DictEnv)
    assert set(environment.observation_spec()) == {"place", "goal", "time_left"}
    assert environment.reset().observation["time_left"].tolist() == [1.0]
    observation = environment.step(ZERO).observation
    assert {key: part.tolist() for key, part in observation.items()} == {
        "place": [3.0], "goal": [4.0], "time_left": [3 / 4],
    }  # fmt: skip


@pytest.mark.parametrize("make", ONE_OF_EACH)
def test_the_rest_of_the_observation_is_the_same(make):
    without, environment = make(), aware(make, horizon=200)
    spec = environment.observation_spec()
    assert (np.ravel(spec.minimum)[-1], np.ravel(spec.maximum)[-1]) == (0, 1)
    pairs = [(without.reset(), environment.reset()), (without.step(ZERO), environment.step(ZERO))]
    for (plain, with_time), share in zip(pairs, (1.0, 199 / 200), strict=True):
        np.testing.assert_array_equal(with_time.observation[:-1], plain.observation)
        assert with_time.observation[-1] == np.float32(share)
        assert with_time.observation.dtype == spec.dtype


def test_other_observations_are_refused():
    with pytest.raises(ConfigError, match="time_aware is True.*expected a vector of floats"):
        aware(Numbered)
