import re

import numpy as np
import pytest
from replay_fakes import EpisodeStepEnv
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.core.programs.first_episode import FIRST_EPISODE
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment

ACTION = [0.0]


class TapeWatchdog:
    num_feeds = 0

    def feed(self):
        self.num_feeds += 1


class FragileEnv(EpisodeStepEnv):
    """Raises what `broken` says for a method; keeps the states it was given."""

    def __init__(self, **broken):
        super().__init__()
        self._broken = broken
        self.states = []

    def _reset(self):
        self._fail("reset")
        return super()._reset()

    def _step(self, action):
        self._fail("step")
        return super()._step(action)

    def set_state(self, state):
        self._fail("set_state")
        self.states.append(state)

    def _fail(self, method):
        if method in self._broken:
            raise self._broken[method]


@pytest.mark.parametrize("method", ["reset", "step"])
def test_what_has_failed_is_replaced_at_the_next_reset(method):
    error, made = KeyError("joint"), []

    def make(num_failures):
        made.append(num_failures)
        return EpisodeStepEnv()

    environment = ReplaceableEnvironment(FragileEnv(**{method: error}), make, TapeWatchdog())
    with pytest.raises(EnvironmentFailure) as error_info:
        environment.reset()
        environment.step(ACTION)
    assert error_info.value.__cause__ is error
    assert made == []
    assert environment.reset().is_first()
    assert environment.step(ACTION).observation.tolist() == [0, 1]
    assert (made, environment.num_failures) == ([1], 1)


def test_a_constructor_that_fails_is_one_more_failure_and_is_tried_again():
    attempts = iter([OSError("no display"), EpisodeStepEnv()])

    def make(_):
        result = next(attempts)
        if isinstance(result, Exception):
            raise result
        return result

    environment = ReplaceableEnvironment(FragileEnv(reset=ValueError()), make, TapeWatchdog())
    for _ in range(2):
        with pytest.raises(EnvironmentFailure):
            environment.reset()
    assert environment.num_failures == 2
    assert environment.reset().is_first()


def test_a_new_environment_gets_the_newest_value_of_each_state():
    first, second = FragileEnv(step=RuntimeError()), FragileEnv()
    environment = ReplaceableEnvironment(first, lambda _: second, TapeWatchdog())
    for state in ({"mass": 1.0}, {"level": 2}, {"mass": 3.0}):
        environment.set_state(state)
    environment.reset()
    with pytest.raises(EnvironmentFailure):
        environment.step(ACTION)
    environment.set_state({"level": 4})
    environment.reset()
    assert first.states == [{"mass": 1.0}, {"level": 2}, {"mass": 3.0}]
    assert second.states == [{"mass": 3.0}, {"level": 4}]


def test_wrong_input_is_no_failure_of_the_environment():
    wrong = ConfigError("no set_state")
    environment = ReplaceableEnvironment(FragileEnv(set_state=wrong), None, TapeWatchdog())
    with pytest.raises(ConfigError, match="no set_state"):
        environment.set_state({"mass": 1.0})
    assert environment.num_failures == 0


def test_every_call_that_may_hang_feeds_the_watchdog():
    watchdog = TapeWatchdog()
    environment = ReplaceableEnvironment(FragileEnv(), None, watchdog)
    environment.set_state({"mass": 1.0})
    environment.reset()
    environment.step(ACTION)
    assert watchdog.num_feeds == 3


class WrongResetEnv(EpisodeStepEnv):
    """Its `reset` returns what it is given."""

    def __init__(self, answer):
        super().__init__()
        self._answer = answer

    def _reset(self):
        return self._answer


WRONG_RESETS = {
    "None": (None, "reset of the environment returned a NoneType; expected a TimeStep"),
    "a tuple": ((np.zeros(2), {}), "reset of the environment returned a tuple; expected"),
    "an array": (np.zeros(2), "reset of the environment returned a ndarray; expected"),
    "shape": (ts.restart(np.zeros(3, np.float32)),
              "returned observation of shape [3]; its observation_spec says [2]."),
    "a scalar": (ts.restart(np.float32(1)), "returned observation of shape []"),
    "a dict": (ts.restart({"a": np.zeros(2)}), "is not built as its observation_spec says: "),
    "nothing in it": (ts.restart(None), "returned observation of shape []"),
}  # fmt: skip


@pytest.fixture
def first_episode(tmp_path):
    """That of a run which begins."""
    paths = ExperimentPaths(tmp_path)
    paths.running.mkdir()
    FIRST_EPISODE.set_run(paths)
    return FIRST_EPISODE


@pytest.mark.parametrize("what", WRONG_RESETS)
def test_a_wrong_reset_is_wrong_input_until_the_first_whole_episode_of_a_start(first_episode, what):
    answer, message = WRONG_RESETS[what]
    environment = ReplaceableEnvironment(
        WrongResetEnv(answer), lambda _: WrongResetEnv(answer), TapeWatchdog()
    )
    with pytest.raises(ConfigError, match=re.escape(message)):
        environment.reset()
    ExperimentPaths(first_episode._paths.root).first_episode.touch()  # by another worker
    with pytest.raises(EnvironmentFailure, match=re.escape(message)):
        environment.reset()
    assert environment.num_failures == 1


def test_every_wrong_input_that_an_environment_shows_late_is_its_failure(first_episode):
    def make(_):
        raise ConfigError("no such camera")

    environment = ReplaceableEnvironment(
        FragileEnv(reset=ConfigError("no key")), make, TapeWatchdog()
    )
    first_episode.end()
    for message in ("no key", "no such camera", "no such camera"):
        with pytest.raises(EnvironmentFailure, match=message):
            environment.reset()
    assert environment.num_failures == 3
    with pytest.raises(UserCodeError, match="expected a pair"), first_episode.judges():
        raise ConfigError("expected a pair")


def test_a_step_that_returns_no_time_step_is_a_failure():
    environment = ReplaceableEnvironment(EpisodeStepEnv(), None, TapeWatchdog())
    environment.reset()
    environment.current()._step = lambda action: (np.zeros(2), 0.0, False, {})
    with pytest.raises(EnvironmentFailure, match="step of the environment returned a tuple"):
        environment.step(ACTION)
