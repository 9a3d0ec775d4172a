import pytest
from fakes import FakeClock

from tfagents_system.core import waiting


@pytest.fixture
def clock(monkeypatch):
    clock = FakeClock(50.0)
    monkeypatch.setattr(waiting.time, "monotonic", clock)
    monkeypatch.setattr(waiting.time, "sleep", clock.sleep)
    return clock


def test_wait_ends_as_soon_as_the_condition_is_true(clock):
    waiting.wait_until(lambda: clock.now >= 51.0, timeout_secs=10, what="x", poll_secs=0.25)
    assert clock.now == 51.0


def test_condition_that_is_true_already_does_not_wait_even_without_time(clock):
    waiting.wait_until(lambda: True, timeout_secs=-1, what="x")
    assert clock.now == 50.0


def test_wait_that_times_out_names_time_and_reason(clock):
    with pytest.raises(TimeoutError) as error:
        waiting.wait_until(lambda: False, timeout_secs=2.5, what="the replay server")
    assert str(error.value) == "Gave up after 2.5 s waiting for the replay server"
    assert 52.5 < clock.now <= 52.5 + 2 * 0.05
