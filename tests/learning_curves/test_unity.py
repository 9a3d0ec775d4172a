"""Agents of a Unity build learn to balance a ball, and to find the right of two places."""

import os
import pathlib
import statistics
import subprocess
import sys

import pytest

from benchmarks.peers.mlagents import write_build
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.records.run_history import read_evaluations, read_kind

PROJECT = pathlib.Path(__file__).parents[2]


def train(folder, task, seed, horizon, *settings):
    build = write_build(folder)
    command = [
        sys.executable, "-m", "tfagents_system", "train", f"--unity={build}", "--workers=1",
        f"--horizon={horizon}", f"--name={task}", f"--seed={seed}",
        f"--env_kwargs=arguments=('--task', '{task}', '--agents', '12')", "--set", *settings,
    ]  # fmt: skip
    environ = os.environ | {"PYTHONPATH": str(PROJECT)}
    subprocess.run(command, cwd=folder, env=environ, check=True)
    return ExperimentPaths(folder / "logs" / task)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_ball_is_kept_for_a_thousand_decisions(tmp_path, seed):
    trained = train(
        tmp_path, "ball", seed, 1000, "num_iter=25", "n_eval_episodes=12",
        "actor_fc_layer_params=(128, 128)", "critic_joint_fc_layer_params=(128, 128)",
        "stop_when='return >= 98'",
    )  # fmt: skip
    assert read_evaluations(trained)[-1].mean_return >= 95  # of 0.1 for each decision


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_right_place_on_the_grid_is_found(tmp_path, seed):
    trained = train(
        tmp_path, "grid", seed, 100, "num_iter=100", "n_eval_episodes=48", "discount=0.9",
        "n_buffer_init_episodes=300", "n_episodes_in_buffer=1500", "train_batch_size=128",
        "actor_fc_layer_params=(128,)", "critic_joint_fc_layer_params=(128,)",
        "learning_rate_schedule='linear'",
    )  # fmt: skip
    (episodes,) = read_kind(trained, "collect")
    # By the policy that explores, as ML-Agents counts; at most 0.98 on average.
    assert statistics.fmean(row.episode_return for row in episodes[-500:]) >= 0.9
