import pytest
from report_fakes import learner_report, write_report

from tfagents_system.core.state.failure_reports import report_failure
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase, read_report


@pytest.mark.parametrize("program", ["learner", "worker_3", "evaluator_0", "replay"])
def test_a_failure_before_the_first_report_is_shown(tmp_path, program):
    paths = ExperimentPaths(tmp_path)
    report_failure(paths, program, "Arm() raised SystemExit: please set SIM_HOME")
    report = read_report(paths, program)
    assert (report.program, report.phase) == (program, Phase.STARTING)
    assert report.failure == "Arm() raised SystemExit: please set SIM_HOME"


def test_what_was_said_of_the_progress_stays(tmp_path):
    paths = ExperimentPaths(tmp_path)
    write_report(paths, learner_report(train_step=6_000))
    report_failure(paths, "learner", "no licence")
    report = read_report(paths, "learner")
    assert (report.train_step, report.failure) == (6_000, "no licence")


def test_a_service_that_reports_nothing_is_left_out(tmp_path):
    report_failure(ExperimentPaths(tmp_path), "relay", "no licence")
    assert list(tmp_path.iterdir()) == []
