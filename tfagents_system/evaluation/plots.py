"""Draws the learning curve of an experiment.

Example: python -m tfagents_system.evaluation.plots --exp_dir logs/pendulum
Reads episodes/*.csv in the experiment's folder.
"""

import collections
import pathlib
import statistics
import sys
from collections.abc import Iterable
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tfagents_system.core.command_line import run_tool
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.paths import ExperimentPaths, existing_experiment
from tfagents_system.evaluation.episode_rows import read_rows

LARGEST_RETURN = 1e100  # sums and squares of it are still numbers


class CurvePoint(NamedTuple):
    """The episodes that belong to one train step, or to one interval of them."""

    train_step: int
    mean_return: float
    std_return: float  # 0 for a single episode


def read_returns(files: Iterable[pathlib.Path]) -> list[tuple[int, float]]:
    """Returns (train_step, return) of every whole line of the CSV files, in order of train step.

    Returns that cannot be drawn, because they are not finite or nearly so, are left out.
    """
    rows = (row for path in files for row in read_rows(path))
    pairs = ((row.train_step, row.episode_return) for row in rows)
    return sorted(pair for pair in pairs if abs(pair[1]) <= LARGEST_RETURN)


def curve(pairs: Iterable[tuple[int, float]], interval: int = 1) -> list[CurvePoint]:
    """Groups returns by `train_step // interval`; each point lies at its interval's begin."""
    groups = collections.defaultdict(list)
    for train_step, episode_return in pairs:
        groups[train_step // interval * interval].append(episode_return)
    return [
        CurvePoint(step, statistics.fmean(group), statistics.pstdev(group))
        for step, group in sorted(groups.items())
    ]


def draw_learning_curve(exp_dir: pathlib.Path, output: pathlib.Path) -> None:
    """Draws greedy evaluations (mean and standard deviation) over collected episodes (means).

    Raises:
      FileNotFoundError: If the experiment has no episodes yet.
    """
    folder = ExperimentPaths(exp_dir).episodes
    collected = read_returns(sorted(folder.glob("collect_*.csv")))
    if not collected:
        raise FileNotFoundError(f"{folder} has no episodes yet.")
    collect = curve(collected, interval=max(1, collected[-1][0] // 200))
    evaluation = curve(read_returns(sorted(folder.glob("eval_*.csv"))))

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot([p.train_step for p in collect], [p.mean_return for p in collect],
              color="0.7", label="collected episodes (with exploration)")  # fmt: skip
    steps = [p.train_step for p in evaluation]
    axes.fill_between(
        steps,
        [p.mean_return - p.std_return for p in evaluation],
        [p.mean_return + p.std_return for p in evaluation],
        color="C0", alpha=0.25, linewidth=0,
    )  # fmt: skip
    axes.plot(steps, [p.mean_return for p in evaluation], color="C0",
              label="greedy episodes: mean and standard deviation")  # fmt: skip
    axes.set_xlabel("train step")
    axes.set_ylabel("episode return")
    axes.set_title(exp_dir.resolve().name, parse_math=False)  # of a name with $ signs
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    figure.savefig(output, dpi=100)
    plt.close(figure)


def plot(exp_dir: pathlib.Path, output: pathlib.Path | None = None) -> None:
    """Draws the learning curve of an experiment and prints the name of the file.

    Args:
      exp_dir: Folder of the experiment.
      output: PNG to write. Default: learning_curve.png in exp_dir.

    Raises:
      ConfigError: If there is no such experiment, it has no episodes yet, or a file cannot be
        read or written.
    """
    existing_experiment(exp_dir)
    output = output or exp_dir / "learning_curve.png"
    try:
        draw_learning_curve(exp_dir, output)
    except OSError as error:
        raise ConfigError(str(error)) from error
    print(output)


if __name__ == "__main__":
    run_tool(plot, sys.argv)
