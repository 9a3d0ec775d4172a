"""Every way to stop a run: its exit code, that nothing is left, and that it can go on."""

import itertools
import os
import signal
import subprocess
import time

import pytest
from system.tiny_run import HORIZON, STEPS_PER_ITER, TinyRun

from tfagents_system.core.process.ports import check_port_is_free
from tfagents_system.core.state.generations import newest_intact_generation
from tfagents_system.core.waiting import wait_until

pytestmark = pytest.mark.faults

NUM_TRAIN_STEPS = 60 * STEPS_PER_ITER  # of tiny_run.PARAMS


@pytest.fixture
def run(tmp_path):
    run = TinyRun(tmp_path)
    run.set_pace(0.1)
    yield run
    run.end()


def start_and_await_a_generation(run):
    process = run.start(num_workers=2)
    run.wait_for(run.generations, 180, "the first generation")
    run.await_train_step(run.generations()[0] + STEPS_PER_ITER)
    return process


def assert_nothing_is_left(run, timeout_secs):
    wait_until(lambda: run.alive() == {}, timeout_secs, f"the end of {run.alive()}")
    check_port_is_free(run.port())
    assert not list(run.paths.checkpoints.glob(".tmp-*"))


def assert_the_same_command_goes_on(run):
    """It does so from the newest generation, to the end of the training."""
    saved = run.generations()[0]
    assert int(newest_intact_generation(run.paths.checkpoints).name) == saved
    run.set_pace(0)
    assert run.await_end(run.start(num_workers=2), timeout_secs=120) == 0
    assert run.restored_steps()[-1] == saved
    assert run.generations()[0] == NUM_TRAIN_STEPS
    assert_nothing_is_left(run, 1)
    for worker_id in range(2):
        assert_axes_are_monotonic(run, worker_id)


def assert_axes_are_monotonic(run, worker_id):
    """Env steps always grow; train steps fall back only to what a learner has restored."""
    rows = run.episodes("collect", worker_id)
    for row, following in itertools.pairwise(rows):
        assert following["env_step"] > row["env_step"]
        if following["train_step"] < row["train_step"]:
            assert following["train_step"] in run.restored_steps()
    rows = run.episodes("eval", worker_id)
    assert [row["iteration"] for row in rows] == sorted(row["iteration"] for row in rows)


def twice(number):
    def stop(run, process):
        process.send_signal(number)
        time.sleep(0.05)
        process.send_signal(number)

    return stop


def to_every_process(run, process):
    """As SLURM does at the end of a job's time."""
    for pid in [*run.alive(), process.pid]:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue


STOPS = {
    "TERM": lambda run, process: process.terminate(),
    "INT twice": twice(signal.SIGINT),
    "HUP": lambda run, process: process.send_signal(signal.SIGHUP),
    "INT to the group": lambda run, process: os.killpg(process.pid, signal.SIGINT),
    "TERM to the group": lambda run, process: os.killpg(process.pid, signal.SIGTERM),
    "TERM to every process": to_every_process,
}


@pytest.mark.parametrize("name", STOPS)
def test_a_stop_saves_the_last_train_step_within_30_s(run, name):
    process = start_and_await_a_generation(run)
    STOPS[name](run, process)
    assert run.await_end(process, timeout_secs=30) == 143
    assert_nothing_is_left(run, 1)
    assert run.generations()[0] == run.train_step() > 0
    assert_the_same_command_goes_on(run)


@pytest.mark.parametrize("grace_secs", [0, 1, 5])
def test_a_launcher_that_is_killed_after_a_stop_leaves_nothing(run, grace_secs):
    process = start_and_await_a_generation(run)
    saved = run.generations()
    if grace_secs:
        process.terminate()
        try:
            process.wait(grace_secs)
        except subprocess.TimeoutExpired:
            pass
    process.kill()
    assert process.wait() in (-signal.SIGKILL, 143)
    assert_nothing_is_left(run, 60)
    assert run.generations()[0] >= saved[0]
    assert run.generations()[0] == run.train_step()
    assert_the_same_command_goes_on(run)


STARTS = {
    "checks": lambda run: True,
    "folder": lambda run: run.paths.lock.exists(),
    "services": lambda run: list(run.paths.services.glob("worker_1/supervise/ok")),
    "programs": lambda run: run.pid("sac_train.py") and run.pid("sac_collect.py 1"),
    "replay server": lambda run: run.status("replay"),
    "learner": lambda run: run.status("learner"),
    "fill": lambda run: run.status("worker_0").get("phase") == "random fill",
}


@pytest.mark.parametrize("moment", STARTS)
def test_a_stop_during_the_start_leaves_nothing(run, moment):
    process = run.start(num_workers=2)
    run.wait_for(lambda: STARTS[moment](run), 60, moment)
    process.terminate()
    assert run.await_end(process, timeout_secs=30) in (143, -signal.SIGTERM)
    assert run.alive() == {}
    run.set_pace(0)
    assert run.await_end(run.start(num_workers=2), timeout_secs=120) == 0
    assert run.generations()[0] == NUM_TRAIN_STEPS


def test_a_stop_during_an_evaluation_does_not_wait_for_its_end(tmp_path):
    run = TinyRun(tmp_path, more_params="\n    eval_period_itrs = 1\n")
    try:
        process = run.start(num_workers=2)
        run.wait_for(run.generations, 180, "the first generation")
        run.set_pace(3.0)
        run.wait_for(lambda: run.status("worker_0").get("phase") == "evaluating", 60, "evaluation")
        began = time.monotonic()
        process.terminate()
        assert run.await_end(process, timeout_secs=30) == 143
        assert time.monotonic() - began < 3.0 * HORIZON
        assert_nothing_is_left(run, 1)
        assert run.generations()[0] == run.train_step()
        assert_the_same_command_goes_on(run)
    finally:
        run.end()
