"""`sac train --offline`: a policy from recorded data, by the real programs."""

import os
import re
import signal
import subprocess
import sys

import pytest
from commands.test_train import REPO, sac

from tfagents_system.core.errors import EXIT_CONFIG
from tfagents_system.core.state.generations import generations
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import read_report
from tfagents_system.core.waiting import wait_until
from tfagents_system.records.run_history import read_evaluations

pytestmark = pytest.mark.system

# Half of its episodes are random, the others balance the pole with an error in every fifth step.
DEMONSTRATOR = """
import numpy as np

class Policy:
    def __init__(self):
        self.rng = np.random.default_rng(1)

    def reset(self):
        self.share = self.rng.choice([0.2, 1.0])

    def action(self, observation):
        x, speed, angle, turning = observation
        if self.rng.uniform() < self.share:
            return int(self.rng.integers(2))
        return int(angle + 0.5 * turning + 0.1 * (x + speed) > 0)
"""
RANDOM_RETURN = 22.0  # mean of CartPole-v1
NUM_ITER, STEPS = 40, 500
SETTINGS = [f"num_iter={NUM_ITER}", f"num_steps_per_iter={STEPS}", "eval_period_itrs=8",
            "n_eval_episodes=5", "checkpoint_period_itrs=2"]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "demonstrator.py").write_text(DEMONSTRATOR)
    code, _, err = sac(tmp_path, "record", "--env=CartPole-v1", "--policy=demonstrator.py",
                       "--num_episodes=40", "--output=data", timeout=120)  # fmt: skip
    assert code == 0, err
    return tmp_path


@pytest.mark.timeout(600)
def test_a_policy_from_data_alone_balances_and_a_killed_learner_resumes(folder):
    paths = ExperimentPaths(folder / "logs/cart")
    command = ["train", "--env=CartPole-v1", "--name=cart", "--seed=1"]
    settings = ["--set", *SETTINGS]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SAC_", "SLURM_"))}
    run = subprocess.Popen(
        [sys.executable, "-m", "tfagents_system", *command, "--offline=data", *settings],
        cwd=folder, env=clean | {"PYTHONPATH": str(REPO)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        wait_until(lambda: any(generations(paths.checkpoints)), 180, "a checkpoint")
        os.kill(read_report(paths, "learner").pid, signal.SIGKILL)
        output, _ = run.communicate(timeout=300)
    finally:
        run.kill()
    assert run.returncode == 0, output
    log = paths.stdout("learner").read_text()
    (restored,) = re.findall(r"Restored train step (\d+)", log)
    assert 0 < int(restored) < NUM_ITER * STEPS

    assert "  evaluator_0 " in output and "worker_0" not in output
    assert "trains offline on " in output and " | offline | " in output
    report = read_report(paths, "learner")
    assert report.train_step == NUM_ITER * STEPS
    assert "env steps of data: no env steps are collected" in report.offline
    assert read_report(paths, "replay").transitions == 0
    assert not list(paths.episodes.glob("collect_*.csv"))
    # Values of actions that the data lack are guesses, so a later policy may be a worse one.
    returns = [point.mean_return for point in read_evaluations(paths)]
    assert len(returns) == NUM_ITER // 8 and max(returns) > 5 * RANDOM_RETURN, returns
    assert any(paths.policies.glob("best/*"))

    # Without --offline, too, it goes on as it has begun.
    code, out, err = sac(folder, *command, "--extend=1", timeout=180)
    assert code == 0, out + err
    assert read_report(paths, "learner").offline and not (paths.statuses / "worker_0.json").exists()


@pytest.mark.timeout(300)
def test_what_cannot_be_trained_offline_is_refused_in_words(folder):
    command = ["train", "--env=CartPole-v1", "--name=cart"]
    code, _, err = sac(folder, *command, "--offline=dota")
    assert code == EXIT_CONFIG and "dota: there are no such demonstrations." in err
    code, _, err = sac(folder, "train", "--env=Pendulum-v1", "--name=other", "--offline=data",
                       timeout=180)  # fmt: skip
    assert code == EXIT_CONFIG
    assert "observation has shape [4], in the environment [3]" in err
    assert not (folder / "logs/other").exists()

    params = folder / "cart_params.py"
    share = "demonstrations, demonstration_share = 'data', 0.5 + 0.5"
    class_line = "class TrainParams(TrainParamsBase):"
    params.write_text(params.read_text().replace(class_line, f"{class_line}\n    {share}"))
    code, _, err = sac(folder, *command, timeout=180)
    assert code == EXIT_CONFIG
    assert "demonstration_share is 1, so this run trains offline" in err
