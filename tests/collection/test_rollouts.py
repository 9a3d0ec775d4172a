import types

import numpy as np
import pytest
from fakes import CountingEnv
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.rollouts import Episode, run_episode
from tfagents_system.environments.own_arrays import InvalidArrayError
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment


class StatefulPolicy:
    """Acts with the number of env steps since the last initial state, divided by 100."""

    def initial_state(self):
        return 0

    def action(self, time_step, state):
        return np.array([state / 100], np.float32), state + 1


class ReportingEnv(CountingEnv):
    """Ends after 2 steps and reports `info` then."""

    def __init__(self, info):
        super().__init__(terminates_at=2)
        self._info = info

    def get_info(self):
        return self._info


class AuxEnv(CountingEnv):
    """Reports success in its observation."""

    def __init__(self, successful):
        super().__init__(terminates_at=2)
        self._successful = successful

    def observation_spec(self):
        aux = {"successful": array_spec.ArraySpec([1], np.int32)}
        return {"count": super().observation_spec(), "aux": aux}

    def _observation(self):
        aux = {"successful": np.ravel(np.array(self._successful, np.int32))}
        return {"count": super()._observation(), "aux": aux}


def test_episode_ends_with_the_environment():
    episode = run_episode(CountingEnv(terminates_at=3), StatefulPolicy(), horizon=10)
    assert episode == Episode(1.0 + 2.0 + 3.0, 3, None, True, is_terminal=True)


def test_episode_is_cut_at_the_horizon():
    environment = CountingEnv()
    episode = run_episode(environment, StatefulPolicy(), horizon=4)
    assert episode == Episode(1.0 + 2.0 + 3.0 + 4.0, 4, None, True)
    assert len(environment.actions) == 4


def test_each_episode_begins_with_a_reset_and_the_initial_policy_state():
    environment = CountingEnv(truncates_at=2)
    for _ in range(2):
        assert run_episode(environment, StatefulPolicy(), horizon=10).length == 2
    np.testing.assert_allclose(np.ravel(environment.actions), [0, 0.01, 0, 0.01])


def test_observer_sees_every_transition_of_the_episode():
    tape = []

    def observe(time_step, action, next_time_step, state):
        tape.append((time_step.observation.item(), action.item(), next_time_step.observation.item(),
                     next_time_step.discount.item(), bool(next_time_step.is_last())))  # fmt: skip
        return True

    run_episode(CountingEnv(terminates_at=2), StatefulPolicy(), 10, observe)
    assert tape == [(0.0, 0.0, 1.0, 1.0, False), (1.0, pytest.approx(0.01), 2.0, 0.0, True)]


def test_observer_ends_the_episode_which_is_then_not_complete():
    def observe(time_step, action, next_time_step: ts.TimeStep, state):
        return next_time_step.observation.item() < 2

    episode = run_episode(CountingEnv(), StatefulPolicy(), 10, observe)
    assert episode == Episode(1.0 + 2.0, 2, None, False)


@pytest.mark.parametrize(
    ("environment", "success"),
    [
        (ReportingEnv({"success": True}), True),
        (ReportingEnv({"success": np.bool_(False)}), False),
        (ReportingEnv({"is_success": np.float32(1)}), True),
        (ReportingEnv({"success": np.array(1)}), True),
        (ReportingEnv({"success": np.array([False])}), False),
        (ReportingEnv({"success": np.ones((1, 1), np.uint8)}), True),
        (ReportingEnv({"success": [0.0]}), False),
        (ReportingEnv({"success": 0}), False),
        (ReportingEnv({"success": None, "is_success": True}), True),
        (ReportingEnv(types.MappingProxyType({"success": True})), True),
        (ReportingEnv({}), None),
        (ReportingEnv(None), None),
        (AuxEnv(1), True),
        (AuxEnv(0), False),
        (CountingEnv(terminates_at=2), None),  # whose get_info is not implemented
    ],
)
def test_success_is_what_the_environment_reports_at_the_end(environment, success):
    episode = run_episode(environment, StatefulPolicy(), horizon=10)
    assert (episode.success, episode.success_fault) == (success, None)


@pytest.mark.parametrize(
    ("environment", "shown"),
    [
        (
            ReportingEnv({"is_success": np.array([True, False])}),
            "['is_success'] is bool of shape (2,)",
        ),
        (ReportingEnv({"success": np.zeros((2, 3))}), "is float64 of shape (2, 3)"),
        (ReportingEnv({"success": []}), "is float64 of shape (0,)"),
        (ReportingEnv({"success": "True"}), "is 'True'"),
        (ReportingEnv({"success": 0.7}), "is 0.7"),
        (ReportingEnv({"success": np.nan}), "is nan"),
        (ReportingEnv({"success": {"door": True}}), "is {'door': True}"),
        (ReportingEnv({"success": [[True], [True, False]]}), "is [[True], [True, False]]"),
        (AuxEnv([1, 1]), 'observation["aux"]["successful"] is int32 of shape (2,)'),
        (AuxEnv(2), "is array([2]"),
    ],
)
def test_a_report_of_success_that_is_no_yes_or_no_is_named_and_ends_nothing(environment, shown):
    episode = run_episode(environment, StatefulPolicy(), horizon=10)
    assert (episode.success, episode.is_complete) == (None, True)
    assert shown in episode.success_fault
    assert "; expected a bool, 0 or 1," in episode.success_fault


