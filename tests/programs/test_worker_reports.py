"""Observers, and what a worker says in its log and report."""

import errno
import os

import numpy as np
import pytest
import tensorflow as tf
from fakes import Tape
from replay_fakes import EpisodeStepEnv
from tf_agents.metrics import py_metrics
from tf_agents.trajectories import trajectory
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

from tfagents_system.collection import csv_log, worker_records
from tfagents_system.collection.best_policy_keeper import BestPolicyKeeper
from tfagents_system.collection.step_observers import StepObservers
from tfagents_system.core.errors import EXIT_FINISHED, ConfigError
from tfagents_system.core.process import reporting
from tfagents_system.core.state import status_reporter
from tfagents_system.core.state.reports import read_report
from tfagents_system.films import camera
from tfagents_system.records import event_files, event_log
from tfagents_system.records.run_history import read_evaluations


def test_observers_get_the_trajectory_of_each_step_of_their_kind(tmp_path):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(NUM_ITER, 1))
    collected, evaluated, returns = [], [], py_metrics.AverageReturnMetric()
    run.params.train_observers_ctor = lambda id: [collected.append, returns]
    run.params.eval_observers_ctor = lambda: (evaluated.append,)
    environment = EpisodeStepEnv(ends=[(2, 0.0), (9, 1.0)])  # cut at the horizon, 3
    adder = FakeAdder(advance(reader, first=NUM_ITER - 2))
    make_worker(run, adder, reader, environment=environment).run(no_fill, None)
    assert all(isinstance(step, trajectory.Trajectory) for step in collected + evaluated)
    assert len(collected) == adder.num_added == environment.num_steps
    assert len(evaluated) == 3
    first, second, third, _, fifth = collected[:5]
    assert [int(step.step_type) for step in collected[:5]] == [0, 1, 0, 1, 1]
    assert [int(step.next_step_type) for step in collected[:5]] == [1, 2, 1, 1, 2]
    assert (first.reward, second.reward, second.discount) == (1.0, 2.0, 0.0)
    assert (third.observation.tolist(), fifth.reward, fifth.discount) == ([1, 0], 103.0, 1.0)
    assert first.action.shape == (1,) and first.policy_info == ()
    mean = ((1 + 2) + (101 + 102 + 103) + (201 + 202)) / 3
    assert returns.result() == pytest.approx(mean)


@pytest.mark.parametrize("result", [None, [3], "log"])
def test_a_hook_that_returns_no_observers_is_refused(result):
    def eval_observers_ctor():
        return result

    with pytest.raises(ConfigError, match="eval_observers_ctor returned .*expected a list of"):
        StepObservers(eval_observers_ctor, worker_id=0, horizon=3)


def test_a_time_limit_that_looks_like_a_termination_is_said_in_log_and_report(tmp_path, capsys):
    run, reader = make_run(tmp_path), FakeReader()  # episodes of 3 steps that end with discount 0
    make_worker(run, FakeAdder(advance(reader)), reader).run(no_fill, None)
    warning = "episodes ended after 3 steps (the horizon) with discount 0"
    assert capsys.readouterr().out.count(f"WARNING: 10 {warning}") == 1
    assert warning in read_report(run.paths, "worker_0").suspicion

    (tmp_path / "limited").mkdir()
    run, reader = make_run(tmp_path / "limited"), FakeReader()
    environment = EpisodeStepEnv(ends=[(3, 1.0)])
    adder = FakeAdder(advance(reader))
    make_worker(run, adder, reader, environment=environment).run(no_fill, None)
    assert read_report(run.paths, "worker_0").suspicion is None


def test_a_success_that_cannot_be_read_ends_nothing_and_is_said_once(tmp_path, capsys):
    environment, reader = EpisodeStepEnv(), FakeReader(FakeTickets(NUM_ITER, 3))
    environment.get_info = lambda: {"is_success": np.array([True, False])}
    run = make_run(tmp_path)
    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert [row["success"] for row in rows_of(run, "eval")] == [""] * 3
    assert read_report(run.paths, "worker_0").remark == "SUCCESS CANNOT BE READ"
    printed = capsys.readouterr().out
    assert printed.count("NOTE: info['is_success'] is bool of shape (2,); expected a bool") == 1


def test_the_report_counts_the_successes_of_the_newest_evaluation(tmp_path):
    environment, reader = EpisodeStepEnv(), FakeReader(FakeTickets(NUM_ITER, 3))
    successes = iter([{"is_success": True}, {"is_success": True}, {}])  # only successes are said
    environment.get_info = lambda: next(successes)
    run = make_run(tmp_path)
    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    share = read_report(run.paths, "worker_0").eval
    assert (share.successes, len(share.returns)) == (1 + 1 + 0, 3)
    (point,) = read_evaluations(run.paths)
    assert point.success_rate == (1 + 1 + 0) / 3


