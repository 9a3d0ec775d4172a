"""Draws the learning curves of the zoo's tasks next to published ones.

Example: sac train zoo/hopper.sh --seed 1 2 3; python -m zoo.curves

Reads the experiments `<task>_seed_<seed>` in logs/, finished or not. Writes zoo/curves.csv, which
keeps curves of other machines and earlier runs, and docs/results/zoo_curves.png. Prints the scores.
"""

import csv
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.records.run_history import read_evaluations
from zoo import published
from zoo.published import RANDOM_AND_TD3
from zoo.table import PROJECT, ZOO, runs_in, tasks, write_rows

FILE = ZOO / "curves.csv"
PICTURE = PROJECT / "docs/results/zoo_curves.png"
COLORS = {"XQC": "#ff7f0e", "CrossQ": "#2ca02c", "SAC": "#7f7f7f"}
MOST_COLUMNS = 4
SCORED_AT = (100_000, 200_000)  # env steps


class Point(NamedTuple):
    """An evaluation."""

    task: str
    seed: int
    env_step: int
    mean_return: float
    minutes: float  # of training


def drawn() -> list[str]:
    """Returns the tasks that have curves: all that XQC learns."""
    of_others = published.curves()
    return [
        task
        for task, row in tasks().items()
        if row.environment in of_others or task.endswith("_xqc")
    ]


def points_in(logs: pathlib.Path, names: Iterable[str]) -> list[Point]:
    """Returns the evaluations of the experiments of tasks in `logs`."""
    found = []
    for task in names:
        for seed, paths in runs_in(logs, task):
            found += [
                Point(task, seed, p.env_step, round(p.mean_return, 1),
                      round(p.training_secs / 60, 1))
                for p in read_evaluations(paths)
            ]  # fmt: skip
    return found


def merged(old: Iterable[Point], new: Sequence[Point]) -> list[Point]:
    """Returns the curves in order; a new one replaces the old one of its task and seed."""
    replaced = {point[:2] for point in new}
    return sorted([*(point for point in old if point[:2] not in replaced), *new])


def read(path: pathlib.Path) -> list[Point]:
    """Returns the curves in a file written by `write_rows`; none if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Point(row["task"], int(row["seed"]), int(row["env_step"]), float(row["mean_return"]),
                  float(row["minutes"]))
            for row in csv.DictReader(file)
        ]  # fmt: skip


def curves(points: Iterable[Point]) -> dict[str, dict[int, NDArray[np.float64]]]:
    """Returns env steps and mean returns, [n, 2], by task and seed."""
    return published.by_two_keys((p.task, p.seed, p.env_step, p.mean_return) for p in points)


def return_at(env_step: int, seeds: Mapping[int, NDArray[np.float64]]) -> float | None:
    """Returns the mean over seeds of interpolated returns; None if a curve ends earlier."""
    if any(curve[-1, 0] < env_step for curve in seeds.values()):
        return None
    return float(np.mean([np.interp(env_step, *curve.T) for curve in seeds.values()]))


def scores(found: Mapping[str, Mapping[int, NDArray[np.float64]]]) -> str:
    """Returns a line for each task and number of env steps: return and share of TD3's, and means.

    The share is (R - random) / (TD3 - random).
    """
    lines = []
    environments = {task: row.environment for task, row in tasks().items()}
    for env_step in SCORED_AT:
        shares = []
        for task, seeds in found.items():
            if environments[task] not in RANDOM_AND_TD3:
                continue
            mean_return = return_at(env_step, seeds)
            if mean_return is not None:
                shares.append(_share(environments[task], mean_return))
                lines.append(
                    f"{env_step:,} env steps: {environments[task]} {mean_return:,.0f}, "
                    f"TD3-normalised {shares[-1]:.2f}, seeds: {len(seeds)}\n"
                )
        if shares:
            lines.append(
                f"{env_step:,} env steps: mean of {len(shares)} of {len(RANDOM_AND_TD3)} tasks "
                f"{np.mean(shares):.2f}\n"
            )
        lines += _published_scores(env_step)
    return "".join(lines)


def _share(environment: str, mean_return: float) -> float:
    random, of_td3 = RANDOM_AND_TD3[environment]
    return (mean_return - random) / (of_td3 - random)


def _published_scores(env_step: int) -> list[str]:
    """Returns a line for each algorithm with published returns for all tasks."""
    shares: dict[str, list[float]] = {}
    for environment in RANDOM_AND_TD3:
        for algorithm, curve in published.curves()[environment].items():
            mean_return = float(np.interp(env_step, *curve.T))
            shares.setdefault(algorithm, []).append(_share(environment, mean_return))
    return [
        f"{env_step:,} env steps: mean of {algorithm} as published {np.mean(of_one):.2f}\n"
        for algorithm, of_one in shares.items()
        if len(of_one) == len(RANDOM_AND_TD3)
    ]


def draw(found: Mapping[str, Mapping[int, NDArray[np.float64]]], path: pathlib.Path) -> None:
    """Draws a panel for each task: a line for each seed, published means as points."""
    of_others = published.curves()
    rows = tasks()
    num_columns = min(MOST_COLUMNS, len(found))
    num_rows = -(-len(found) // num_columns)
    figure, panels = plt.subplots(
        num_rows, num_columns, figsize=(3.2 * num_columns, 2.6 * num_rows), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axes in panels.flat[len(found) :]:
        axes.set_axis_off()
    for axes, (task, seeds) in zip(panels.flat, found.items(), strict=False):
        environment, _, action_repeat = rows[task]
        last = max(curve[-1, 0] for curve in seeds.values())
        for index, curve in enumerate(seeds.values()):
            axes.plot(*curve.T / [[1000], [1]], color="#1f77b4", lw=1,
                      label=None if index else "here, each seed")  # fmt: skip
        for name, curve in of_others.get(environment, {}).items():
            xs, ys = curve[curve[:, 0] <= last * action_repeat].T
            thousands = xs / action_repeat / 1000
            axes.plot(thousands, ys, "o", color=COLORS[name], label=f"{name}, published")
        axes.set_title(environment, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    labelled = panels[0, 0].get_legend_handles_labels()
    figure.legend(*labelled, loc="outside upper center", ncols=len(labelled[0]), fontsize=8)
    figure.supxlabel("thousands of env steps", fontsize=9)
    figure.supylabel("mean return of an evaluation", fontsize=9)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def main() -> None:
    """Updates the file and the picture from logs/ of this folder, and prints the scores."""
    points = merged(read(FILE), points_in(pathlib.Path("logs"), drawn()))
    write_rows(FILE, Point._fields, points)
    found = curves(points)
    if found:
        draw(found, PICTURE)
    print(scores(found), end="")


if __name__ == "__main__":
    run_tool(main, sys.argv)
