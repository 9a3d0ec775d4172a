"""Bit flipping is learned with copies of other goals, and not without."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.records.run_history import read_evaluations

PROJECT = pathlib.Path(__file__).parents[2]


def last_evaluation(folder, seed, *settings):
    """Trains as the zoo does, in turns, so that other work on the machine changes nothing."""
    shutil.copytree(PROJECT / "zoo", folder / "zoo")
    environ = os.environ | {"PYTHONPATH": str(PROJECT), "SAC_DETERMINISTIC": "1"}
    command = [sys.executable, "-m", "tfagents_system", "train", "zoo/bit_flip.sh"]
    subprocess.run([*command, "--seed", str(seed), *settings], cwd=folder, env=environ, check=True)
    return read_evaluations(ExperimentPaths(folder / "logs/bit_flip"))[-1]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bit_flip_is_solved_within_ten_thousand_env_steps(seed, tmp_path):
    last = last_evaluation(tmp_path, seed)
    assert last.env_step <= 10_000
    assert last.success_rate >= 0.95


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_bit_flip_is_not_solved_without_copies(tmp_path):
    assert last_evaluation(tmp_path, 1, "--set", "her_copies=0").success_rate < 0.5
