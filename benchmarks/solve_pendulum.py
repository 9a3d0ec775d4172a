"""Trains Pendulum with default settings from several seeds and evaluates each policy.

Example: python benchmarks/solve_pendulum.py --seeds 1 --seeds 2 --output pendulum.csv
Runs `run_script.sh training_variables_pendulum.sh` and then `run.py` with 100 greedy episodes for
each seed, prints a line for each, and writes them as CSV. The seconds include the start-up.
"""

import csv
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from tfagents_system.core.programs.command_line import run_tool

PROJECT = pathlib.Path(__file__).parents[1]
SOLVED_RETURN = -200.0
NUM_EPISODES = 100


def train(seed: int, num_iter: int | None) -> tuple[pathlib.Path, float]:
    """Trains from scratch; returns the experiment's folder and the seconds.

    If `num_iter` is None, the params file determines the length.
    """
    name = f"solve_pendulum_{seed}"
    folder = PROJECT / "logs" / name
    shutil.rmtree(folder, ignore_errors=True)
    environ = os.environ | {"SAC_EXP_NAME": name, "SAC_SEED": str(seed)}
    if num_iter is not None:
        environ["SAC_GIN_BINDINGS"] = f"TrainParams.num_iter = {num_iter}"
    started = time.monotonic()
    subprocess.run(
        ["./run_script.sh", "training_variables_pendulum.sh"],
        cwd=PROJECT, env=environ, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return folder, time.monotonic() - started


def evaluate(folder: pathlib.Path) -> list[float]:
    """Returns the greedy returns of the final policy."""
    command = [
        sys.executable, "tfagents_system/run.py", "--novideo",
        f"--exp_dir={folder}", f"--num_episodes={NUM_EPISODES}", "--seed=0",
    ]  # fmt: skip
    subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)
    (table,) = folder.glob("videos/*/episodes.csv")
    with table.open(newline="") as file:
        return [float(row["return"]) for row in csv.DictReader(file)]


def main(
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5),
    num_iter: int | None = None,
    output: pathlib.Path | None = None,
) -> None:
    """Trains and evaluates once for each seed.

    Args:
      seeds: Seed of each run.
      num_iter: Iterations. Default: from the params file.
      output: CSV to write.
    """
    rows = []
    for seed in seeds:
        folder, seconds = train(seed, num_iter)
        returns = evaluate(folder)
        mean, error = statistics.fmean(returns), statistics.stdev(returns) / len(returns) ** 0.5
        steps = json.loads((folder / "finished.json").read_text())["train_step"]
        rows.append(
            (seed, steps, round(seconds), round(mean, 1), round(error, 1), mean >= SOLVED_RETURN)
        )
        print(f"seed {seed}: {steps:,} train steps, {seconds:.0f} s, mean return of {NUM_EPISODES} "
              f"greedy episodes {mean:.1f} +- {error:.1f}", flush=True)  # fmt: skip
    print(f"solved (>= {SOLVED_RETURN:g}): {sum(row[-1] for row in rows)} of {len(rows)}")
    if output:
        with output.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow((
                "seed", "train_steps", "seconds", "mean_return", "standard_error", "is_solved",
            ))  # fmt: skip
            writer.writerows(rows)


if __name__ == "__main__":
    run_tool(main, sys.argv)
