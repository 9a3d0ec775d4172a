from fakes import FakeClock

from tfagents_system.learning.save_record import LONG_SAVE_SECS, SaveRecord


def test_the_record_tells_for_how_long_nothing_has_been_saved_and_why():
    clock = FakeClock()
    record = SaveRecord(clock)
    assert (record.problem, record.failed, record.train_step) == (None, False, None)
    record.begin()
    clock.now = 60.0
    record.fail("Input/output error")
    assert record.problem == "1 min (1 attempt): Input/output error"
    record.begin()
    clock.now = 245.0
    assert record.problem.startswith("4 min 5 s: the replay server has been writing for 3 min 5 s")
    record.fail("Stale file handle")
    assert record.problem == "4 min 5 s (2 attempts): Stale file handle"
    assert record.failed and record.train_step is None
    record.begin()
    record.succeed(700)
    assert (record.problem, record.failed, record.train_step) == (None, False, 700)


def test_a_save_that_takes_its_time_is_no_problem_until_it_is_long():
    clock = FakeClock()
    record = SaveRecord(clock)
    record.begin()
    clock.now = LONG_SAVE_SECS - 1
    assert record.problem is None
    clock.now = LONG_SAVE_SECS
    assert "has been writing for 2 min" in record.problem
