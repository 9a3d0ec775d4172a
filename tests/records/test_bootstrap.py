import math

import numpy as np
import pytest

from tfagents_system.records import bootstrap


def test_interquartile_mean_leaves_out_a_quarter_at_each_end():
    scores = np.array([100.0, 1, 2, 3, 4, 5, 6, -100])
    assert bootstrap.interquartile_mean(scores) == (2 + 3 + 4 + 5) / 4
    assert bootstrap.interquartile_mean(np.array([1.0, 2, 9])) == (1 + 2 + 9) / 3  # 3 // 4 == 0
    rows = np.array([[1.0, 2, 3, 10], [0, 0, 4, 4]])
    np.testing.assert_array_equal(bootstrap.interquartile_mean(rows), [(2 + 3) / 2, (0 + 4) / 2])


def test_probability_of_improvement_counts_pairs():
    x, y = np.array([1.0, 2]), np.array([1.0, 0, 3])
    wins = (0.5 + 1 + 0) + (1 + 1 + 0)  # of 1, then of 2, over 1, 0, 3
    assert bootstrap.probability_of_improvement(x, y) == wins / 6
    assert bootstrap.probability_of_improvement(y, x) == pytest.approx(1 - wins / 6)
    both = bootstrap.probability_of_improvement(np.stack([x, x]), np.stack([y, y - 9]))
    np.testing.assert_array_equal(both, [wins / 6, 1])


def test_resamples_of_two_scores_have_the_distribution_of_two_coins():
    samples = bootstrap.resampled(np.array([0.0, 1.0]), np.random.default_rng(1))
    assert samples.shape == (bootstrap.NUM_RESAMPLES, 2)
    means = samples.mean(axis=1)
    for value, probability in ((0, 1 / 4), (0.5, 1 / 2), (1, 1 / 4)):
        deviation = math.sqrt(probability * (1 - probability) / bootstrap.NUM_RESAMPLES)
        assert (means == value).mean() == pytest.approx(probability, abs=4 * deviation)


def test_interval_leaves_out_a_fortieth_at_each_end():
    low, high = bootstrap.interval(np.arange(41.0))
    assert (low, high) == (pytest.approx(40 * 0.025), pytest.approx(40 * 0.975))
