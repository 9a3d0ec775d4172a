import pytest
from replay_fakes import EpisodeStepEnv

from tfagents_system.core.errors import ConfigError
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
