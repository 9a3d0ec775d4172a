"""Estimates the uncertainty of a figure from a few seeds or episodes.

Source of interquartile mean, probability of improvement and stratified bootstrap (here for one
task): Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice,
arXiv:2108.13264. A score is the result of one seed.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NUM_RESAMPLES = 10_000
CONFIDENCE = 0.95
Floats = NDArray[np.float64]


def mean_and_standard_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Returns the mean of at least one value, and s / sqrt(n), or None for a single value."""
    with np.errstate(all="ignore"):  # non-finite returns give a non-finite mean
        mean = float(np.mean(values))
        if len(values) < 2:
            return mean, None
        return mean, float(np.std(values, ddof=1)) / math.sqrt(len(values))


def interquartile_mean(scores: Floats) -> Floats:
    """Returns the mean over the last axis without its floor(n / 4) lowest and highest scores."""
    num_cut = scores.shape[-1] // 4
    middle = np.sort(scores, axis=-1)[..., num_cut : scores.shape[-1] - num_cut]
    return middle.mean(axis=-1)


def probability_of_improvement(x: Floats, y: Floats) -> Floats:
    """Returns P(X > Y) = 1 / (n m) sum_ij S(x_i, y_j); S is 1 for >, 1/2 for =, 0 for <.

    Args:
      x: [..., n] scores.
      y: [..., m] scores.
    """
    difference = np.sign(x[..., :, np.newaxis] - y[..., np.newaxis, :])
    return (0.5 + 0.5 * difference).mean(axis=(-2, -1))


def resampled(scores: Floats, rng: np.random.Generator) -> Floats:
    """Returns resamples [NUM_RESAMPLES, n], drawn from `scores` [n] with replacement.

    Each group of seeds is a stratum: its resamples have as many scores as it has seeds.
    """
    return rng.choice(scores, (NUM_RESAMPLES, len(scores)))


def interval(estimates: Floats) -> tuple[Floats, Floats]:
    """Returns the percentile interval over the first axis."""
    low, high = np.quantile(estimates, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return low, high


def mean_interval(values: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Returns the interval of the mean over the first axis of `values` [n, m], [m] each."""
    n = len(values)
    times_drawn = rng.multinomial(n, np.full(n, 1 / n), NUM_RESAMPLES)  # of each value
    return interval(times_drawn @ values / n)
