"""Programs killed with -9 at many moments: all come back, and no env step is lost or doubled."""

import os
import pathlib
import random
import signal
import time

import psutil
import pytest
from faults.experience import BURST
from faults.recovery import (
    ENDLESS,
    WORKERS,
    env_steps,
    has_all_moving,
    has_all_moving_after,
    kill_program,
    stop_and_account,
)
from system.tiny_run import HORIZON, TinyRun

from tfagents_system.core.waiting import wait_until
from tfagents_system.services.journal import streams_with_journals

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

FEW_FILES = 2  # come and go
LONG_FILL = """
    n_buffer_init_episodes = 300
"""


@pytest.fixture
def make_run(tmp_path):
    runs = []

    def make(more_params=""):
        runs.append(TinyRun(tmp_path, ENDLESS + more_params))
        return runs[-1]

    yield make
    for run in runs:
        run.end()


class Faults:
    """Makes faults in one run and writes down how long each recovery took."""

    def __init__(self, run, ledger, row, limit_secs):
        self._run, self._ledger = run, ledger
        self._row, self._limit_secs = row, limit_secs

    def make(self, fault, kill, is_back):
        """Kills, and waits until `is_back()`; shown as a failure if that takes too long."""
        began = time.monotonic()
        kill()
        try:
            self._run.wait_for(is_back, 4 * self._limit_secs, f"the recovery: {self._row}, {fault}")
        except BaseException:
            self._ledger.add(self._row, fault, passed=False)
            raise
        secs = time.monotonic() - began
        self._ledger.add(self._row, fault, secs <= self._limit_secs, secs)
        assert secs <= self._limit_secs, f"{self._row}, {fault}: {secs:.1f} s"


def open_files(run):
    programs = ("sac_train.py", "sac_collect.py 0", "sac_collect.py 1")
    return {program: psutil.Process(run.pid(program)).num_fds() for program in programs}


def is_in_training(run):
    return run.status("learner").get("phase") == "training" and run.train_step() > 0


def test_a_killed_worker(make_run, ledger, pytestconfig):
    repeats, rng = pytestconfig.getoption("--repeats"), random.Random(1)
    run = make_run(LONG_FILL)
    run.set_pace(0.04)
    process = run.start(num_workers=2)
    faults = Faults(run, ledger, "worker", limit_secs=15)
    run.wait_for(lambda: all(env_steps(run, w) for w in WORKERS), 60, "the fill's beginning")
    num_fills = 0

    def kill_one(fault):
        time.sleep(rng.uniform(0, 1))
        victim = rng.randrange(2)
        kill, is_back = kill_program(run, f"sac_collect.py {victim}")
        mine, others = (env_steps(run, WORKERS[k]) for k in (victim, 1 - victim))
        faults.make(fault, kill, lambda: is_back() and env_steps(run, WORKERS[victim]) > mine)
        assert env_steps(run, WORKERS[1 - victim]) > others  # it did not wait

    while run.status("replay")["transitions"] < 0.7 * 300 * HORIZON and num_fills < repeats:
        kill_one("in the random fill")
        num_fills += 1
    run.wait_for(lambda: is_in_training(run), 120, "training")
    filled = run.status("replay")["transitions"]
    assert (
        filled < 300 * HORIZON + 2 * BURST + 3 * HORIZON
    )  # one fill, however often they came back
    phases = set()
    for _ in range(repeats):
        kill_one("in training, among policy pulls")
        phases.update(run.status(worker)["phase"] for worker in WORKERS)
    assert num_fills > 0 and "random fill" not in phases
    stop_and_account(run, process, ledger, "worker")


def has_unfinished_generation(run):
    return any(run.paths.checkpoints.glob(".tmp-*"))


def kill_when(condition, kill):
    """Returns a function that kills at the first moment when `condition()` holds."""

    def wait_and_kill():
        wait_until(condition, 60, "the moment", poll_secs=0.0005)
        kill()

    return wait_and_kill


def test_a_killed_learner(make_run, ledger, pytestconfig):
    repeats, rng = pytestconfig.getoption("--repeats"), random.Random(2)
    run = make_run()
    run.set_pace(0.02)
    process = run.start(num_workers=2)
    run.wait_for(run.generations, 180, "the first generation")
    speed = measure_speed(run)
    faults = Faults(run, ledger, "learner", limit_secs=30)
    for index in range(repeats):
        kill, is_back = kill_program(run, "sac_train.py")
        before = run.train_step()
        if index % 2:
            time.sleep(rng.uniform(0, 1))  # it publishes about twice a second
            fault = "in training, among publications"
        else:
            kill = kill_when(lambda: has_unfinished_generation(run), kill)
            fault = "writing a checkpoint"
        num_restored = len(run.restored_steps())
        faults.make(
            fault, kill, lambda before=before, is_back=is_back: is_back()
            and is_in_training(run) and run.train_step() > before,
        )  # fmt: skip
        restored = run.restored_steps()
        assert len(restored) == num_restored + 1
    assert restored == sorted(restored)  # never back behind an older generation
    assert measure_speed(run) > 0.7 * speed  # the workers' pace holds both
    stop_and_account(run, process, ledger, "learner")


