"""Trains the small tasks of tasks/simple.py, which cover every kind of action and observation.

Example: python -m benchmarks.ours.simple --seeds 5 --task continuous "hybrid 1 1"
Runs `sac train` for each task and seed that docs/results/simple.csv lacks, and adds a row for each:
a task passes if the mean return of 5 greedy episodes after the last step is above the threshold.
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
from typing import Annotated

import numpy as np

import tfagents_system as sac
from benchmarks.ours.programs import PARAMS, PROJECT
from benchmarks.ours.simple_budgets import IMITATED, budget_of
from benchmarks.result_rows import append_row, read_rows
from tfagents_system.core.programs.command_line import AtLeast, run_tool
from tfagents_system.demonstrations.recorder import Recorder
from tfagents_system.tasks.simple import TASKS, Simple

RESULTS = PROJECT / "docs/results/simple.csv"
HEADER = ("task", "seed", "env_steps", "greedy_return", "threshold", "passed")


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
      num_iter: Iterations. Default: the budget's.
      environ: SAC_* variables in addition to those of this process.

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
