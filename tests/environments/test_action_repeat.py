"""`action_repeat` with each kind of environment, against the same environment without it."""

from fractions import Fraction

import gym
import numpy as np
import pytest
from fakes import CountingEnv
from simulators import ONE_OF_EACH, gymnasium_pendulum

from tfagents_system.collection.rollouts import run_episode
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.films.playback import playback_of
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.train_params_base import TrainParamsBase

ZERO = np.zeros(1, np.float32)


class Walk(gym.Env):
    """Observation and reward are the number of steps since the reset; step 6 terminates."""

    observation_space = gym.spaces.Box(0.0, 100.0, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self):
        self.count = 0
        return np.zeros(1, np.float32)

    def step(self, action):
        self.count += 1
        return np.float32([self.count]), float(self.count), self.count == 6, {"count": self.count}


def repeated(make, times):
    class Params(TrainParamsBase):
        action_repeat = times

        def env_ctor(self, *args, seed=None, **kwargs):
            return make()

    return make_collect_environment(Params({"horizon": 10}), seed=1)


def steps_of(environment, num_steps):
    """Returns (observation, reward, discount, is last) of each step after a reset."""
    first = environment.reset()
    assert first.reward == 0
    steps = [environment.step(ZERO) for _ in range(num_steps)]
    return [(float(s.observation[0]), float(s.reward), float(s.discount), bool(s.is_last()))
            for s in steps]  # fmt: skip


@pytest.mark.parametrize("make", [Walk, lambda: CountingEnv(terminates_at=6)])
def test_rewards_are_summed_until_a_termination(make):
    environment = repeated(make, 4)
    episode = [(4.0, 1 + 2 + 3 + 4, 1.0, False), (6.0, 5 + 6, 0.0, True)]
    assert steps_of(environment, 2) == episode
    assert steps_of(environment, 2) == episode  # a reset begins anew


@pytest.mark.parametrize(
    "make", [lambda: gym.wrappers.TimeLimit(Walk(), 5), lambda: CountingEnv(truncates_at=5)]
)
def test_a_time_limit_within_an_env_step_keeps_discount_1(make):
    assert steps_of(repeated(make, 3), 2) == [
        (3.0, 1 + 2 + 3, 1.0, False), (5.0, 4 + 5, 1.0, True)
    ]  # fmt: skip


def test_the_horizon_counts_decisions():
    environment = repeated(CountingEnv, 4)
    policy = RandomPolicy(environment.action_spec(), seed=1)
    episode = run_episode(environment, policy, horizon=3)
    assert (episode.length, episode.is_terminal) == (3, False)
    assert episode.episode_return == sum(range(1, 3 * 4 + 1))


def test_the_info_is_that_of_the_last_simulator_step():
    environment = repeated(Walk, 4)
    steps_of(environment, 1)
    assert environment.get_info() == {"count": 4}


@pytest.mark.parametrize("make", ONE_OF_EACH)
def test_an_env_step_is_as_many_of_the_simulator(make):
    one, four = make(), repeated(make, 4)
    np.testing.assert_array_equal(one.reset().observation, four.reset().observation)
    for _ in range(3):
        singles = [one.step(0.5 * np.ones(1, np.float32)) for _ in range(4)]
        together = four.step(0.5 * np.ones(1, np.float32))
        np.testing.assert_array_equal(together.observation, singles[-1].observation)
        assert together.reward == pytest.approx(sum(float(s.reward) for s in singles), rel=1e-6)


def test_a_film_is_in_real_time():
    environment = repeated(gymnasium_pendulum, 4)
    environment.reset()
    dt = 0.05  # seconds per step of Pendulum
    assert playback_of(environment).frames_per_sec == Fraction(1 / (4 * dt))


class Writer(CountingEnv):
    """Scales its action in place, as a torque."""

    seen = ()

    def _step(self, action):
        self.seen = (*self.seen, float(action[0]))
        action *= 10
        return super()._step(action)


def test_an_environment_that_writes_into_its_action_gets_it_unchanged_each_time():
    made = Writer()
    environment = repeated(lambda: made, 3)
    environment.reset()
    environment.step(np.float32([0.1]))
    assert made.seen == pytest.approx((0.1, 0.1, 0.1))