def measure_speed(run, secs=15.0):
    """Train steps per second, over several checkpoints."""
    run.wait_for(has_all_moving(run), 30, "movement")
    began, first = time.monotonic(), run.train_step()
    time.sleep(secs)
    run.wait_for(lambda: run.train_step() > first, 30, "a report")
    return (run.train_step() - first) / (time.monotonic() - began)


def reverb_folders(run):
    return [path for path in (run.paths.checkpoints / ".reverb").glob("*/*") if path.is_dir()]


STAGES = {
    "before the server's part of a checkpoint": lambda run: (
        has_unfinished_generation(run) and not reverb_folders(run)
    ),
    "while the server writes its part": lambda run: bool(reverb_folders(run)),
    "when its part is complete": lambda run: any(
        (folder / "DONE").exists()
        for folder in [*reverb_folders(run), *run.paths.checkpoints.glob(".tmp-*/replay")]
    ),
}


def test_a_killed_replay_server(make_run, ledger, pytestconfig):
    repeats, rng = pytestconfig.getoption("--repeats"), random.Random(3)
    run = make_run(LONG_FILL)
    run.set_pace(0.04)
    process = run.start(num_workers=2)
    faults = Faults(run, ledger, "replay server", limit_secs=45)
    run.wait_for(lambda: run.status("replay").get("transitions", 0) > 100, 60, "the fill")

    kill, is_back = kill_program(run, "sac_replay_buffer.py")
    steps = {worker: env_steps(run, worker) for worker in WORKERS}
    faults.make("in the random fill", kill, lambda: is_back() and all(
        env_steps(run, worker) > steps[worker] for worker in WORKERS))  # fmt: skip
    run.set_pace(0.01)
    run.wait_for(lambda: run.generations(), 120, "the first generation")
    moments, files = ["in training", *STAGES], open_files(run)
    for index in range(repeats):
        moment = moments[index % len(moments)]
        kill, is_back = kill_program(run, "sac_replay_buffer.py")
        if moment in STAGES:
            kill = kill_when(lambda moment=moment: STAGES[moment](run), kill)
        else:
            time.sleep(rng.uniform(0, 2))
        faults.make(moment, kill, has_all_moving_after(run, is_back))
    more_files = {program: now - files[program] for program, now in open_files(run).items()}
    are_few = max(more_files.values()) <= FEW_FILES
    ledger.add("replay server", f"{more_files} more open files", are_few)
    stop_and_account(run, process, ledger, "replay server")
    assert are_few


def supervise_of(run, service):
    (pid,) = (
        pid
        for pid, command in run.alive().items()
        if command.startswith("supervise") and f"service/{service}\0" in f"{command}\0"
    )
    return pid


def test_killed_supervisors_launcher_and_everything_at_once(make_run, ledger, pytestconfig):
    repeats = pytestconfig.getoption("--repeats")
    run = make_run()
    run.set_pace(0.02)
    process = run.start(num_workers=2)
    run.wait_for(run.generations, 180, "the first generation")
    supervised = {"replay": "sac_replay_buffer.py", "learner": "sac_train.py",
                  "worker_0": "sac_collect.py 0", "worker_1": "sac_collect.py 1"}  # fmt: skip
    faults = Faults(run, ledger, "supervision", limit_secs=60)

    def restart():
        nonlocal process
        wait_until(lambda: run.alive() == {}, 60, "the end of all programs")
        process = run.start(num_workers=2)

    for index in range(repeats):
        run.wait_for(has_all_moving(run), 60, "movement")
        kind = index % 6
        if kind < 4:
            service, program = list(supervised.items())[kind]
            fault, old_pid = f"supervise of {service.partition('_')[0]}", run.pid(program)

            def kill(service=service):
                os.kill(supervise_of(run, service), signal.SIGKILL)

            def is_back(program=program, old_pid=old_pid):
                return run.pid(program) not in (None, old_pid)
        else:
            fault = "the launcher" if kind == 4 else "everything at once"

            def kill(kind=kind):
                pids = [process.pid] if kind == 4 else list(run.alive())
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                restart()

            def is_back():
                return True

        faults.make(fault, kill, has_all_moving_after(run, is_back))
    stop_and_account(run, process, ledger, "supervision")
    assert list(pathlib.Path(run.paths.root).glob("service/*/failure")) == []


def test_everything_killed_and_resumed_with_fewer_workers(make_run, ledger):
    run = make_run("""
    checkpoint_period_itrs = 100
""")
    run.set_pace(0.01)
    process = run.start(num_workers=3)
    run.wait_for(run.generations, 180, "the first generation")
    steps = {k: env_steps(run, f"worker_{k}") for k in (1, 2)}
    run.wait_for(
        lambda: all(env_steps(run, f"worker_{k}") > steps[k] + 3 * BURST for k in steps),
        60,
        "bursts",
    )
    assert len(run.generations()) == 1  # more than an unfinished burst of each is in no checkpoint
    run.kill_everything()
    # The others are gone when they have been silent for longer than an env step may take.
    process = run.start(num_workers=1, SAC_ENV_TIMEOUT_SECS="5")
    run.wait_for(lambda: env_steps(run, "worker_0") > 0, 60, "movement")
    assert {stream.worker_id for stream in streams_with_journals(run.paths.journals)} == {0, 1, 2}
    run.wait_for(lambda: len(streams_with_journals(run.paths.journals)) == 1, 240, "inheritance")
    stop_and_account(run, process, ledger, "everything; then fewer workers")
