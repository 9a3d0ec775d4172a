import numpy as np
import pytest
from fakes import CountingEnv
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.evaluation.rollouts import Episode, run_episode


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
        aux = {"successful": np.array([self._successful], np.int32)}
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
        (ReportingEnv({}), None),
        (ReportingEnv(None), None),
        (AuxEnv(1), True),
        (AuxEnv(0), False),
        (CountingEnv(terminates_at=2), None),  # whose get_info is not implemented
    ],
)
def test_success_is_what_the_environment_reports_at_the_end(environment, success):
    assert run_episode(environment, StatefulPolicy(), horizon=10).success is success