class OddEnv(CountingEnv):
    """Returns something else than numbers at its second step, which is the last."""

    def __init__(self, **odd):
        super().__init__(terminates_at=2)
        self._odd = odd

    def _step(self, action):
        time_step = super()._step(action)
        return time_step._replace(**self._odd) if time_step.is_last() else time_step


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"reward": None}, "reward is a NoneType at env step 2 of the episode; expected"),
        ({"reward": np.zeros(2)}, r"reward is a ndarray of shape \[2\] at env step 2"),
        ({"reward": "good"}, "reward is a str at env step 2"),
        ({"reward": {"arm": 1.0}}, "reward is a dict at env step 2"),
        ({"discount": None}, "discount is a NoneType at env step 2"),
    ],
)
def test_a_reward_or_discount_that_is_no_number_is_the_environments_failure(odd, message):
    with pytest.raises(InvalidArrayError, match=message):
        run_episode(OddEnv(**odd), StatefulPolicy(), horizon=10)
    environment = ReplaceableEnvironment(OddEnv(**odd), None, types.SimpleNamespace(feed=int))
    with pytest.raises(EnvironmentFailure, match=message), environment.judged():
        run_episode(environment, StatefulPolicy(), horizon=10)


class SharingEnv(CountingEnv):
    """Writes into each action, and returns the same buffer at each step; all observations 7s."""

    def __init__(self):
        super().__init__(truncates_at=3)
        self._buffer = np.zeros(1, np.float32)

    def _observation(self):
        self._buffer[:] = self._count
        return self._buffer

    def _step(self, action):
        time_step = super()._step(action)
        action *= 5
        return time_step


class KeepingPolicy(StatefulPolicy):
    """Keeps the actions that it chose, and the observations for which."""

    def __init__(self):
        self.actions, self.observations = [], []

    def action(self, time_step, state):
        action, state = super().action(time_step, state)
        self.actions.append(action)
        self.observations.append(time_step.observation)
        return action, state


def test_an_environment_that_writes_into_arrays_changes_neither_actions_nor_observations():
    environment, policy, steps = SharingEnv(), KeepingPolicy(), []

    def observe(time_step, action, next_time_step, state):
        steps.append((time_step.observation, action, next_time_step.observation))
        return True

    run_episode(environment, policy, 10, observe)
    chosen = [0, 0.01, 0.02]
    np.testing.assert_allclose(np.ravel(environment.actions), chosen)
    np.testing.assert_allclose(np.ravel(policy.actions), chosen)
    np.testing.assert_array_equal(np.ravel(policy.observations), [0, 1, 2])
    np.testing.assert_allclose(
        np.squeeze(steps), [[0, 0, 1], [1, 0.01, 2], [2, 0.02, 3]], rtol=1e-6
    )


class BrokenSensorEnv(CountingEnv):
    """Observes `value` from env step `at` on."""

    def __init__(self, at, value, **kwargs):
        super().__init__(**kwargs)
        self._at, self._value = at, value

    def _observation(self):
        return super()._observation() if self._count < self._at else np.float32([self._value])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 2])
def test_no_policy_acts_on_what_is_not_finite(at, value):
    environment = BrokenSensorEnv(at, value)
    with pytest.raises(InvalidArrayError, match=f"observation is not finite at env step {at} of"):
        run_episode(environment, StatefulPolicy(), 10)
    assert len(environment.actions) == at


def test_a_last_observation_that_is_not_finite_ends_an_episode_as_any():
    environment = BrokenSensorEnv(2, np.nan, terminates_at=2)
    assert run_episode(environment, StatefulPolicy(), 10).length == 2


def test_an_action_that_is_not_finite_reaches_no_environment():
    class DividingPolicy(StatefulPolicy):
        def action(self, time_step, state):
            return np.float32([np.nan if state == 2 else 0]), state + 1

    environment = CountingEnv()
    with pytest.raises(
        InvalidArrayError, match="^action is not finite at env step 3 of the episode"
    ):
        run_episode(environment, DividingPolicy(), 10)
    assert len(environment.actions) == 2


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(3, np.float32), r"observation has shape \[3\] at env step 2 of .* it had \[1\]"),
        ({"count": np.zeros(1)}, "observation is missing at env step 2 of the episode"),
    ],
)
def test_an_observation_on_whose_shape_no_policy_can_act_is_named(observation, message):
    class MultiplyingPolicy(StatefulPolicy):
        def action(self, time_step, state):
            return np.dot(time_step.observation, np.ones([1, 1], np.float32)), state

    class ChangingEnv(CountingEnv):
        def _observation(self):
            return super()._observation() if self._count < 2 else observation

    with pytest.raises(InvalidArrayError, match=message):
        run_episode(ChangingEnv(), MultiplyingPolicy(), 10)


def test_what_a_policy_raises_otherwise_is_its_own():
    class BrokenPolicy(StatefulPolicy):
        def action(self, time_step, state):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_episode(CountingEnv(), BrokenPolicy(), 10)
