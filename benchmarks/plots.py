"""Draws small pictures of the results."""

import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.measurements import IN_ARITHMETIC, OURS, PEERS, WITHOUT_POOL

SPEED_METRICS = {
    "learner": "train_steps_per_sec",
    "collection": "env_steps_per_sec",
    "loop": "env_steps_per_sec",
}
COLORS = {
    OURS: "#1f77b4", "sbx": "#ff7f0e", "sb3": "#7f7f7f",
    WITHOUT_POOL: "#d62728",
    **dict(zip(IN_ARITHMETIC, ("#2ca02c", "#9467bd", "#8c564b"), strict=True)),
}  # fmt: skip


def draw(
    comparisons: Iterable[Any], records: Iterable[Mapping[str, Any]], output: pathlib.Path
) -> list[pathlib.Path]:
    """Draws every picture for which there is data; returns the files.

    Args:
      comparisons: `report.Comparison`s.
      records: The records from which they were made.
      output: Folder of the pictures.
    """
    comparisons = list(comparisons)
    speeds = [
        c for c in comparisons if c.metric == SPEED_METRICS.get(c.name) and OURS in c.summaries
    ]
    scaling = [c for c in comparisons if c.name == "scaling" and c.metric == "env_steps_per_sec"]
    curves = [record for record in records if "curve" in record]
    paths = []
    if speeds:
        paths.append(_draw_speeds(speeds, output / "benchmarks_speed.png"))
    if len(scaling) > 1:
        paths.append(_draw_scaling(scaling, output / "benchmarks_scaling.png"))
    if curves:
        paths.append(_draw_curves(curves, output / "benchmarks_curves.png"))
    return paths


def _draw_speeds(comparisons: Sequence[Any], path: pathlib.Path) -> pathlib.Path:
    """Draws bars: each contestant's median as a multiple of ours, with the whole range."""
    figure, axes = plt.subplots(figsize=(8, 0.7 + 0.75 * len(comparisons)), layout="constrained")
    contestants = (OURS, *PEERS)
    height = 0.8 / len(contestants)
    for index, contestant in enumerate(contestants):
        rows = [
            (row, c.summaries[contestant], c.summaries[OURS].median)
            for row, c in enumerate(comparisons)
            if contestant in c.summaries
        ]
        widths = [summary.median / ours for _, summary, ours in rows]
        ranges = [
            [(s.median - min(s.values)) / ours for _, s, ours in rows],
            [(max(s.values) - s.median) / ours for _, s, ours in rows],
        ]
        places = [row + (index - 1) * height for row, _, _ in rows]
        axes.barh(
            places, widths, height, xerr=ranges, color=COLORS[contestant], label=contestant
        )  # fmt: skip
        for place, (_, summary, _) in zip(places, rows, strict=True):
            axes.annotate(
                f" {summary.median:,.0f}/s", (0, place), va="center", fontsize=8, color="white"
            )
    labels = [f"{c.name}, {c.environment}, {c.cores_text}" for c in comparisons]
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("steps per second as a multiple of ours (line: slowest to fastest run)")
    figure.legend(loc="outside right upper", fontsize=8)
    return _save(figure, path)


def _draw_scaling(comparisons: Sequence[Any], path: pathlib.Path) -> pathlib.Path:
    """Draws env steps per second over the number of workers, and proportional growth."""
    points = sorted(
        (int(c.environment.split()[-2]), c.summaries[OURS].median)
        for c in comparisons
        if OURS in c.summaries and math.isfinite(c.summaries[OURS].median)
    )
    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    workers, rates = zip(*points, strict=True)
    axes.plot(workers, rates, "o-", color=COLORS[OURS], label="measured")
    proportional = [rates[0] / workers[0] * count for count in workers]
    axes.plot(workers, proportional, ":", color="grey", label="proportional")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(workers, workers)
    axes.set_yticks(proportional, [f"{rate:,.0f}" for rate in proportional])
    axes.set_xlabel("workers")
    axes.set_ylabel("env steps per second")
    axes.legend()
    return _save(figure, path)


def _draw_curves(records: Sequence[Mapping[str, Any]], path: pathlib.Path) -> pathlib.Path:
    """Draws a panel for each case, with a line for each run: mean greedy return over env steps."""
    cases: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        cases.setdefault(f"{record['name']}, {record['environment']}", []).append(record)
    figure, row = plt.subplots(
        1, len(cases), figsize=(6 * len(cases), 3.5), layout="constrained", squeeze=False
    )
    for axes, (case, runs) in zip(row[0], cases.items(), strict=True):
        labelled = set()
        for record in runs:
            contestant = record["contestant"]
            env_steps, returns = zip(*record["curve"], strict=True)
            label = None if contestant in labelled else contestant
            labelled.add(contestant)
            axes.plot(env_steps, returns, color=COLORS[contestant], label=label, alpha=0.7)
        axes.set_title(case, fontsize=9)
        axes.set_xlabel("env steps")
        axes.set_ylabel("mean return of 10 greedy episodes")
        axes.legend(fontsize=8)
    return _save(figure, path)


def _save(figure: Any, path: pathlib.Path) -> pathlib.Path:
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
