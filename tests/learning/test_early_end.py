import pytest
from fakes import FakeClock

from tfagents_system.core.state.end_request import request_end, requested_end
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.learning.early_end import EarlyEnd


@pytest.fixture
def paths(tmp_path):
    paths = ExperimentPaths(tmp_path)
    paths.running.mkdir()
    return paths


def test_a_time_counts_with_earlier_starts(paths):
    clock = FakeClock()
    end = EarlyEnd(paths, "return >= 9 or time >= 2min", lambda: 50.0, clock=clock)
    assert end.reason is None
    clock.now += 120 - 50 - 1
    assert end.reason is None
    clock.now += 1
    assert end.reason == "time >= 2min"


def test_a_request_is_read_once_a_second_and_the_first_one_counts(paths):
    clock = FakeClock()
    end = EarlyEnd(paths, None, lambda: pytest.fail("no time is asked for"), clock=clock)
    assert end.reason is None
    request_end(paths, "enough")
    request_end(paths, "more than enough")
    assert end.reason is None
    clock.now += 1
    assert end.reason == requested_end(paths) == "enough"


def test_in_lock_step_a_request_counts_where_the_learner_looks(paths):
    end = EarlyEnd(paths, None, lambda: 0.0, in_lock_step=True, clock=FakeClock())
    end.look()
    assert end.reason is None
    request_end(paths, "enough")
    assert end.reason is None  # whenever the evaluation has ended
    end.look()
    assert end.reason == "enough"


def test_a_damaged_request_is_none(paths):
    for content in ("", "[]", "7", '{"reaso', "{}"):
        paths.end_request.write_text(content)
        assert requested_end(paths) is None
    request_end(paths, "enough")
    assert requested_end(paths) == "enough"
