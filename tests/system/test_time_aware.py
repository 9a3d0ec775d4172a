"""A run with repeated actions and the time left, from `sac train` to an exported policy."""

import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.system
REPO = pathlib.Path(__file__).parents[2]


def sac(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "tfagents_system", *arguments], cwd=folder, capture_output=True,
        text=True, timeout=280, env=os.environ | {"PYTHONPATH": str(REPO)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_time_left_is_an_input_of_the_policy_everywhere(tmp_path):
    sac(tmp_path, "train", "--env", "gym:Pendulum-v1", "--horizon", "20", "--workers", "1", "--set",
        "time_aware=True", "action_repeat=2", "num_iter=2", "num_steps_per_iter=5",
        "n_train_episodes_per_iter=2", "n_buffer_init_episodes=8", "eval_period_itrs=1",
        "n_eval_episodes=1")  # fmt: skip
    experiment = tmp_path / "logs/pendulum"
    sac(tmp_path, "eval", "logs/pendulum", "--num_episodes", "1", "--video")
    (table,) = experiment.glob("videos/*/episodes.csv")
    with table.open() as file:
        (episode,) = csv.DictReader(file)
    assert int(episode["length"]) == 20  # decisions, not steps of the simulator
    assert (table.parent / episode["video"]).stat().st_size > 0
    sac(tmp_path, "export", "logs/pendulum", "--to", "numpy")
    (example,) = experiment.glob("exports/*/numpy/example.json")
    cosine, sine, _, time_left = json.loads(example.read_text())["observation"]
    assert (cosine**2 + sine**2, time_left) == (pytest.approx(1.0), 1.0)
