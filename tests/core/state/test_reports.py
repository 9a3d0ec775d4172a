import json
import os
import platform
import re

import pytest
from fakes import FakeClock
from report_fakes import learner_report, replay_report, worker_report, write_report
from small_disk import small_disk

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Evaluation, Phase, ReportError, read_report
from tfagents_system.core.state.status_reporter import StatusReporter

FIELDS = {"phase_secs": {}, "transitions": 5, "capacity": 10, "fill_target": 7}


@pytest.fixture
def clock():
    return FakeClock(100.0)


@pytest.fixture
def paths(tmp_path):
    return ExperimentPaths(tmp_path)


@pytest.fixture
def reporter(paths, clock):
    return StatusReporter(paths, "replay", period_secs=2.0, clock=clock)


def test_first_report_is_written_at_once_and_says_whose_it_is(paths, reporter):
    reporter.report(Phase.SERVING, lambda: FIELDS)
    report = read_report(paths, "replay")
    assert (report.program, report.host, report.pid) == ("replay", platform.node(), os.getpid())
    assert report.written_at > 1.7e9  # unix time, unlike the clock
    assert (report.sequence, report.phase, report.transitions) == (0, Phase.SERVING, 5)


def test_report_before_the_period_is_over_is_dropped_and_its_fields_not_made(
    paths, reporter, clock
):
    made = []

    def fields(number):
        made.append(number)
        return FIELDS | {"transitions": number}

    for now, number in [(100.0, 1), (101.9, 2), (102.0, 3), (103.9, 4), (104.0, 5)]:
        clock.now = now
        reporter.report(Phase.SERVING, lambda number=number: fields(number))
    assert made == [1, 3, 5]
    report = read_report(paths, "replay")
    assert (report.transitions, report.sequence) == (5, 2)


def test_report_now_is_written_in_any_case_and_begins_a_period(paths, reporter, clock):
    reporter.report(Phase.SERVING, lambda: FIELDS)
    reporter.report_now(Phase.SAVING, FIELDS)
    clock.now += 1.9
    reporter.report(Phase.SERVING, lambda: FIELDS)
    assert read_report(paths, "replay").phase == Phase.SAVING


def test_a_report_goes_on_with_the_old_fields_when_new_ones_fail(paths, reporter, clock, capsys):
    def broken():
        raise RuntimeError("no answer")

    reporter.report(Phase.SERVING, broken)  # there are none yet
    assert read_report(paths, "replay") is None
    for fields in (lambda: FIELDS, broken, broken):
        clock.now += 2.0
        reporter.report(Phase.SERVING, fields)
    report = read_report(paths, "replay")
    assert (report.sequence, report.transitions) == (2, FIELDS["transitions"])
    assert report.failed_reports == 3
    assert (
        "REPORT FAILED: fields of the status (RuntimeError: no answer)" in capsys.readouterr().out
    )


def test_fields_that_fail_from_the_start_are_made_once_a_period(reporter, clock):
    made = []

    def broken():
        made.append(clock.now)
        raise RuntimeError("no answer")

    for now in (100.0, 100.001, 101.9, 102.0, 102.001):
        clock.now = now
        reporter.report(Phase.SERVING, broken)
    assert made == [100.0, 102.0]


def test_a_field_that_the_report_has_not_is_an_error(reporter):
    with pytest.raises(TypeError, match="items"):
        reporter.report_now(Phase.SERVING, FIELDS | {"items": 3})
    with pytest.raises(TypeError, match="capacity"):
        reporter.report_now(Phase.SERVING, {"phase_secs": {}, "transitions": 5, "fill_target": 7})


@pytest.mark.parametrize(
    "report",
    [
        learner_report(phase_secs={"saving": 1.5, "train steps": 3}),
        worker_report(
            3, eval=Evaluation(7, [-1.0, 2.0]), curriculum={"mass": 2.0, "level": 9}, suspicion="?"
        ),
        replay_report(),
    ],
)
def test_what_is_written_is_what_is_read(paths, report):
    write_report(paths, report)
    assert read_report(paths, report.program) == report


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"env_steps": None}, "worker_0.json: env_steps is None, no int"),
        ({"env_steps": 1.5}, "worker_0.json: env_steps is 1.5, no int"),
        ({"env_steps": True}, "worker_0.json: env_steps is True, no int"),
        ({"host": 3}, "worker_0.json: host is 3, no str"),
        ({"phase": "sleeping"}, "worker_0.json: phase is 'sleeping', no Phase"),
        ({"eval": {"iteration": 3}}, "worker_0.json: eval: returns is missing"),
        ({"curriculum": {"mass": "heavy"}}, "worker_0.json: curriculum[mass] is 'heavy', no float"),
        ({"speed": 3}, "worker_0.json: speed is unknown"),
    ],
)
def test_a_wrong_field_is_named(paths, changes, problem):
    write_report(paths, worker_report())
    path = paths.status("worker_0")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ReportError, match=re.escape(problem)):
        read_report(paths, "worker_0")


def test_a_missing_field_is_named(paths):
    write_report(paths, worker_report())
    path = paths.status("worker_0")
    fields = json.loads(path.read_text())
    del fields["last_return"]
    path.write_text(json.dumps(fields))
    with pytest.raises(ReportError, match="worker_0.json: last_return is missing"):
        read_report(paths, "worker_0")


@pytest.mark.parametrize("text", ["", "[]", '{"pid": 1, "ho', "\xff"])
def test_a_damaged_report_is_an_error_and_none_is_none(paths, text):
    assert read_report(paths, "learner") is None
    paths.statuses.mkdir()
    paths.status("learner").write_text(text)
    with pytest.raises(ReportError, match="learner.json"):
        read_report(paths, "learner")


def test_on_a_full_disk_reports_go_on(clock, capsys):
    with small_disk(1 << 20) as disk:
        paths = ExperimentPaths(disk.folder)
        reporter = StatusReporter(paths, "replay", clock=clock)
        reporter.report_now(Phase.SERVING, FIELDS)
        disk.fill()
        reporter.report_now(Phase.SAVING, FIELDS | {"transitions": 1234567})
        reporter.report_now(Phase.STOPPED, FIELDS)
        report = read_report(paths, "replay")
        assert (report.phase, report.sequence) == (Phase.STOPPED, 2)
        assert [path.name for path in paths.statuses.iterdir()] == ["replay.json"]
        assert capsys.readouterr().out == ""


def test_first_report_on_a_full_disk_is_left_out(clock, capsys):
    with small_disk(1 << 20) as disk:
        disk.fill()
        reporter = StatusReporter(ExperimentPaths(disk.folder), "replay", clock=clock)
        reporter.report_now(Phase.STARTING, FIELDS)
        assert capsys.readouterr().out.startswith("DISK FULL: status needs 4.1 kB, 0 B free in ")
