"""A disk that fills up under a real run, and has space again later."""

import csv
import itertools
import os
import re
import signal
import time

import pytest
from small_disk import small_disk
from system.tiny_run import STEPS_PER_ITER, TinyRun

from tfagents_system.collection.episode_log import COLUMNS
from tfagents_system.core.process.ports import check_port_is_free
from tfagents_system.core.state.generations import newest_intact_generation

pytestmark = pytest.mark.faults

NUM_ITER = 200
PERIOD = 15 * STEPS_PER_ITER  # train steps between checkpoints, of tiny_run.PARAMS


@pytest.fixture
def disk():
    with small_disk(40 << 20) as disk:
        yield disk


@pytest.fixture
def run(tmp_path, disk):
    run = TinyRun(tmp_path, more_params=f"\n    num_iter = {NUM_ITER}\n")
    (run.project / "logs").symlink_to(disk.folder)
    run.set_pace(0.05)
    yield run
    run.end()


def fill_in_training(run, disk):
    """Returns the started process; the disk is full, and there are two generations."""
    process = run.start(num_workers=2)
    run.wait_for(lambda: len(run.generations()) == 2, 180, "two generations")
    await_steps_on_full_disk(run, disk, STEPS_PER_ITER)
    return process


def await_steps_on_full_disk(run, disk, num_steps, least_secs=0.0):
    """Waits for train steps; what frees space meanwhile, as giving up a checkpoint, is filled."""
    began, train_step = time.monotonic(), run.train_step()

    def is_over():
        disk.fill()
        is_late = time.monotonic() - began >= least_secs
        return is_late and run.train_step() >= train_step + num_steps

    run.wait_for(is_over, 60, f"{num_steps} train steps with a full disk")


def assert_csv_files_are_whole(run):
    files = list(run.paths.episodes.glob("*.csv"))
    assert len(files) == 4
    for path in files:
        with path.open(newline="") as file:
            header, *rows = csv.reader(file)
        assert header == list(COLUMNS)
        assert {len(row) for row in rows} == {len(COLUMNS)}
        env_steps = [int(row[COLUMNS.index("env_step")]) for row in rows]
        growth = [after - before for before, after in itertools.pairwise(env_steps)]
        assert min(growth) >= (1 if "collect" in path.name else 0)


def num_starts(run):
    return {
        service.name: len((service / "starts").read_text().splitlines())
        for service in run.paths.services.iterdir()
    }


def test_training_goes_on_and_saves_again_when_there_is_space(run, disk):
    process = fill_in_training(run, disk)
    saved = run.generations()
    await_steps_on_full_disk(run, disk, 2 * PERIOD, least_secs=12.0)  # a status line every 10 s
    assert run.generations() == saved
    newest = newest_intact_generation(run.paths.checkpoints)
    assert int(newest.name) == saved[0]
    assert not list(run.paths.checkpoints.glob(".reverb/*/*"))

    disk.free()
    train_step = run.train_step()
    run.wait_for(lambda: run.generations()[0] > saved[0], 30, "a new generation")
    assert run.train_step() < train_step + 2 * PERIOD
    run.set_pace(0)
    assert run.await_end(process, timeout_secs=120) == 0
    assert re.search(r"DISK FULL: checkpoint needs .* MB, .*B free \|", run.output)
    assert re.search(r"NOT SAVED for .*\): No space left on device \|", run.output)
    assert run.generations()[0] == NUM_ITER * STEPS_PER_ITER
    assert run.alive() == {}
    assert num_starts(run) == {"replay": 1, "learner": 1, "worker_0": 1, "worker_1": 1}
    assert_csv_files_are_whole(run)
    assert "There is space again: policy is written" in run.paths.stdout("learner").read_text()
    assert not [path for path in run.paths.root.rglob("*.tmp*") if path.is_file()]


def test_programs_killed_on_a_full_disk_come_back_and_a_stop_keeps_what_was_saved(run, disk):
    process = fill_in_training(run, disk)
    saved = run.generations()
    programs = {"sac_train.py": "learner", "sac_collect.py 1": "worker_1",
                "sac_replay_buffer.py": "replay"}  # fmt: skip
    for program, name in programs.items():
        killed_at, old = time.time(), run.kill(program)

        def is_back(program=program, name=name, killed_at=killed_at, old=old):
            disk.fill()
            is_new = run.pid(program) not in (None, old)
            return is_new and run.status(name).get("written_at", 0) > killed_at

        run.wait_for(is_back, 60, f"the return of {program}")
        await_steps_on_full_disk(run, disk, STEPS_PER_ITER)
    os.kill(process.pid, signal.SIGTERM)
    assert run.await_end(process, timeout_secs=120) == 74
    assert "Stopped, but not saved: " in run.output
    assert run.alive() == {}
    check_port_is_free(run.port())
    assert run.generations() == saved
    assert num_starts(run) == {"replay": 2, "learner": 2, "worker_0": 1, "worker_1": 2}

    disk.free()
    process = run.start(num_workers=2)
    run.wait_for(lambda: run.generations()[0] > saved[0], 120, "a new generation")
    run.set_pace(0)
    assert run.await_end(process, timeout_secs=120) == 0
    assert run.restored_steps()[-1] == saved[0]
    assert_csv_files_are_whole(run)
