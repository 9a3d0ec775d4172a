"""Arithmetic of the prediction, by hand, and a real run that takes as long as predicted."""

import contextlib
import csv
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

from tfagents_system.commands.prediction import (
    Allotment,
    Speeds,
    Work,
    predict,
    workers_worth_having,
)
from tfagents_system.train_params_base import TrainParamsBase

REPO = pathlib.Path(__file__).parents[2]
ROW_BYTES = 40
SPEEDS = Speeds(env_step=0.02, env_step_cpu=0.005, eval_step=0.01, train_step=0.004,
                train_step_cpu=0.006, start=10.0)  # fmt: skip
ALLOTMENT = Allotment(num_cpus=4, num_workers=2, num_evaluators=0, replay_cpus=1, shares=False)
WORK = Work(train_steps=10_000, env_steps=5_000, fill_env_steps=400, eval_env_steps=1_000,
            samples=640_000, replay_bytes=1e6)  # fmt: skip


class Params(TrainParamsBase):
    num_iter = 25
    num_steps_per_iter = 200
    n_train_episodes_per_iter = 2
    n_buffer_init_episodes = 5
    n_episodes_in_buffer = 80
    eval_period_itrs = 10
    n_eval_episodes = 4

    def env_ctor(self, *args, seed=None, **kwargs):
        raise NotImplementedError("not needed")


def test_work_of_full_episodes():
    params = Params({"horizon": 100})
    work = Work.of_run(params, horizon=100, episode_length=100, row_bytes=ROW_BYTES)
    assert work.train_steps == 25 * 200
    assert work.env_steps == 25 * 2 * 100
    assert work.fill_env_steps == 5 * 100
    assert work.eval_env_steps == 3 * 4 * 100  # after 10 and 20 iterations, and at the end
    assert work.samples == 25 * 200 * 64
    params.update_ratio, params.max_update_ratio = "auto", 5.0
    automatic = Work.of_run(params, horizon=100, episode_length=100, row_bytes=ROW_BYTES)
    assert automatic.env_steps == 25 * 200 / 5  # at least
    blocks = 80 * (100 + 1) / 8
    assert work.replay_bytes == pytest.approx(blocks * (900 + 9 * ROW_BYTES))


def test_short_episodes_need_fewer_env_steps_for_as_many_items():
    params = Params({"horizon": 100})
    work = Work.of_run(params, horizon=100, episode_length=10, row_bytes=ROW_BYTES)
    assert work.env_steps == pytest.approx(25 * 2 * 100 * (1 + 1 / 100) / (1 + 1 / 10))
    assert work.eval_env_steps == 3 * 4 * 10


def test_a_run_takes_as_long_as_its_slowest_part():
    prediction = predict(WORK, SPEEDS, ALLOTMENT)
    assert prediction.needs == pytest.approx({
        "workers": (5_000 * 0.02 + 1_000 * 0.01) / 2,
        "learner": 10_000 * 0.004,
        "replay server": 640_000 * 0.07e-3 / 64,
    })  # fmt: skip
    assert prediction.bottleneck == "workers"
    assert prediction.start == 10.0
    assert prediction.fill == pytest.approx(400 * 0.02 / 2)
    assert prediction.total == pytest.approx(10 + 4 + 55)
    four = predict(WORK, SPEEDS, dataclasses.replace(ALLOTMENT, num_workers=4))
    assert (four.bottleneck, four.training) == ("learner", pytest.approx(40))


def test_evaluators_take_evaluation_from_the_workers():
    prediction = predict(WORK, SPEEDS, dataclasses.replace(ALLOTMENT, num_evaluators=1))
    assert prediction.needs["workers"] == pytest.approx(5_000 * 0.02 / 2)
    assert prediction.needs["evaluators"] == pytest.approx(1_000 * 0.01)


def test_programs_that_share_cpus_may_wait_for_those():
    shared = dataclasses.replace(ALLOTMENT, num_cpus=1, num_workers=4, shares=True)
    prediction = predict(WORK, SPEEDS, shared)
    cpu_secs = (5_000 * 0.02 + 1_000 * 0.01) * 0.005 / 0.02 + 10_000 * 0.006 + 0.7
    assert (prediction.bottleneck, prediction.training) == ("CPUs", pytest.approx(cpu_secs))
    assert prediction.start == 10 * 6  # 4 workers, learner and server start on one CPU


def test_a_deterministic_run_takes_turns():
    alone = dataclasses.replace(ALLOTMENT, num_workers=1, takes_turns=True)
    assert predict(WORK, SPEEDS, alone).training == pytest.approx(110 + 40)


def test_workers_are_worth_having_until_something_else_is_slower():
    # The learner needs 40 s, or 44 s to be hardly slower: 110 s of collection in 3 parts.
    assert workers_worth_having(WORK, SPEEDS, ALLOTMENT) == 3
    assert workers_worth_having(WORK, SPEEDS, ALLOTMENT, most=2) == 2
    # Simulators that compute fill the CPUs: 2 with 110 s of simulation and 60 s of learning.
    computing = dataclasses.replace(SPEEDS, env_step_cpu=0.02)
    two = dataclasses.replace(ALLOTMENT, num_cpus=2)
    assert workers_worth_having(WORK, computing, two) == 2  # 85.35 s for any number from 2 on