def test_numbers_of_log_info_are_recorded_and_faults_said_once(tmp_path, capsys):
    reader = FakeReader(FakeTickets(NUM_ITER, 2))
    environment, eval_environment = EpisodeStepEnv(), EpisodeStepEnv()
    environment.get_info = lambda: {"distance": environment._position}  # 1, 2, 3
    eval_environment.get_info = lambda: {"distance": 10.0}
    run = make_run(tmp_path, log_info=("distance", "distance:last", "speed"), log_period_itrs=1)
    worker = make_worker(
        run, FakeAdder(advance(reader)), reader,
        environment=environment, eval_environment=eval_environment,
    )  # fmt: skip
    assert worker.run(no_fill, None) == EXIT_FINISHED
    episodes = len(rows_of(run, "collect"))
    found = [(row["name"], row["value"]) for row in rows_of(run, "info_collect")]
    assert found == [("distance_mean", f"{(1 + 2 + 3) / 3:g}"), ("distance_last", "3")] * episodes
    (point,) = read_evaluations(run.paths)
    assert point.numbers == {"distance_mean": 10.0, "distance_last": 10.0}
    summaries = event_files.read_scalars(run.paths.train_summaries / "worker_0")
    assert {s.value for s in summaries["collect/info/distance_mean"]} == {2.0}
    report = read_report(run.paths, "worker_0")
    assert report.numbers == {"distance_mean": 10.0, "distance_last": 10.0}
    assert report.remark == "LOG_INFO: NOTHING IS CALLED speed"
    assert capsys.readouterr().out.count("NOTE: log_info has 'speed', but no key") == 1


def test_callbacks_are_told_of_start_episodes_and_end_and_may_raise(tmp_path):
    run, reader, tape = make_run(tmp_path), FakeReader(FakeTickets(NUM_ITER, 2)), Tape()
    run.params.callbacks = lambda program: [tape]
    assert make_worker(run, FakeAdder(advance(reader)), reader).run(no_fill, None) == EXIT_FINISHED
    first, *episodes, last = tape.events
    assert (type(first).__name__, first.program) == ("Event", "worker_0")
    collected = [event for event in episodes if not event.is_evaluation]
    rows = rows_of(run, "collect")
    assert [(e.train_step, e.env_step, e.length) for e in collected] == [
        (int(row["train_step"]), int(row["env_step"]), 3) for row in rows
    ]
    assert [f"{e.episode_return:g}" for e in collected] == [row["return"] for row in rows]
    assert len(episodes) - len(collected) == 2 and (last.end, last.iteration) == ("finished", 20)
    failure = read_report(run.paths, "worker_0").failure
    assert failure.startswith("CALLBACK FAILED: Tape.on_end raised RuntimeError: tape is full (")


def broken(*arguments, **more):
    raise RuntimeError("broken")


def fill_disk(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "module, name",
    [
        (event_log.tf.summary, "create_file_writer"),
        (csv_log, "append_whole"),
        (status_reporter, "write_json_atomically"),
        (status_reporter, "overwrite"),
        (camera.Camera, "_write"),
        (camera.Camera, "end"),
        (worker_records.EpisodeEnds, "note"),
        (worker_records.PhaseTimer, "totals"),
    ],
)
def test_nothing_that_only_reports_ends_a_worker(tmp_path, monkeypatch, capsys, module, name):
    run, reader = make_run(tmp_path, log_period_itrs=1), FakeReader(FakeTickets(8, 2))
    monkeypatch.setattr(module, name, broken)
    if name == "overwrite":
        monkeypatch.setattr(status_reporter, "write_json_atomically", fill_disk)
    worker = make_worker(run, adder := FakeAdder(advance(reader)), reader)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert adder.num_added >= 3 * (NUM_ITER - 1)
    said = capsys.readouterr().out
    assert "REPORT FAILED" in said or "No video of" in said


def test_a_best_policy_that_cannot_be_kept_is_counted_in_the_status(tmp_path):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(8, 2))
    worker = make_worker(run, FakeAdder(advance(reader)), reader)
    worker._keep_best = broken
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert iterations_evaluated(run) == [8] * 2 + [16] * 2 + [20] * 2
    assert read_report(run.paths, "worker_0").failed_reports == reporting.num_failed() == 6


@pytest.mark.parametrize("rewards", [(1e-3, 1e13), (1e308, 1e308), (np.nan, 1.0), (np.inf, -1.0)])
def test_evaluations_of_any_returns_are_recorded(tmp_path, rewards):
    class Rewarding(EpisodeStepEnv):
        def _step(self, action):
            time_step = super()._step(action)
            return time_step._replace(reward=rewards[self.num_steps % 2])

    run, reader = make_run(tmp_path, n_eval_episodes=2), FakeReader(FakeTickets(8, 2))
    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=Rewarding())
    worker._keep_best = BestPolicyKeeper(run, [tf.Variable("")], worker._records.callbacks).keep
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert iterations_evaluated(run) == [8] * 2 + [16] * 2 + [20] * 2
    assert reporting.num_failed() == 0
    assert read_report(run.paths, "worker_0").eval.iteration == 20


def test_the_status_shows_how_old_the_policy_is(tmp_path):
    run, reader = make_run(tmp_path), FakeReader()
    worker = make_worker(run, FakeAdder(advance(reader)), reader)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert 0 <= read_report(run.paths, "worker_0").policy_age_secs < 60
