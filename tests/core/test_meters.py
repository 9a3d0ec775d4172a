import pytest
from fakes import FakeClock

from tfagents_system.core.meters import PhaseTimer, RateMeter, RecentRate


@pytest.fixture
def clock():
    return FakeClock(100.0)


def test_rate_is_the_mean_since_the_last_reading(clock):
    meter = RateMeter(10, clock=clock)
    clock.now += 4.0
    assert meter.rate_at(30) == (30 - 10) / 4
    clock.now += 0.5
    assert meter.rate_at(31) == (31 - 30) / 0.5
    clock.now += 1.0
    assert meter.rate_at(31) == 0.0


def test_rate_of_two_readings_at_the_same_time_is_finite(clock):
    meter = RateMeter(clock=clock)
    assert meter.rate_at(0) == 0.0


def test_rate_of_a_window_is_even_though_events_come_in_bursts(clock):
    meter = RateMeter(0, 10.0, clock=clock)
    rates = []
    for second in range(1, 41):  # 60 events at once every fifth second
        clock.now += 1.0
        rates.append(meter.rate_at(60 * (second // 5)))
    assert set(rates[9:]) == {60 / 5}


def test_rate_of_a_window_falls_to_zero_and_does_not_end_at_a_long_gap(clock):
    meter = RateMeter(0, 10.0, clock=clock)
    clock.now += 5.0
    assert meter.rate_at(100) == 100 / 5
    clock.now += 30.0  # one long event
    assert meter.rate_at(101) == (101 - 100) / 30
    clock.now += 10.0
    assert meter.rate_at(101) == 0.0


def test_recent_rate_is_the_mean_over_its_window_with_the_waits(clock):
    meter = RecentRate(999, 60.0, clock=clock)
    assert meter.rate_at(999) is None
    clock.now += 5.0  # with the first event: does not count
    assert meter.rate_at(1_000) is None
    clock.now += 10.0
    assert meter.rate_at(2_000) == (2_000 - 1_000) / 10
    clock.now += 30.0  # a wait
    assert meter.rate_at(2_000) == (2_000 - 1_000) / (10 + 30)
    clock.now += 25.0  # the first reading is 65 s old, and the second 55 s
    assert meter.rate_at(4_750) == (4_750 - 2_000) / (30 + 25)
    clock.now += 61.0
    assert meter.rate_at(5_000) is None


def test_recent_rate_leaves_out_what_was_before_it_began_anew(clock):
    meter = RecentRate(0, clock=clock)
    for count in (1_000, 2_000):
        assert meter.rate_at(count) in (None, 1_000 / 10)
        clock.now += 10.0
    clock.now += 300.0
    meter.begin_anew(2_000)
    assert meter.rate_at(2_000) is None
    clock.now += 5.0
    assert meter.rate_at(2_100) is None
    clock.now += 2.0
    assert meter.rate_at(2_500) == (2_500 - 2_100) / 2


def test_phases_add_up_to_the_time_that_passed(clock):
    timer = PhaseTimer("starting", clock)
    clock.now += 5
    assert timer.enter("acting") == 5
    clock.now += 2
    assert timer.enter("env step") == 2
    clock.now += 3
    assert timer.totals() == {"starting": 5, "acting": 2, "env step": 3}
    clock.now += 4
    timer.move(1.5, "env step", "acting")
    assert timer.totals() == {"starting": 5, "acting": 2 + 1.5, "env step": 3 + 4 - 1.5}


def test_shares_are_those_of_the_time_since_the_last_reading(clock):
    timer = PhaseTimer("starting", clock)
    clock.now += 6
    timer.enter("acting")
    clock.now += 2
    assert timer.shares() == {"starting": 6 / 8, "acting": 2 / 8}
    clock.now += 3
    timer.enter("env step")
    clock.now += 1
    assert timer.shares() == {"starting": 0, "acting": 3 / 4, "env step": 1 / 4}
