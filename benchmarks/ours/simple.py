"""Trains the small tasks of tasks/simple.py, whose actions and observations are of every kind.

Example: python -m benchmarks.ours.simple --seeds 5 --task continuous "hybrid 1 1"
Runs `sac train` for each task and seed that docs/results/simple.csv lacks, and adds a row for each:
the greedy mean return of 5 episodes after the last step passes if it is above the threshold.
Tasks of IMITATED are learned from 20 episodes of demonstrations by GAIL and cloning, without the
task's reward.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

import tfagents_system as sac
from benchmarks.ours.programs import PARAMS, PROJECT
from benchmarks.result_rows import append_row, read_rows
from tfagents_system.agents.agent_settings import IMAGE_ENCODERS
from tfagents_system.core.programs.command_line import AtLeast, run_tool
from tfagents_system.demonstrations.recorder import Recorder
from tfagents_system.tasks.simple import TASKS, Simple

RESULTS = PROJECT / "docs/results/simple.csv"
HEADER = ("task", "seed", "env_steps", "greedy_return", "threshold", "passed")
IMITATED = {"gail": "discrete", "gail image": "discrete image"}
"""Tasks that are learned from demonstrations, and the ones of TASKS that they are otherwise."""


class Budget(NamedTuple):
    """The length of a training, and settings beside those of benchmarks/params/simple.py."""

    env_steps: int
    threshold: float
    settings: dict[str, Any]
    num_random: int = 100  # env steps before the first train step
    capacity: int = 5000  # env steps in the replay buffer
    horizon: int = 20  # env steps per episode and iteration, at most; random actions need several


def budget_of(task: str) -> Budget:
    """Returns the budget of a task of TASKS or IMITATED, as in the reference tests."""
    if task in IMITATED:
        gail = {"encoding_size": 32, "use_actions": True, "learning_rate": 3e-3}
        cloning = {"strength": 1.0, "steps": 1000}
        imitation = {"reward_signals": {"gail": gail}, "behavioral_cloning": cloning}
        return Budget(500, 0.9, imitation | {"train_batch_size": 32}, horizon=50)
    if task.startswith("2019"):
        layers = dict.fromkeys(("actor_fc_layer_params", "critic_joint_fc_layer_params"), (64,))
        return Budget(2000, 0.99, layers | {"train_batch_size": 32}, 1000, 10_240, horizon=200)
    hybrid = TASKS[task].get("num_discrete") and TASKS[task].get("num_continuous", 1)
    small_rate = dict.fromkeys(
        ("actor_learning_rate", "critic_learning_rate", "alpha_learning_rate"), 3e-4
    )
    if TASKS[task].get("must_remember"):
        rate = small_rate if hybrid else dict.fromkeys(small_rate, 1e-3)
        memory = {"recurrent": True, "rnn_units": 16, "recurrent_sequence_length": 16}
        return Budget(4000, 0.9, rate | memory | {"train_batch_size": 16}, 1000)
    if TASKS[task].get("num_cameras"):
        settings = small_rate | {"train_batch_size": 128 if hybrid else 16}
        encoder, _, _ = task.rpartition(" ")
        if encoder in IMAGE_ENCODERS:  # with the random ones, 100 env steps
            return Budget(80, 0.5, settings | {"image_encoder": encoder}, num_random=20)
        # Random moves of 0.2 seldom come to an end within 20 env steps.
        return Budget(3000, 0.9, settings) if hybrid else Budget(1000, 0.9, settings, horizon=50)
    goals = {}
    if task.startswith("goal"):
        goals["goal_observations"] = ["goal" if "list" in task else "observation"]
    if num_lists := TASKS[task].get("num_lists"):
        is_alone = num_lists == 1 and not goals
        names = ["observation"] if is_alone else [f"list_{index}" for index in range(num_lists)]
        lists = goals | {"entity_observations": names, "train_batch_size": 16}
        return Budget(1000, 0.9, small_rate | lists)
    if hybrid:
        return Budget(8000, 0.9, {"train_batch_size": 256}, capacity=50_000)
    if task.endswith(" 2"):
        return Budget(3000, 0.8, {"train_batch_size": 8}, 2000)
    return Budget(1000, 0.9, goals | {"train_batch_size": 8})


def write_demonstrations(task: str, folder: pathlib.Path) -> pathlib.Path:
    """Writes 20 episodes of a task of IMITATED, which go to the goal; returns their folder."""
    demonstrations = folder / "demonstrations"
    recorder, environment = Recorder(demonstrations, task), Simple(**TASKS[IMITATED[task]])
    environment.seed(0)
    for _ in range(20):
        recorder.reset(environment.reset())
        is_over = False
        while not is_over:
            action = np.int64(environment.goal > 0)
            observation, reward, is_over, _ = environment.step(action)
            recorder.step(action, observation, reward, is_over, False)
    return demonstrations


def train(
    task: str,
    seed: int,
    folder: str,
    num_iter: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> pathlib.Path:
    """Trains by `sac train` in an empty folder.

    Args:
      task: Of TASKS or IMITATED.
      seed: Of everything random.
      folder: Working directory.
      num_iter: Iterations. Default: those of the budget.
      environ: SAC_* variables beside those of this process.

    Returns:
      The experiment's folder.

    Raises:
      RuntimeError: If the training fails; the message has its output.
    """
    budget = budget_of(task)
    num_iter = num_iter or budget.env_steps // budget.horizon
    settings = {
        "num_iter": num_iter,
        "num_steps_per_iter": budget.horizon,
        "eval_period_itrs": num_iter,
        "n_buffer_init_episodes": budget.num_random // budget.horizon,
        "n_episodes_in_buffer": budget.capacity // budget.horizon,
    } | budget.settings
    if task in IMITATED:
        settings["demonstrations"] = str(write_demonstrations(task, pathlib.Path(folder)))
    config = pathlib.Path(folder, "config.json")
    config.write_text(json.dumps({"horizon": budget.horizon, "task": IMITATED.get(task, task)}))
    bindings = "\n".join(f"TrainParams.{name} = {value!r}" for name, value in settings.items())
    variables = {
        "SAC_EXP_NAME": "simple", "SAC_PARAMS": str(PARAMS / "simple.py"),
        "SAC_CONFIG": str(config), "SAC_NUM_COLLECT_WORKERS": "1", "SAC_GIN_BINDINGS": bindings,
    }  # fmt: skip
    file = pathlib.Path(folder, "variables.sh")
    file.write_text("".join(f"{n}={shlex.quote(value)}\n" for n, value in variables.items()))
    command = [sys.executable, "-m", "tfagents_system", "train", str(file), f"--seed={seed}"]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | dict(environ or {}), capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{task}: sac train ended with {done.returncode}:\n{done.stdout}")
    return pathlib.Path(folder, "logs", "simple")


def measure(task: str, seed: int) -> float:
    """Trains; returns the mean return of the greedy episodes after the last step."""
    with tempfile.TemporaryDirectory() as folder:
        return list(sac.Experiment(train(task, seed, folder)).curves()["mean_return"])[-1]


def main(
    seeds: Annotated[int, AtLeast(1)] = 5, task: tuple[str, ...] = (*TASKS, *IMITATED)
) -> None:
    """Trains what is missing and writes a row for each run.

    Args:
      seeds: Seeds of each task, from 1.
      task: Names of tasks.
    """
    known = {(row["task"], int(row["seed"])) for row in read_rows(RESULTS)}
    for seed in range(1, seeds + 1):
        for name in task:
            if (name, seed) in known:
                continue
            value, budget = measure(name, seed), budget_of(name)
            passed = value > budget.threshold
            row = (name, seed, budget.env_steps, round(value, 4), budget.threshold, passed)
            append_row(RESULTS, HEADER, row)


if __name__ == "__main__":
    run_tool(main, sys.argv)
