"""Tests whether one group of experiments is better than another beyond the noise of seeds.

Example: sac compare logs/small_lr logs/large_lr
Each argument is an experiment, a pattern such as 'logs/a_*', or a common prefix of folders. The
score of an experiment is the mean return of the greedy episodes of its last evaluation. Prints the
interquartile mean of the scores, 95 % bootstrap intervals, the probability of improvement (see
records/bootstrap.py), the success rates, and the settings in which the groups differ.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfagents_system.comparison.run_groups import RunGroup, find_group
from tfagents_system.comparison.settings_difference import settings_differences
from tfagents_system.core.display import printable
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.records import bootstrap
from tfagents_system.records.run_history import number_names, read_evaluations
from tfagents_system.terminal.progress import progress_bar

FEWEST_SEEDS = 4  # of a group; bootstrap intervals of fewer scores are too narrow


class Comparison(NamedTuple):
    """Compares two groups of scores, with 95 % intervals."""

    means: tuple[float, float]  # interquartile means
    intervals: tuple[tuple[float, float], tuple[float, float]]
    difference: float  # of the first and the second mean
    difference_interval: tuple[float, float]
    probability: float  # that a seed of the first group beats one of the second
    probability_interval: tuple[float, float]
    num_seeds: tuple[int, int]

    @property
    def is_decidable(self) -> bool:
        """Whether there are enough seeds to detect any difference."""
        return min(self.num_seeds) >= FEWEST_SEEDS

    @property
    def is_noise(self) -> bool:
        """Whether an interval includes "no difference", or there are too few seeds."""
        low, high = self.difference_interval
        lowest, highest = self.probability_interval
        return not self.is_decidable or low <= 0 <= high or lowest <= 0.5 <= highest


def compare_scores(
    first: NDArray[np.float64], second: NDArray[np.float64], seed: int = 0
) -> Comparison:
    """Compares [n] with [m] scores; `seed` determines the resamples."""
    rng = np.random.default_rng(seed)
    samples = bootstrap.resampled(first, rng), bootstrap.resampled(second, rng)
    means = float(bootstrap.interquartile_mean(first)), float(bootstrap.interquartile_mean(second))
    estimates = [bootstrap.interquartile_mean(sample) for sample in samples]
    return Comparison(
        means,
        (_interval(estimates[0]), _interval(estimates[1])),
        means[0] - means[1],
        _interval(estimates[0] - estimates[1]),
        float(bootstrap.probability_of_improvement(first, second)),
        _interval(bootstrap.probability_of_improvement(*samples)),
        (len(first), len(second)),
    )


def _interval(estimates: NDArray[np.float64]) -> tuple[float, float]:
    low, high = bootstrap.interval(estimates)
    return float(low), float(high)


def scores_of(group: RunGroup, num_evaluations: int) -> tuple[NDArray[np.float64], str]:
    """Returns the score of each experiment of a group, and the train steps of its evaluations.

    Raises:
      ConfigError: If an experiment has not been evaluated yet.
    """
    scores, steps = [], []
    for paths in group.experiments:
        points = read_evaluations(paths)[-num_evaluations:]
        if not points:
            raise ConfigError(
                f"{paths.root} has no evaluation yet: training makes one every eval_period_itrs "
                "iterations."
            )
        scores.append(np.mean([value for point in points for value in point.returns]))
        steps.append(points[-1].train_step)
    low, high = min(steps), max(steps)
    return np.array(scores), f"{low:,}" if low == high else f"{low:,} to {high:,}"


def success_rates_of(group: RunGroup, num_evaluations: int) -> NDArray[np.float64] | None:
    """Returns the success rate of each experiment, [n], 0 to 1: means over its last evaluations.

    Returns None if one of them reports no success.
    """
    rates = []
    for paths in group.experiments:
        of_run = [point.success_rate for point in read_evaluations(paths)[-num_evaluations:]]
        known = [rate for rate in of_run if rate is not None]
        if not known:
            return None
        rates.append(np.mean(known))
    return np.array(rates)


def numbers_of_group(group: RunGroup, num_evaluations: int) -> dict[str, NDArray[np.float64]]:
    """Returns, by name, the numbers of `log_info` that every experiment of a group has, [n] each.

    Each is the mean over the last evaluations.
    """
    runs = []
    for paths in group.experiments:
        points = read_evaluations(paths)[-num_evaluations:]
        runs.append({
            name: np.mean([p.numbers[name] for p in points if name in p.numbers])
            for name in number_names(points)
        })  # fmt: skip
    return {
        name: np.array([run[name] for run in runs])
        for name in runs[0]
        if all(name in run for run in runs)
    }


def verdict(comparison: Comparison, first: str, second: str) -> str:
    """Returns the result of the comparison in words."""
    if not comparison.is_decidable:
        n, m = comparison.num_seeds
        return (
            f"Too few seeds to tell: {n} and {m}. It takes {FEWEST_SEEDS} of each: with fewer, "
            "chance passes for a difference in about a tenth of all comparisons or more."
        )
    if comparison.is_noise:
        return "The difference is not more than the noise between seeds."
    better, worse = (first, second) if comparison.difference > 0 else (second, first)
    return f"{better} is better than {worse}, by more than the noise between seeds."


def compare(first: str, second: str, /, num_evaluations: Annotated[int, AtLeast(1)] = 1) -> None:
    """Compares two groups of experiments.

    Args:
      first: An experiment, a pattern, or a common prefix of folders.
      second: The group to compare with.
      num_evaluations: Number of last evaluations over which the score is the mean.

    Raises:
      ConfigError: If there is no such experiment, it is in both groups, it has no evaluation, or a
        file is damaged.
    """
    groups = [find_group(first), find_group(second)]
    _check_are_apart(*groups)
    with progress_bar("reading", "comparing") as begin:
        (x, x_steps), (y, y_steps) = (scores_of(group, num_evaluations) for group in groups)
        begin("comparing")
        result = compare_scores(x, y)
    width = max(len(group.name) for group in groups)
    print(f"{'':<{width}}  {'seeds':>5}  {'IQM':>10}  {'95 % interval':<24}  train step")
    for name, scores, mean, bounds, steps in zip(
        [group.name for group in groups], (x, y), result.means, result.intervals,
        (x_steps, y_steps), strict=True,
    ):  # fmt: skip
        interval = shown_interval(bounds)
        print(f"{name:<{width}}  {len(scores):>5}  {mean:>10.6g}  {interval:<24}  {steps}")
    print(f"difference {result.difference:.6g}, {shown_interval(result.difference_interval)}")
    print(
        f"probability that a seed of {groups[0].name} is better {result.probability:.0%}, "
        f"{shown_interval(result.probability_interval)}"
    )
    print(verdict(result, groups[0].name, groups[1].name))
    _print_success(groups, num_evaluations)
    _print_numbers(groups, num_evaluations)
    _print_differences(groups)


def _check_are_apart(first: RunGroup, second: RunGroup) -> None:
    """Raises ConfigError if an experiment is in both groups."""
    in_first = {paths.root.resolve() for paths in first.experiments}
    if both := [p.root.name for p in second.experiments if p.root.resolve() in in_first]:
        raise ConfigError(
            f"{first.name} and {second.name} both have {', '.join(both)}, which would count twice. "
            "Give groups without common experiments, such as 'logs/a_seed_*'."
        )


def shown_interval(bounds: tuple[float, float]) -> str:
    """Returns an interval as text; "-" for a single seed."""
    low, high = bounds
    return f"[{low:.5g}, {high:.5g}]" if low < high else "-"


def _with_interval(mean: float, bounds: tuple[float, float]) -> str:
    return f"{mean:.6g} {shown_interval(bounds)}".removesuffix(" -")


def _print_success(groups: Sequence[RunGroup], num_evaluations: int) -> None:
    """Prints the success rates like the returns above, if all experiments have one."""
    first, second = (success_rates_of(group, num_evaluations) for group in groups)
    if first is not None and second is not None:
        names = " and ".join(group.name for group in groups)
        print(f"success rate of {names}: {_both(first, second)}")


def _both(first: NDArray[np.float64], second: NDArray[np.float64]) -> str:
    """Returns means and difference of two groups as text, with their intervals."""
    result = compare_scores(first, second)
    means = " and ".join(
        _with_interval(mean, bounds)
        for mean, bounds in zip(result.means, result.intervals, strict=True)
    )
    difference = _with_interval(result.difference, result.difference_interval)
    return f"{means}; difference {difference}"


def _print_numbers(groups: Sequence[RunGroup], num_evaluations: int) -> None:
    """Prints the numbers of `log_info` that all experiments have, like the returns above."""
    values = [numbers_of_group(group, num_evaluations) for group in groups]
    names = [name for name in values[0] if name in values[1]]
    if not names:
        return
    print("numbers of log_info: " + " and ".join(group.name for group in groups))
    for name in names:
        print(printable(f"  {name}: {_both(values[0][name], values[1][name])}"))


def _print_differences(groups: list[RunGroup]) -> None:
    differences = settings_differences([group.experiments for group in groups])
    if not differences:
        print("They do not differ in any setting.")
        return
    print("They differ in:")
    for name, values in differences:
        print(printable(f"  {name}: {'; '.join(values)}"))
