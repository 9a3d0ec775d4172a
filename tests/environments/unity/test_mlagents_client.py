"""The stand-in for a build is one for ML-Agents, too: its own client sees in it what ours does."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest
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


def seen_by_us(task, package):
    """Returns what `mlagents_client.py` prints of the only behavior."""
    arguments = ("--task", task, "--agents", "3", "--package", package)
    agents = UnityAgents(Connection(STAND_IN, seed=3, arguments=arguments))
    steps = agents.reset()
    num_asked, num_ended, reward = 0, 0, 0.0
    for _ in range(NUM_STEPS):
        num_asked += len(steps.asking)
        num_ended += len(steps.ended)
        reward += sum(float(s.reward) for s in [*steps.asking.values(), *steps.ended.values()])
        actions = {each: agents.idle_action(step.observation)
                   for each, step in steps.asking.items()}  # fmt: skip
        steps = agents.step(actions)
    agents.close()
    shapes = [list(sensor.shape) for sensor in agents.behavior.sensors]
    return shapes, num_asked, num_ended, reward


@pytest.mark.parametrize("task", ["ball", "grid", "hybrid"])
def test_both_clients_see_the_same(task):
    done = subprocess.run(
        [sys.executable, CLIENT, STAND_IN, str(free_port()), task, str(NUM_STEPS), "3.0.0"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (theirs,) = json.loads(done.stdout)["behaviors"].values()
    shapes, num_asked, num_ended, reward = seen_by_us(task, "3.0.0")
    # Theirs has images as they are sent, [C, H, W].
    assert theirs["shapes"] == [s if len(s) < 3 else [s[2], s[0], s[1]] for s in shapes]
    assert (theirs["asked"], theirs["ended"]) == (num_asked, num_ended)
    assert theirs["reward"] == pytest.approx(reward, abs=1e-3)
