import json

import pytest
from fakes import FakeClock
from small_disk import small_disk

from tfagents_system.core.paths import ExperimentPaths
from tfagents_system.core.reporting import PhaseTimer, RateMeter, StatusReporter


@pytest.fixture
def clock():
    return FakeClock(100.0)


@pytest.fixture
def reporter(tmp_path, clock):
    return StatusReporter(ExperimentPaths(tmp_path), "learner", period_secs=2.0, clock=clock)


def read(tmp_path):
    return json.loads((tmp_path / "status" / "learner.json").read_text())


def test_first_report_is_written_at_once(tmp_path, reporter):
    reporter.report("training", lambda: {"train_step": 5})
    report = read(tmp_path)
    assert report.pop("time") > 1.7e9  # unix time, unlike the clock
    assert report == {"phase": "training", "train_step": 5}


def test_report_before_the_period_is_over_is_dropped_and_its_fields_not_made(
    tmp_path, reporter, clock
):
    made = []

    def fields(number):
        made.append(number)
        return {"number": number}

    for now, number in [(100.0, 1), (101.9, 2), (102.0, 3), (103.9, 4), (104.0, 5)]:
        clock.now = now
        reporter.report("training", lambda number=number: fields(number))
    assert made == [1, 3, 5]
    assert read(tmp_path)["number"] == 5


def test_report_now_is_written_in_any_case_and_begins_a_period(tmp_path, reporter, clock):
    reporter.report("training")
    reporter.report_now("finished", {})
    assert read(tmp_path)["phase"] == "finished"
    clock.now += 1.9
    reporter.report("training")
    assert read(tmp_path)["phase"] == "finished"


def test_second_reporter_continues_in_the_same_folder(tmp_path, reporter, clock):
    reporter.report("training")
    StatusReporter(ExperimentPaths(tmp_path), "learner", clock=clock).report("again")
    assert read(tmp_path)["phase"] == "again"


def test_on_a_full_disk_reports_go_on(clock, capsys):
    with small_disk(1 << 20) as disk:
        reporter = StatusReporter(ExperimentPaths(disk.folder), "learner", clock=clock)
        reporter.report_now("waiting for data", {"train_step": 5})
        disk.fill()
        reporter.report_now("training", {"train_step": 1234567})
        reporter.report_now("saving", {})
        assert read(disk.folder)["phase"] == "saving"
        assert [path.name for path in (disk.folder / "status").iterdir()] == ["learner.json"]
        assert capsys.readouterr().out == ""


def test_first_report_on_a_full_disk_is_left_out(clock, capsys):
    with small_disk(1 << 20) as disk:
        disk.fill()
        StatusReporter(ExperimentPaths(disk.folder), "learner", clock=clock).report("starting")
        assert capsys.readouterr().out.startswith("DISK FULL: status needs 4.1 kB, 0 B free in ")


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
