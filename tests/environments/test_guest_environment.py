"""Checks of all environments of users, whatever they are made of."""

import numpy as np
import pytest
from evaluation.test_evaluator import Params
from replay_fakes import EpisodeStepEnv, SleepingWatchdog
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.environments.construction import make_eval_environment
from tfagents_system.environments.guest_environment import GuestEnvironment
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment

ACTION = np.zeros(1, np.float32)


class AutoResetEnv(EpisodeStepEnv):
    """Begins the next episode in the step after the third one, with or without the end before."""

    def __init__(self, shows_end):
        super().__init__(ends=[(3, 0.0)])
        self._shows_end = shows_end

    def _step(self, action):
        if self._position == (3 if self._shows_end else 2):
            return self.reset()
        return super()._step(action)


def test_an_episode_that_begins_before_the_end_of_the_one_before_is_a_failure():
    environment = GuestEnvironment(AutoResetEnv(shows_end=False))
    replaceable = ReplaceableEnvironment(environment, lambda _: environment, SleepingWatchdog())
    for _ in range(2):
        replaceable.reset()
        replaceable.step(ACTION)
        replaceable.step(ACTION)
        with pytest.raises(
            EnvironmentFailure, match="AutoResetEnv.step began another episode .* ts"
        ):
            replaceable.step(ACTION)


def test_an_episode_may_begin_in_the_step_after_an_end_or_before_any_reset():
    environment = GuestEnvironment(AutoResetEnv(shows_end=True))
    step_types = [int(environment.step(ACTION).step_type) for _ in range(9)]
    assert step_types == [0, 1, 1, 2] * 2 + [0]


@pytest.mark.parametrize("step_type", [ts.StepType.MID, ts.StepType.LAST])
def test_a_reset_begins_an_episode(step_type):
    class Odd(EpisodeStepEnv):
        def _reset(self):
            return super()._reset()._replace(step_type=step_type)

    with pytest.raises(
        ConfigError, match=f"Odd.reset returned .* type {step_type}; expected FIRST"
    ):
        GuestEnvironment(Odd()).reset()


class RewardingEnv(EpisodeStepEnv):
    """Rewards with what it is given."""

    def __init__(self, reward):
        super().__init__()
        self._reward = reward

    def _step(self, action):
        return super()._step(action)._replace(reward=self._reward)


@pytest.mark.parametrize("reward", [np.float32([2.5]), np.array([[2.5]])])
def test_an_array_of_one_number_is_a_reward(reward):
    environment = GuestEnvironment(RewardingEnv(reward))
    environment.reset()
    reward = environment.step(ACTION).reward
    assert (reward, reward.dtype, reward.shape) == (2.5, np.float32, ())


def test_a_reward_of_several_numbers_is_named_without_a_place_in_a_library():
    environment = GuestEnvironment(RewardingEnv(np.zeros(2)))
    environment.reset()
    with pytest.raises(UserCodeError) as info:
        environment.step(ACTION)
    message = "RewardingEnv.step raised ValueError: the reward is an array of shape [2]; expected"
    assert str(info.value).startswith(message) and ".py" not in str(info.value)


def test_messages_name_the_class_within_all_wrappers():
    import gymnasium

    class Lift(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

        def reset(self, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), None, False, False, {}

    limited = gymnasium.wrappers.TimeLimit(Lift(), 5)
    environment = make_eval_environment(Params(lambda *args, seed: limited), seed=0)
    environment.reset()
    with pytest.raises(
        UserCodeError, match="^Lift.step raised ValueError: the reward is a NoneType"
    ):
        environment.step(ACTION)
