"""A worker and an evaluator while collection is paused."""

import pytest
from replay_fakes import EpisodeStepEnv
from worker_fakes import (
    NUM_ITER,
    FakeAdder,
    FakeReader,
    FakeTickets,
    advance,
    iterations_evaluated,
    make_run,
    make_worker,
    no_fill,
    rows_of,
)

from tfagents_system.collection import worker_base
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED
from tfagents_system.core.state import pause as pauses
from tfagents_system.core.state.pause import COLLECTION, LEARNING, pause, resume
from tfagents_system.core.state.reports import Phase, read_report


class PausingEnv(EpisodeStepEnv):
    """Somebody pauses the run in its env step number `at`, from 1."""

    def __init__(self, paths, at, part=COLLECTION):
        super().__init__()
        self._paths, self._at, self._part = paths, at, part

    def _step(self, action):
        time_step = super()._step(action)
        if self.num_steps == self._at:
            pause(self._paths, [self._part])
        return time_step


class Sleeper:
    """Stands for the module time in the worker; in its third sleep, somebody calls `wake`."""

    def __init__(self, run, environment, wake):
        self._run, self._environment, self._wake = run, environment, wake
        self.seen = []  # env steps and phase in each sleep

    def monotonic(self):
        return 0.0

    def sleep(self, secs):
        report = read_report(self._run.paths, "worker_0")
        self.seen.append((self._environment.num_steps, report and report.phase))
        if len(self.seen) == 3:
            self._wake()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Programs look and report at once."""
    monkeypatch.setattr(pauses, "LOOK_PERIOD_SECS", 0.0)
    monkeypatch.setattr(
        "tfagents_system.core.state.status_reporter.StatusReporter.report",
        lambda self, phase, make: self.report_now(phase, make()),
    )


def test_an_episode_ends_after_the_env_step_of_the_pause_and_a_new_one_begins_after_it(
    tmp_path, monkeypatch
):
    run, reader = make_run(tmp_path), FakeReader()
    environment = PausingEnv(run.paths, at=5)  # the second step of the second episode
    sleeper = Sleeper(run, environment, lambda: resume(run.paths))
    monkeypatch.setattr(worker_base, "time", sleeper)
    worker = make_worker(run, FakeAdder(advance(reader)), reader, environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert sleeper.seen == [(5, Phase.PAUSED)] * 3
    first, second, *_ = rows_of(run, "collect")
    assert [first["env_step"], second["env_step"]] == ["3", str(5 + 3)]
    assert [first["length"], second["length"]] == ["3", "3"]


def test_a_pause_of_learning_is_none_of_a_worker(tmp_path):
    run, reader = make_run(tmp_path), FakeReader()
    environment = PausingEnv(run.paths, 5, LEARNING)
    worker = make_worker(run, FakeAdder(advance(reader)), reader, environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED


def test_an_episode_of_an_evaluation_ends_in_a_pause_and_is_run_again(tmp_path, monkeypatch):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(NUM_ITER, 2))
    environment = PausingEnv(run.paths, at=2)
    sleeper = Sleeper(run, environment, lambda: resume(run.paths))
    monkeypatch.setattr(worker_base, "time", sleeper)
    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert sleeper.seen == [(2, Phase.PAUSED)] * 3
    assert environment.num_steps == 2 + 3 + 3
    assert iterations_evaluated(run) == [NUM_ITER] * 2


def test_a_worker_that_begins_in_a_pause_takes_no_env_step_and_can_be_stopped(
    tmp_path, monkeypatch
):
    run, reader, environment = make_run(tmp_path), FakeReader(), EpisodeStepEnv()
    pause(run.paths, [COLLECTION])
    stop = []
    sleeper = Sleeper(run, environment, lambda: stop.append(True))
    monkeypatch.setattr(worker_base, "time", sleeper)
    worker = make_worker(run, FakeAdder(advance(reader)), reader, 0, stop, environment)
    assert worker.run(no_fill, None) == EXIT_STOPPED
    assert sleeper.seen == [(0, Phase.PAUSED)] * 3
    assert environment.num_steps == 0
