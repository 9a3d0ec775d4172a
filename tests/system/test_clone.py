"""`sac clone`: scripted controllers are cloned, and the clones evaluated, exported and trained."""

import csv

import pytest
from commands.test_train import sac
from system.tiny_run import TINY

from tfagents_system.demonstrations.files import read_demonstrations

pytestmark = pytest.mark.system

CART = """
class Policy:
    def action(self, observation):
        x, speed, angle, turning = observation
        return int(angle + 0.5 * turning + 0.1 * (x + speed) > 0)
"""
POLE = """
import numpy as np

class Policy:
    def action(self, observation):
        x, speed, cosine, sine, turning = observation
        push = 0.3 * x + 0.5 * speed + 8 * sine + 1.5 * turning
        return np.clip(np.float32([push]), -1, 1)
"""
NUM_EPISODES = 10


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("env", "controller"),
    [("CartPole-v1", CART), ("InvertedPendulumBulletEnv-v0", POLE)],
    ids=["integers", "numbers"],
)
def test_a_clone_of_ten_episodes_returns_most_of_what_the_controller_does(
    tmp_path, env, controller
):
    def done(*arguments, timeout=200):
        code, out, err = sac(tmp_path, *arguments, timeout=timeout)
        assert code == 0, err
        return out

    (tmp_path / "controller.py").write_text(controller)
    done("record", f"--env={env}", "--policy=controller.py", f"--num_episodes={NUM_EPISODES}")
    done("clone", "demonstrations", f"--env={env}", "--name=mine", timeout=400)
    done("eval", "logs/mine", "--num_episodes=5", "--seed=1", "--novideo")
    (table,) = (tmp_path / "logs/mine/videos").glob("policy_checkpoint_0000010000/episodes.csv")
    with open(table) as file:
        returns = [float(row["return"]) for row in csv.DictReader(file)]
    demonstrated = [e.rewards.sum() for e in read_demonstrations(tmp_path / "demonstrations")]
    assert sum(returns) / 5 >= 0.8 * sum(demonstrated) / NUM_EPISODES

    done("export", "logs/mine", "--to=numpy")
    assert list((tmp_path / "logs/mine/exports").glob("*/numpy/run_policy.py"))

    others = [setting for setting in TINY if "fc_layer_params" not in setting]
    settings = [*others, "seed_sac_buffer=False"]
    train = "train", f"--env={env}", "--name=next", "--set", *settings
    done(*train, "--initialize_from=logs/mine")
    log = (tmp_path / "logs/next/stdout/learner.log").read_text()
    assert "The actor starts with the weights of another experiment" in log
    with open(tmp_path / "logs/next/episodes/collect_0.csv") as file:
        first = float(next(csv.DictReader(file))["return"])
    assert first >= 0.3 * sum(demonstrated) / NUM_EPISODES  # it explores; at random, less than 0.1
