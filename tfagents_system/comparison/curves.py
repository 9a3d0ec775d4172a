"""Reads the curves of experiments: returns, success rate, losses, alpha and curriculum."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfagents_system.comparison.run_groups import RunGroup
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.records import bootstrap
from tfagents_system.records.event_files import Scalar, read_scalars
from tfagents_system.records.run_history import (
    EvaluationPoint,
    env_step_counter,
    number_names,
    read_evaluations,
    read_kind,
)

LEARNER_TAGS = ("critic_loss", "actor_loss", "loss", "alpha", "entropy")
CURRICULUM = "curriculum/"
MOST_POINTS = 500  # points of a mean curve; a picture shows no more


class Curve(NamedTuple):
    """One quantity of one experiment."""

    xs: list[float]  # ascending
    ys: list[float]  # finite


class Panel(NamedTuple):
    """One quantity of all experiments."""

    title: str
    x_label: str
    groups: list[list[Curve]]  # curves of each group, without experiments that have no data


class Band(NamedTuple):
    """Mean over seeds with its 95 % bootstrap interval, where all seeds have data."""

    xs: NDArray[np.float64]  # [n]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def make_panels(groups: Sequence[RunGroup]) -> list[Panel]:
    """Returns the panels for which any experiment has data, returns first."""
    runs = [
        [curves_of(paths, read_evaluations(paths)) for paths in group.experiments]
        for group in groups
    ]
    keys = dict.fromkeys(key for group in runs for curves in group for key in curves)
    panels = [
        Panel(
            title, x_label, [[c[title, x_label] for c in g if (title, x_label) in c] for g in runs]
        )
        for title, x_label in keys
    ]
    return [panel for panel in panels if any(panel.groups)]


def band(curves: Sequence[Curve]) -> Band:
    """Returns mean and bootstrap interval over interpolated curves."""
    begin = max(curve.xs[0] for curve in curves)
    end = min(curve.xs[-1] for curve in curves)
    xs = np.array(sorted({x for curve in curves for x in curve.xs if begin <= x <= end}))
    if len(xs) > MOST_POINTS:
        xs = xs[np.linspace(0, len(xs) - 1, MOST_POINTS).astype(int)]
    ys = np.stack([np.interp(xs, curve.xs, curve.ys) for curve in curves])
    low, high = bootstrap.mean_interval(ys, np.random.default_rng(0))
    return Band(xs, ys.mean(axis=0), low, high)


def curves_of(
    paths: ExperimentPaths, points: Sequence[EvaluationPoint]
) -> dict[tuple[str, str], Curve]:
    """Returns the curves of an experiment by title and label of the x axis.

    Args:
      paths: Paths of the experiment, which may be running.
      points: Its evaluations.
    """
    curves = {}
    y_axes: dict[str, Sequence[float | None]] = {
        "episode return": [point.mean_return for point in points],
        "success rate": [point.success_rate for point in points],
    }
    x_axes: dict[str, Sequence[float]] = {
        "train steps": [point.train_step for point in points],
        "env steps": [point.env_step for point in points],
        "minutes of training": [point.training_secs / 60 for point in points],
    }
    if not any(x_axes["env steps"]):  # trained offline
        del x_axes["env steps"]
    for (title, ys), (x_label, xs) in itertools.product(y_axes.items(), x_axes.items()):
        known = ((x, y) for x, y in zip(xs, ys, strict=True) if y is not None)
        curves[title, x_label] = _curve(known)
    for name in number_names(points):
        pairs = [(p.train_step, p.numbers[name]) for p in points if name in p.numbers]
        curves[name, "train steps"] = _curve(pairs)
    learner = read_scalars(paths.train_summaries / "learner")
    tags = [tag for tag in LEARNER_TAGS if f"learner/{tag}" in learner]
    if "critic_loss" in tags:
        tags = [tag for tag in tags if tag != "loss"]  # the sum of the other losses
    for tag in tags:
        values = ((scalar.step, scalar.value) for scalar in learner[f"learner/{tag}"])
        curves[tag.replace("_", " "), "train steps"] = _curve(values)
    env_step_at = env_step_counter(read_kind(paths, "collect"))
    for tag, scalars in _curriculum(paths).items():
        values = ((env_step_at(scalar.wall_time), scalar.value) for scalar in scalars)
        curves[tag.removeprefix(CURRICULUM), "env steps"] = _curve(values)
    return {key: curve for key, curve in curves.items() if curve.xs}


def _curve(points: Iterable[tuple[float, float]]) -> Curve:
    """Returns the points with finite values, in order."""
    finite = sorted({x: y for x, y in points if math.isfinite(y)}.items())
    return Curve([float(x) for x, _ in finite], [float(y) for _, y in finite])


def _curriculum(paths: ExperimentPaths) -> dict[str, list[Scalar]]:
    """Returns the values of the curriculum from the first worker; all have the same."""
    for folder in sorted(paths.train_summaries.glob("worker_*")):
        scalars = read_scalars(folder)
        if found := {tag: s for tag, s in scalars.items() if tag.startswith(CURRICULUM)}:
            return found
    return {}
