"""Agents of a Unity build learn to balance a ball, with the settings that `sac train` writes."""

import os
import pathlib
import subprocess
import sys

import pytest

from benchmarks.peers.mlagents import write_build
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.records.run_history import read_evaluations

PROJECT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_ball_is_kept_for_a_thousand_decisions(tmp_path, seed):
    build = write_build(tmp_path)  # whose task is ball, unless it is told another one
    command = [
        sys.executable, "-m", "tfagents_system", "train", f"--unity={build}", "--horizon=1000",
        "--name=ball", f"--seed={seed}", "--env_kwargs=arguments=('--agents','12')", "--set",
        "num_iter=25", "n_eval_episodes=12", "actor_fc_layer_params=(128, 128)",
        "critic_joint_fc_layer_params=(128, 128)", "stop_when='return >= 98'",
    ]  # fmt: skip
    environ = os.environ | {"PYTHONPATH": str(PROJECT)}
    subprocess.run(command, cwd=tmp_path, env=environ, check=True)
    last = read_evaluations(ExperimentPaths(tmp_path / "logs" / "ball"))[-1]
    assert last.mean_return >= 95  # of 0.1 for each decision
