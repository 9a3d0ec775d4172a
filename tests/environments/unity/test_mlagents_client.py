"""ML-Agents' own client, through BaseEnvAgents, sees in the stand-in for a build what ours does."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest
from environments.unity.mlagents_client import seen_by
from replay_fakes import free_port

from tfagents_system.environments.unity.agents import UnityAgents
from tfagents_system.environments.unity.connection import Connection

STAND_IN = str(pathlib.Path(__file__).with_name("stand_in.py"))
CLIENT = pathlib.Path(__file__).with_name("mlagents_client.py")
NUM_STEPS = 60

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mlagents_envs") is None,
    reason="mlagents_envs is not installed; pip install --no-deps --ignore-requires-python "
    "mlagents_envs==1.1.0 does so, but it does not fit the locked packages",
)


@pytest.mark.parametrize("task", ["ball", "grid", "hybrid"])
def test_both_clients_see_the_same(task):
    done = subprocess.run(
        [sys.executable, CLIENT, STAND_IN, str(free_port()), task, str(NUM_STEPS), "3.0.0"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    arguments = ("--task", task, "--agents", "3", "--package", "3.0.0")
    ours = UnityAgents(Connection(STAND_IN, seed=3, arguments=arguments))
    try:
        assert json.loads(done.stdout.splitlines()[-1]) == seen_by(ours, NUM_STEPS)
    finally:
        ours.close()
