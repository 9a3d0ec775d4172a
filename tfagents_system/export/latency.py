"""Measures the time of an action of exported models, on one core.

Example: sac latency logs/pendulum/exports/policy_checkpoint_0000010000
Reads the folder of each format there. Each is measured in a separate process with one thread.
"""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Annotated, Any

import numpy as np

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.state.files import read_json
from tfagents_system.export.policy import FORMATS
from tfagents_system.terminal.progress import progress_bar

WARM_UP_ACTIONS = 200
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
            "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")  # fmt: skip
_PROGRAM = "import sys; from tfagents_system.export.latency import main; main(*sys.argv[1:])"


def measure(folder: pathlib.Path, name: str, num_actions: int) -> list[int]:
    """Returns the time of each action in ns, for the observation in example.json."""
    example = json.loads((folder / "example.json").read_text())
    runner = importlib.import_module(f"tfagents_system.export.{name}_runner")
    policy = runner.Policy(folder)
    given, dtypes = example["observation"], example["dtypes"]
    # Arrays, as an environment returns them; lists would be converted within each timed action.
    if isinstance(given, dict):
        observation: Any = {part: np.array(given[part], dtypes[part]) for part in dtypes}
    else:
        observation = np.array(given, dtypes["observation"])
    times = []
    for _ in range(WARM_UP_ACTIONS + num_actions):
        begin = time.perf_counter_ns()
        policy.action(observation)
        times.append(time.perf_counter_ns() - begin)
    return times[WARM_UP_ACTIONS:]


def main(folder: str, name: str, num_actions: str) -> None:
    """Pins this process to one core, measures, and prints the times as JSON."""
    if hasattr(os, "sched_setaffinity"):  # macOS has no affinity
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(json.dumps(measure(pathlib.Path(folder), name, int(num_actions))))


def latency(folder: str, /, num_actions: Annotated[int, AtLeast(1)] = 10_000) -> None:
    """Prints a table: median and 99.9th percentile of each format.

    Args:
      folder: Folder written by the export.
      num_actions: Actions per format, after a warm-up.

    Raises:
      ConfigError: If the folder has no exported model, or one fails.
    """
    names = [name for name in FORMATS if (pathlib.Path(folder) / name / "run_policy.py").exists()]
    if not names:
        raise ConfigError(
            f"{folder} has no exported model. Make some first: sac export logs/... --to numpy"
        )
    for name in names:
        file = pathlib.Path(folder) / name / "example.json"
        try:
            example = read_json(file) or {}
        except ValueError as error:
            raise ConfigError(f"{file}: damaged ({error}): call sac export again.") from error
        if "dtypes" not in example:
            raise ConfigError(f"{folder}/{name} is of an earlier version: call sac export again.")
    print(f"{'format':<12}{'median, us':>12}{'99.9 %, us':>12}")
    for name in names:
        with progress_bar(f"measuring {name}"):
            done = subprocess.run(
                [sys.executable, "-c", _PROGRAM, str(pathlib.Path(folder) / name), name,
                 str(num_actions)],
                env=os.environ | dict.fromkeys(_THREADS, "1") | {"TF_CPP_MIN_LOG_LEVEL": "3"},
                capture_output=True, text=True,
            )  # fmt: skip
        if done.returncode:
            reason = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise ConfigError(f"{folder}/{name}: {reason[-1]}")
        times = np.array(json.loads(done.stdout.splitlines()[-1])) / 1e3
        print(f"{name:<12}{np.median(times):>12.0f}{np.percentile(times, 99.9):>12.0f}")
