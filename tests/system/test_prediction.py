"""A real run takes the time and the memory that `sac check` predicts."""

import contextlib
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

REPO = pathlib.Path(__file__).parents[2]

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

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


def test_a_real_run_takes_as_long_as_predicted(checked_and_run):
    rows, secs, _, episodes = checked_and_run
    total, parts = rows["time"].split(":")
    assert 0.5 < secs_of(total) / secs < 2  # the start takes as long as the machine is busy
    # Before, the learner was being compiled.
    (first, first_step), *_, (last, last_step) = [e for e in episodes if e[1] > 0]
    assert last_step - first_step > NUM_TRAIN_STEPS / 2
    training = secs_of(re.search(r"training (.*) for", parts)[1])
    predicted_secs = training * (last_step - first_step) / NUM_TRAIN_STEPS
    assert predicted_secs == pytest.approx(last - first, rel=0.3)


def test_a_real_run_takes_as_much_memory_as_predicted(checked_and_run):
    rows, _, most_bytes, _ = checked_and_run
    number, unit = re.search(r"at most ([\d.]+) (\w+)", rows["memory"]).groups()
    assert float(number) * {"MB": 1e6, "GB": 1e9}[unit] == pytest.approx(most_bytes, rel=0.3)


def test_the_check_says_what_a_run_will_wait_for(checked_and_run):
    rows, *_ = checked_and_run
    assert list(rows) == ["learner", "time", "bottleneck", "memory", "workers"]  # a note, the last
    assert rows["bottleneck"].startswith("the workers; ")
    worth = int(re.search(r"2 planned, (\d+) worth having", rows["workers"])[1])
    assert worth > 2  # they wait for their simulators, so a CPU has room for many
