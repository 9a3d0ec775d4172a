"""Draws learning curves of one experiment, or of groups of seeds side by side.

Example: sac plot logs/small_lr_ logs/large_lr_
Example: sac plot --exp_dir logs/pendulum
Reads episodes/*.csv and, for groups, TensorBoard files in the experiments' folders. A group is an
experiment, a pattern such as 'logs/a_*', or a common prefix of folders; its mean return, success
rate, losses, alpha and curriculum are drawn with their 95 % bootstrap interval over seeds.
"""

import collections
import math
import pathlib
import statistics
from collections.abc import Iterable, Sequence, Sized
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tfagents_system.comparison.curves import Curve, band, make_panels
from tfagents_system.comparison.run_groups import RunGroup, find_group
from tfagents_system.core.display import printable
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment
from tfagents_system.records.run_history import read_evaluations, read_kind
from tfagents_system.terminal.progress import progress_bar

MOST_COLUMNS = 3


class CurvePoint(NamedTuple):
    """The episodes of one train step, or of one interval of train steps."""

    train_step: int
    mean_return: float
    std_return: float  # 0 for a single episode


def read_returns(paths: ExperimentPaths, kind: str) -> list[tuple[int, float]]:
    """Returns (train_step, return) of every episode of a kind, in order of train step."""
    rows = (row for worker in read_kind(paths, kind) for row in worker)
    return sorted((row.train_step, row.episode_return) for row in rows)


