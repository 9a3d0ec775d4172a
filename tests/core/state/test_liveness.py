import pytest
from fakes import FakeClock
from report_fakes import worker_report, write_report

from tfagents_system.core.state.liveness import SILENT_SECS, LivingPrograms
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase


@pytest.fixture
def paths(tmp_path):
    return ExperimentPaths(tmp_path)


@pytest.mark.parametrize(
    ("phase", "works"),
    [
        (Phase.COLLECTING, True),
        (Phase.WAITING_FOR_LEARNER, True),
        (Phase.PARKED, False),
        (Phase.STOPPED, False),
        (Phase.FINISHED, False),
    ],
)
def test_another_worker_of_any_number_works_if_its_report_says_so(paths, phase, works):
    others = LivingPrograms(paths, "worker_0", FakeClock())
    assert not others.any_works()
    write_report(paths, worker_report(0))
    assert not others.any_works()  # it is the one that asks
    write_report(paths, worker_report(4711, phase=phase))
    assert others.any_works() == works


def test_a_worker_that_has_vanished_counts_until_it_has_been_silent_for_long(paths):
    clock = FakeClock()
    others = LivingPrograms(paths, "worker_0", clock)
    write_report(paths, worker_report(3, written_at=0.0))  # by a clock that is years behind
    assert others.any_works()
    clock.sleep(SILENT_SECS - 1)
    write_report(paths, worker_report(3, sequence=1))
    assert others.any_works()
    clock.sleep(SILENT_SECS - 1)
    assert others.any_works()
    clock.sleep(1)
    assert not others.any_works()


def test_a_report_that_cannot_be_read_counts(paths):
    paths.statuses.mkdir()
    paths.status("worker_3").write_text("{")
    assert LivingPrograms(paths, "worker_0", FakeClock()).any_works()


def test_silence_is_measured_between_looks(paths):
    clock = FakeClock()
    others = LivingPrograms(paths, "worker_0", clock)
    assert others.silent_secs("worker_3") == 0.0  # it has not reported yet
    clock.sleep(100)
    assert others.silent_secs("worker_3") == 100.0
    write_report(paths, worker_report(3, phase=Phase.STOPPED))
    assert others.silent_secs("worker_3") == 0.0
    clock.sleep(7)
    assert others.silent_secs("worker_3") == 7.0
    assert others.working() == []
