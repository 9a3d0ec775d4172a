"""Pendulum for hours, with something killed every half minute."""

import csv
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

import psutil
import pytest
from system.tiny_run import PROJECT, TinyRun

from benchmarks.solve_pendulum import NUM_EPISODES
from tfagents_system.launch.local.restart_budget import read_starts

pytestmark = [pytest.mark.faults, pytest.mark.timeout(4 * 3600)]

KILL_PERIOD_SECS = 30.0
PROGRAMS = ("sac_replay_buffer.py", "sac_train.py", "sac_collect.py 0", "sac_collect.py 1")
NUM_WORKERS = 2
LARGEST_GROWTH_MB = 60.0  # the learner's first export of its policy traces graphs
FEW_FILES = 2  # come and go
FILES_PER_SERVER = 1
TABLE_FULL_SECS = 240.0  # until then the replay server grows, as it should
STEPS_PER_ITER = 200  # of pendulum_params.py
NUM_CURVES = 5  # of docs/results/pendulum_long.csv
STUDENT_T_4 = 2.776  # 97.5 % point, 4 degrees of freedom


def undisturbed_range():
    """Returns the 95 % prediction interval of one more mean return, from the undisturbed runs."""
    with (PROJECT / "docs/results/pendulum_long.csv").open(newline="") as file:
        means = [float(row["mean_return"]) for row in csv.DictReader(file)]
    assert len(means) == NUM_CURVES
    width = STUDENT_T_4 * statistics.stdev(means) * (1 + 1 / NUM_CURVES) ** 0.5
    return statistics.fmean(means) - width, statistics.fmean(means) + width


class Size(NamedTuple):
    """What a process takes at some age."""

    program: str
    age_secs: float
    mb: float
    files: int
    num_servers: int  # replay servers until then


class Sizes:
    """Memory and open files of each process at an age of a minute and at its end."""

    EARLY_SECS = 60.0
    LONG_SECS = 150.0

    def __init__(self):
        self._early, self._late = {}, {}

    def look(self, run):
        num_servers = len(read_starts(run.paths.services / "replay"))
        for program in PROGRAMS:
            pid = run.pid(program)
            try:
                process = psutil.Process(pid) if pid else None
                if process and (age := time.time() - process.create_time()) > self.EARLY_SECS:
                    mb, files = process.memory_info().rss / 1e6, process.num_fds()
                    self._late[pid] = Size(program, age, mb, files, num_servers)
                    self._early.setdefault(pid, self._late[pid])
            except psutil.NoSuchProcess:
                continue

    def long_lives(self):
        """Returns (early, late) sizes of the processes that lived long."""
        pairs = [(self._early[pid], late) for pid, late in self._late.items()]
        return [(early, late) for early, late in pairs if late.age_secs > self.LONG_SECS]


def mean_return(run):
    command = [sys.executable, "tfagents_system/run.py", "--novideo",
               f"--exp_dir={run.paths.root}", f"--num_episodes={NUM_EPISODES}",
               "--seed=0"]  # fmt: skip
    subprocess.run(command, cwd=run.project, check=True)
    (table,) = run.paths.videos.glob("*/episodes.csv")
    with table.open(newline="") as file:
        return statistics.fmean(float(row["return"]) for row in csv.DictReader(file))


def kill_something(run, rng):
    """Kills a program, or a supervise, at random; returns what."""
    alive = run.alive()
    victims = {
        pid: command for pid, command in alive.items()
        if "sac_" in command and "restart_budget" not in command or command.startswith("supervise")
    }  # fmt: skip
    pid = rng.choice(sorted(victims))
    os.kill(pid, signal.SIGKILL)
    return victims[pid].replace("\0", " ")


def test_soak(tmp_path, ledger, pytestconfig):
    minutes, rng = pytestconfig.getoption("--soak-minutes"), random.Random(13)
    run = TinyRun(tmp_path)
    run.use("tfagents_system/pendulum_params.py", "config/pendulum.json")
    sizes, num_kills, most_traces = Sizes(), 0, 0
    try:
        process = run.start(NUM_WORKERS, SAC_GIN_BINDINGS="TrainParams.num_iter = 1000000")
        run.await_train_step(1)
        began = time.monotonic()
        end, next_kill = began + 60 * minutes, began + KILL_PERIOD_SECS
        while time.monotonic() < end:
            time.sleep(5)
            assert process.poll() is None, run.logs()
            most_traces = max(most_traces, run.status("learner").get("graph_traces", 0))
            if time.monotonic() > began + TABLE_FULL_SECS:
                sizes.look(run)
            if time.monotonic() > next_kill:
                print(f"{time.strftime('%H:%M:%S')} train step {run.train_step()}, "
                      f"killed {kill_something(run, rng)}", flush=True)  # fmt: skip
                num_kills += 1
                next_kill += KILL_PERIOD_SECS
        run.await_train_step(run.train_step() + 10 * STEPS_PER_ITER, timeout_secs=180)
        os.kill(process.pid, signal.SIGTERM)
        assert run.await_end(process, timeout_secs=180) == 143
        last = run.generations()[0] // STEPS_PER_ITER + 5
        process = run.start(NUM_WORKERS, SAC_GIN_BINDINGS=f"TrainParams.num_iter = {last}")
        assert run.await_end(process, timeout_secs=300) == 0
        assert run.alive() == {}
        low, high = undisturbed_range()
        value = mean_return(run)
        what = f"{minutes:g} min, {num_kills} kills, {last * STEPS_PER_ITER:,} train steps"
        ledger.add("soak", f"{what}: finished", True)
        ledger.add("soak", f"mean return {value:.1f}, undisturbed [{low:.1f}, {high:.1f}]",
                   low <= value <= high)  # fmt: skip
        are_flat = []
        for early, late in sizes.long_lives():
            mb, files = late.mb - early.mb, late.files - early.files
            num_servers = late.num_servers - early.num_servers
            print(f"{late.program}: {mb:+.0f} MB, {files:+d} files, {num_servers} new replay "
                  f"servers from 60 to {late.age_secs:.0f} s")  # fmt: skip
            are_flat.append(mb < LARGEST_GROWTH_MB
                            and files <= FEW_FILES + FILES_PER_SERVER * num_servers)  # fmt: skip
            ledger.add("soak", f"{late.program.split()[0]}: memory and files flat", are_flat[-1])
        ledger.add("soak", f"learner: {most_traces} graph traces at most", most_traces == 2)
        assert low <= value <= high
        assert all(are_flat) and most_traces == 2
    finally:
        run.end()