def curve(pairs: Iterable[tuple[int, float]], interval: int = 1) -> list[CurvePoint]:
    """Groups returns by `train_step // interval`; a point lies at the start of its interval."""
    groups = collections.defaultdict(list)
    for train_step, episode_return in pairs:
        groups[train_step // interval * interval].append(episode_return)
    return [
        CurvePoint(step, statistics.fmean(group), statistics.pstdev(group))
        for step, group in sorted(groups.items())
    ]


def draw_learning_curve(exp_dir: pathlib.Path, output: pathlib.Path) -> None:
    """Draws greedy evaluations (mean and standard deviation) and collected episodes (means).

    Below, it draws the success rate, if the environment reports success. A run that trains offline
    collects no episodes.

    Raises:
      FileNotFoundError: If the experiment has no episodes of either kind yet.
    """
    paths = ExperimentPaths(exp_dir)
    collected, evaluated = read_returns(paths, "collect"), read_returns(paths, "eval")
    if not collected and not evaluated:
        raise FileNotFoundError(f"{paths.episodes} has no episodes yet.")
    evaluation = curve(evaluated)

    rates = [(p.train_step, p.success_rate) for p in read_evaluations(paths)
             if p.success_rate is not None]  # fmt: skip

    figure = plt.figure(figsize=(7, 6 if rates else 4), layout="constrained")
    axes, *below = figure.subplots(
        2 if rates else 1, sharex=True, squeeze=False, height_ratios=[2, 1] if rates else [1]
    ).flat
    if collected:
        collect = curve(collected, interval=max(1, collected[-1][0] // 200))
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
              label="evaluations (greedy): mean and standard deviation")  # fmt: skip
    axes.set_ylabel("episode return")
    for rate_axes in below:
        rate_axes.plot(*zip(*rates, strict=True), color="C0", marker=_marker(rates))
        rate_axes.set_ylabel("success rate")
        rate_axes.set_ylim(-0.05, 1.05)
        rate_axes.grid(alpha=0.3)
    figure.axes[-1].set_xlabel("train step")
    axes.set_title(exp_dir.resolve().name, parse_math=False)  # for names with $ signs
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    _save(figure, output)


def draw_panels(groups: Sequence[RunGroup], output: pathlib.Path) -> None:
    """Draws mean and 95 % bootstrap interval over the seeds of each group, and each seed thinly.

    Raises:
      ConfigError: If no experiment has data yet.
    """
    panels = make_panels(groups)
    if not panels:
        names = ", ".join(str(paths.root) for group in groups for paths in group.experiments)
        raise ConfigError(f"Nothing to draw yet: no evaluation and no summary in {names}.")
    figure, all_axes = figure_of(len(panels))
    for axes, panel in zip(all_axes, panels, strict=True):
        for index, curves in enumerate(panel.groups):
            _draw_group(axes, curves, f"C{index}")
        axes.set_title(panel.title, parse_math=False)
        axes.set_xlabel(panel.x_label)
        axes.grid(alpha=0.3)
    handles = [plt.Line2D([], [], color=f"C{index}") for index in range(len(groups))]
    labels = [f"{group.name} ({_seeds(len(group.experiments))})" for group in groups]
    legend = figure.legend(handles, labels, loc="outside upper center", ncols=MOST_COLUMNS)
    for text in legend.get_texts():
        text.set_parse_math(False)  # for names with $ signs
    _save(figure, output)


def figure_of(num_panels: int) -> tuple[plt.Figure, list[plt.Axes]]:
    """Returns a figure with axes for each panel; its rows are as even as possible, and full."""
    num_rows = -(-num_panels // MOST_COLUMNS)
    lengths = [num_panels // num_rows + (row < num_panels % num_rows) for row in range(num_rows)]
    figure = plt.figure(figsize=(4.5 * lengths[0], 3.2 * num_rows + 0.4), layout="constrained")
    columns = math.lcm(*lengths)
    grid = figure.add_gridspec(num_rows, columns)
    all_axes = []
    for row, length in enumerate(lengths):
        width = columns // length
        for place in range(length):
            all_axes.append(figure.add_subplot(grid[row, place * width : (place + 1) * width]))
    return figure, all_axes


def _draw_group(axes: plt.Axes, curves: Sequence[Curve], color: str) -> None:
    if not curves:
        return
    if len(curves) > 1:
        for curve in curves:
            axes.plot(curve.xs, curve.ys, color=color, alpha=0.25, linewidth=0.7,
                      marker=_marker(curve.xs))  # fmt: skip
    mean = band(curves)
    axes.fill_between(mean.xs, mean.low, mean.high, color=color, alpha=0.2, linewidth=0)
    axes.plot(mean.xs, mean.mean, color=color, linewidth=1.8, marker=_marker(mean.xs))


def _marker(xs: Sized) -> str | None:
    return "o" if len(xs) == 1 else None  # a line through one point is invisible


def _save(figure: plt.Figure, output: pathlib.Path) -> None:
    """Writes to exactly `output`, although matplotlib would add an extension if it has none.

    Raises:
      ConfigError: If its extension is not an image's, or it cannot be written.
    """
    ending = output.suffix.removeprefix(".") or "png"
    allowed = figure.canvas.get_supported_filetypes()
    if ending not in allowed:
        raise ConfigError(f"--output={output}: no image ends with .{ending}; expected "
                          f"{', '.join(sorted(allowed))}, and no ending for png.")  # fmt: skip
    try:
        figure.savefig(output, dpi=100, format=ending)
    except OSError as error:
        raise ConfigError(f"Cannot write {output}: {error.strerror}. Set --output.") from error
    plt.close(figure)


def _seeds(number: int) -> str:
    return "1 seed" if number == 1 else f"{number} seeds"


def plot(
    experiments: tuple[str, ...] = (),
    /,
    exp_dir: pathlib.Path | None = None,
    output: pathlib.Path | None = None,
) -> None:
    """Draws one experiment, or groups of experiments; prints the file's name.

    Args:
      experiments: Each is an experiment, a pattern, or a common prefix of a group's folders.
      exp_dir: Draw the learning curve of this experiment, instead of groups.
      output: PNG to write. Default: learning_curve.png in exp_dir, or comparison.png here.

    Raises:
      ConfigError: If there is no such experiment, it has no data yet, or a file cannot be read or
        written.
    """
    if bool(experiments) == (exp_dir is not None):
        raise ConfigError("Give either experiments, or --exp_dir with one. See --help.")
    try:
        if exp_dir is None:
            output = output or pathlib.Path("comparison.png")
            groups = [find_group(text) for text in experiments]
            with progress_bar(f"drawing {', '.join(group.name for group in groups)}"):
                draw_panels(groups, output)
        else:
            existing_experiment(exp_dir)
            output = output or exp_dir / "learning_curve.png"
            with progress_bar("drawing"):
                draw_learning_curve(exp_dir, output)
    except OSError as error:
        raise ConfigError(str(error)) from error
    print(printable(output))
