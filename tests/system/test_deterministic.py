"""With SAC_DETERMINISTIC=1 a seed decides the whole run, bit for bit."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from system.tiny_run import TinyRun

pytestmark = pytest.mark.system

HORIZON = 20
# Episodes end at random, so that the rounds are of different sizes; the reward depends on the
# action, so that what has been learned shows. Some numbers come from the global generator.
PARAMS = """
import numpy as np
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.train_params_base import TrainParamsBase


class WalkEnv(py_environment.PyEnvironment):
    def __init__(self, seed):
        super().__init__()
        self._rng = np.random.default_rng(seed)

    def observation_spec(self):
        return array_spec.ArraySpec([2], np.float32, "observation")

    def action_spec(self):
        return array_spec.BoundedArraySpec([1], np.float32, -1.0, 1.0)

    def _reset(self):
        self._state = self._rng.normal(size=2).astype(np.float32)
        return ts.restart(self._state)

    def _step(self, action):
        self._state = np.float32(0.9) * self._state + action
        self._state[1] += np.float32(0.1 * np.random.normal())
        reward = np.float32(-np.abs(self._state).sum())
        if self._rng.random() < 0.05:
            return ts.termination(self._state.copy(), reward)
        return ts.transition(self._state.copy(), reward)

    def render(self, mode="rgb_array"):
        return np.random.randint(0, 255, (48, 64, 3), np.uint8)


class TrainParams(TrainParamsBase):
    num_iter = 8
    num_steps_per_iter = 50
    train_batch_size = 32
    fresh_samples_per_step = 8
    n_buffer_init_episodes = 8
    n_train_episodes_per_iter = 2
    n_episodes_in_buffer = 12
    n_eval_episodes = 2
    learning_rate_schedule = "linear"  # over num_iter, also if fewer iterations are verified
    eval_period_itrs = 3
    log_period_itrs = 2
    checkpoint_period_itrs = 4
    actor_fc_layer_params = (16,)
    critic_joint_fc_layer_params = (16,)

    def env_ctor(self, *args, seed=None, **kwargs):
        return WalkEnv(seed)
"""


def start(folder, seed, deterministic="1", **variables):
    folder.mkdir()
    run = TinyRun(folder)
    (folder / "params.py").write_text(PARAMS)
    (folder / "config.json").write_text(json.dumps({"horizon": HORIZON}))
    file = folder / "variables.sh"
    file.write_text(file.read_text().replace("SAC_SEED=1", f"SAC_SEED={seed}"))
    return run, run.start(SAC_DETERMINISTIC=deterministic, **variables)


def result_of(run):
    """Returns all episodes without their times, and the last policy's variables."""
    curves = {}
    for kind in ("collect", "eval"):
        with (run.paths.episodes / f"{kind}_0.csv").open(newline="") as file:
            rows = [row | {"wall_time": None} for row in csv.DictReader(file)]
        assert len(rows) > 4
        curves[kind] = rows
    exported = run.paths.policies / "collect_policy" / "variables" / "variables"
    reader = tf.train.load_checkpoint(str(exported))
    names = [name for name in reader.get_variable_to_shape_map() if name[0] != "_"]
    return curves, {name: np.array(reader.get_tensor(name)).tobytes() for name in sorted(names)}


def test_two_runs_of_one_seed_give_the_same_bits_filmed_or_not_and_another_seed_others(tmp_path):
    films = {"SAC_GIN_BINDINGS": "TrainParams.video_period_itrs = 6"}
    started = [
        start(tmp_path / "a", 1), start(tmp_path / "b", 1, **films), start(tmp_path / "c", 2)
    ]  # fmt: skip
    try:
        for run, process in started:
            assert run.await_end(process, timeout_secs=120) == 0
        (curves, policy), same, (other_curves, other_policy) = [result_of(r) for r, _ in started]
        verified = subprocess.run(
            [sys.executable, "-m", "tfagents_system", "verify", "logs/tiny", "--num_iter=4"],
            cwd=started[0][0].project, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    finally:
        for run, _ in started:
            run.end()
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "The first 4 iterations are the same: " in verified.stdout
    filmed = [sorted(run.paths.training_videos.glob("*")) for run, _ in started]
    names = [f"policy_checkpoint_{iteration * 50:010d}.mp4" for iteration in (6, 8)]
    assert [[path.name for path in paths] for paths in filmed] == [[], names, []]
    assert len(policy) > 4
    assert same == (curves, policy)
    assert other_curves != curves and other_policy != policy
    # Rounds: 8 episodes of random actions, then 2 for each of the other iterations.
    steps = {int(row["iteration"]): int(row["env_step"]) for row in curves["collect"]}
    for iteration, env_step in steps.items():
        due = (8 + 2 * iteration) * HORIZON
        assert due <= env_step < due + HORIZON
