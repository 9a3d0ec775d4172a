"""A reward behind a key and a door is found by an explorer, and seldom by chance."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.records.run_history import read_evaluations

PROJECT = pathlib.Path(__file__).parents[2]
SEEDS = range(1, 6)


def last_success_rates(folder, *settings):
    """Trains as the zoo does, in turns, so that other work on the machine changes nothing."""
    shutil.copytree(PROJECT / "zoo", folder / "zoo")
    environ = os.environ | {"PYTHONPATH": str(PROJECT), "SAC_DETERMINISTIC": "1"}
    command = [sys.executable, "-m", "tfagents_system", "train", "zoo/key_door.sh"]
    seeds = ["--seed", *map(str, SEEDS)]
    subprocess.run([*command, *seeds, *settings], cwd=folder, env=environ, check=True)
    experiments = [folder / "logs" / f"key_door_seed_{seed}" for seed in SEEDS]
    return [read_evaluations(ExperimentPaths(path))[-1].success_rate for path in experiments]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_is_found_with_random_network_distillation(tmp_path):
    assert last_success_rates(tmp_path).count(1) >= 4


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_is_found_without_only_if_a_random_first_episode_has_opened_the_door(tmp_path):
    assert last_success_rates(tmp_path, "--set", "reward_signals=None").count(1) <= 1
