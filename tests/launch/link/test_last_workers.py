import pytest
from fakes import FakeClock
from report_fakes import learner_report, worker_report, write_report

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase
from tfagents_system.launch.link import last_workers
from tfagents_system.launch.link.last_workers import LONG_STEP_SECS, SILENT_SECS, TIMEOUT_SECS
from tfagents_system.launch.show.status import Watch

LOOK_SECS = 10  # between looks of the test; divides all limits


class Lab:
    """A run whose learner has ended, and what is awaited of the others."""

    def __init__(self, folder):
        self.paths, self.clock = ExperimentPaths(folder), FakeClock()
        self._watch = Watch(self.paths, self.clock)
        self._last = last_workers.LastWorkers(self.paths, self.clock)
        self._sequence = 0
        write_report(self.paths, learner_report(phase=Phase.FINISHED))

    def report(self, name, phase):
        self._sequence += 1
        write_report(
            self.paths, worker_report(program=name, phase=phase, sequence=self._sequence, host="b")
        )

    def secs_awaited(self, most, **phases):
        """Returns for how long they are awaited, if those in `phases` go on to report these."""
        for second in range(0, most, LOOK_SECS):
            for name, phase in phases.items():
                self.report(name, phase)
            if not self._last.are_awaited(self._watch.look()):
                return second
            self.clock.now += LOOK_SECS
        return most

    @property
    def given_up(self):
        return self._last.given_up


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


@pytest.mark.parametrize("name", ["worker_0", "evaluator_0"])
@pytest.mark.parametrize("phase", [Phase.EVALUATING, Phase.PAUSED])
def test_who_evaluates_or_is_paused_is_awaited_without_limit(lab, name, phase):
    long = round(3 * TIMEOUT_SECS)
    assert lab.secs_awaited(long, **{name: phase}) == long
    assert lab.secs_awaited(long, **{name: Phase.FINISHED}) == 0
    assert not lab.given_up


def test_what_neither_evaluates_nor_ends_is_awaited_for_a_while_from_the_last_evaluation_on(lab):
    lab.secs_awaited(1000, worker_0=Phase.EVALUATING)
    assert lab.secs_awaited(2000, worker_0=Phase.COLLECTING) == TIMEOUT_SECS - LOOK_SECS
    (why,) = lab.given_up.values()
    assert why == f"worker_0 (collecting on b) has not ended within {TIMEOUT_SECS:.0f} s"


@pytest.mark.parametrize(
    ("phase", "secs"), [(Phase.COLLECTING, SILENT_SECS), (Phase.EVALUATING, LONG_STEP_SECS)]
)
def test_a_silent_program_of_another_host_is_given_up(lab, phase, secs):
    lab.report("worker_0", Phase.STOPPED)
    lab.report("worker_1", phase)
    assert lab.secs_awaited(1000) == secs
    assert lab.given_up == {"worker_1": f"worker_1 ({phase} on b) has been silent for {secs:.0f} s"}


def test_a_program_of_this_share_may_be_in_a_long_step_or_still_starting(lab):
    for name in ("worker_0", "evaluator_1"):
        (lab.paths.services / name).mkdir(parents=True)
    lab.report("worker_0", Phase.COLLECTING)
    assert lab.secs_awaited(1000) == LONG_STEP_SECS
    assert lab.given_up == {
        "worker_0": f"worker_0 (collecting on b) has been silent for {LONG_STEP_SECS:.0f} s",
        "evaluator_1": "evaluator_1 (which has not reported) has not ended within "
        f"{TIMEOUT_SECS:.0f} s",
    }


def test_the_program_says_whom_it_has_given_up(tmp_path, monkeypatch, capsys):
    paths = ExperimentPaths(tmp_path)
    paths.episodes.mkdir()
    last_workers.await_last_workers(tmp_path)  # there are none
    write_report(paths, worker_report(program="evaluator_0", phase=Phase.EVALUATING))
    monkeypatch.setattr(last_workers, "LONG_STEP_SECS", 0.0)
    last_workers.await_last_workers(tmp_path)
    assert capsys.readouterr().out == (
        "The last evaluation may lack episodes: evaluator_0 (evaluating on here) has been silent "
        "for 0 s.\n"
    )