SLEEP_SECS = 0.15  # sets the speed, however busy the machine is; the start takes some 25 s more
PARAMS = f"""
import time

import gym
import numpy as np

from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.train_params_base import TrainParamsBase


class Sleeping(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def seed(self, seed=None):
        pass

    def reset(self):
        return np.zeros(2, np.float32)

    def step(self, action):
        time.sleep({SLEEP_SECS})
        return np.zeros(2, np.float32), -float(action[0]) ** 2, False, {{}}


class TrainParams(TrainParamsBase):
    num_iter = 10
    num_steps_per_iter = 10
    n_train_episodes_per_iter = 6
    n_buffer_init_episodes = 5
    fresh_samples_per_step = 8
    train_batch_size = 32
    prefetch_batches = 1
    n_eval_episodes = 4
    eval_period_itrs = 5
    matmul_precision = "float32"
    actor_fc_layer_params = critic_joint_fc_layer_params = (8,)

    def env_ctor(self, *args, seed=None, **kwargs):
        return GymEnvironment(Sleeping(), seed=seed)
"""
HORIZON = 10
NUM_TRAIN_STEPS = 10 * 10


@pytest.fixture(scope="module")
def checked_and_run(tmp_path_factory):
    """The rows of `sac check`, and what the run then took: seconds, bytes, and its episodes."""
    folder = tmp_path_factory.mktemp("slept")
    (folder / "params.py").write_text(PARAMS)
    (folder / "config.json").write_text(json.dumps({"horizon": HORIZON}))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SAC_", "SLURM_"))}
    environ = clean | {
        "SAC_EXP_NAME": "slept", "SAC_PARAMS": "params.py", "SAC_CONFIG": "config.json",
        "SAC_NUM_COLLECT_WORKERS": "2", "PYTHONPATH": str(REPO),
    }  # fmt: skip
    command = [sys.executable, "-m", "tfagents_system"]
    check = subprocess.run(
        [*command, "check"], cwd=folder, env=environ, capture_output=True, text=True, timeout=240
    )
    assert check.returncode == 0, check.stdout + check.stderr
    of_run = re.sub(r"\n {6,}", " ", check.stdout.partition("The run on")[2])  # wrapped lines
    rows = dict(
        row
        for verdict in ("ok", "note")
        for row in re.findall(rf"^(\w+) +{verdict} +(.*)$", of_run, re.M)
    )

    started, most_bytes = time.monotonic(), 0
    with (folder / "output").open("w+") as output:
        run = subprocess.Popen([*command, "train"], cwd=folder, env=environ, stdout=output)
        try:
            while run.poll() is None:
                most_bytes = max(most_bytes, bytes_of_programs(folder / "logs/slept"))
                assert time.monotonic() - started < 240
                time.sleep(0.5)
        finally:
            run.terminate()
        secs = time.monotonic() - started
        output.seek(0)
        assert run.wait() == 0, output.read()
    episodes = []
    for worker in (0, 1):
        with (folder / f"logs/slept/episodes/collect_{worker}.csv").open(newline="") as file:
            episodes += [
                (float(r["wall_time"]), int(r["train_step"])) for r in csv.DictReader(file)
            ]
    return rows, secs, most_bytes, sorted(episodes)


def bytes_of_programs(exp_dir):
    """What the programs of a run have in memory, pages that several have counted once."""
    total = 0
    for path in (exp_dir / "status").glob("*.json"):
        pid = json.loads(path.read_text())["pid"]
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            shown = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += 1024 * int(re.search(r"^Pss: +(\d+) kB", shown, re.M)[1])
    return total


def secs_of(shown):
    """The seconds of "about 1 min 2 s"."""
    units = {"h": 3600, "min": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+) (h|min|s)", shown))


@pytest.mark.multiprocess
def test_a_real_run_takes_as_long_as_predicted(checked_and_run):
    rows, secs, _, episodes = checked_and_run
    total, parts = rows["time"].split(":")
    assert secs_of(total) == pytest.approx(secs, rel=0.3)
    # Before, the learner was being compiled.
    (first, first_step), *_, (last, last_step) = [e for e in episodes if e[1] > 0]
    assert last_step - first_step > NUM_TRAIN_STEPS / 2
    training = secs_of(re.search(r"training (.*) for", parts)[1])
    predicted_secs = training * (last_step - first_step) / NUM_TRAIN_STEPS
    assert predicted_secs == pytest.approx(last - first, rel=0.3)


@pytest.mark.multiprocess
def test_a_real_run_takes_as_much_memory_as_predicted(checked_and_run):
    rows, _, most_bytes, _ = checked_and_run
    number, unit = re.search(r"at most ([\d.]+) (\w+)", rows["memory"]).groups()
    assert float(number) * {"MB": 1e6, "GB": 1e9}[unit] == pytest.approx(most_bytes, rel=0.3)


@pytest.mark.multiprocess
def test_the_check_says_what_a_run_will_wait_for(checked_and_run):
    rows, *_ = checked_and_run
    assert list(rows) == ["learner", "time", "bottleneck", "memory", "workers"]  # a note, the last
    assert rows["bottleneck"].startswith("the workers; ")
    worth = int(re.search(r"2 planned, (\d+) worth having", rows["workers"])[1])
    assert worth > 2  # they wait for their simulators, so a CPU has room for many
