"""Scales rewards by the spread of their discounted returns."""

from typing import NamedTuple

import tensorflow as tf

from tfagents_system.networks.normalizer import Statistics, merge

LARGEST_SCALED_RETURN = 5.0  # the end of the bins of categorical critics


class ReturnStatistics(NamedTuple):
    """The statistics of returns so far, over all steps of minibatches; float64."""

    moments: Statistics  # [1] each
    largest: tf.Tensor  # [], largest absolute return


class RewardScale(tf.Module):
    """Divides rewards by max(standard deviation of G, largest |G| / 5).

    G is the discounted return so far of an episode, which workers store with each step: it begins
    at 0, then G <- gamma G + reward. Workers come and go, so the learner keeps the statistics, over
    the steps of minibatches, as for observations; see Normalizer. Rewards are not shifted, because
    that would change the optimal policy of a task that terminates.

    Sources: Palenicek et al. 2025, XQC, arXiv:2509.25174, and its code, for the deviation;
    FlashSAC, arXiv:2604.04539, for the maximum, which keeps rare, large returns in range.
    """

    def __init__(self) -> None:
        """Creates the variables."""
        super().__init__(name="reward_scale")

        def variable(name: str, value: list[float] | float) -> tf.Variable:
            return tf.Variable(value, trainable=False, dtype=tf.float64, name=name)

        self.count = variable("return_count", 0.0)
        self.mean = variable("return_mean", [0.0])
        self.variance = variable("return_variance", [1.0])
        self.largest = variable("largest_return", 0.0)

    def merged(self, returns_so_far: tf.Tensor, weights: tf.Tensor) -> ReturnStatistics:
        """Returns the statistics merged with a minibatch's, without changing them.

        Args:
          returns_so_far: [B] or [B, T], after each step's reward.
          weights: The same shape; 1 for valid steps, 0 for padding.
        """
        rows, weights = (
            tf.cast(tf.reshape(part, [-1, 1]), tf.float64) for part in (returns_so_far, weights)
        )
        before = Statistics(*map(tf.convert_to_tensor, (self.count, self.mean, self.variance)))
        largest = tf.maximum(self.largest, tf.reduce_max(weights * tf.abs(rows)))
        return ReturnStatistics(merge(before, rows, weights), largest)

    def update(self, statistics: ReturnStatistics) -> None:
        """Replaces the statistics."""
        variables = self.count, self.mean, self.variance, self.largest
        for variable, value in zip(variables, tf.nest.flatten(statistics), strict=True):
            variable.assign(value)

    def scaled(self, rewards: tf.Tensor, statistics: ReturnStatistics) -> tf.Tensor:
        """Returns `rewards`, of any shape, divided by the scale; zeros stay zeros."""
        deviation = tf.sqrt(statistics.moments.variance[0])
        scale = tf.maximum(deviation, statistics.largest / LARGEST_SCALED_RETURN)
        return tf.cast(tf.math.divide_no_nan(tf.cast(rewards, tf.float64), scale), rewards.dtype)
