"""The loss and the targets of Truncated Quantile Critics.

Source: Kuznetsov et al. 2020, Controlling Overestimation Bias with Truncated Mixture of Continuous
Distributional Quantile Critics, arXiv:2005.04269.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfagents_system.agents.batch import Batch
from tfagents_system.agents.losses import CriticLoss, valid_mean
from tfagents_system.agents.networks import Networks, act, values
from tfagents_system.agents.sac.losses import bootstrapped_return
from tfagents_system.networks.matmul import exact_values


def critic_loss(
    networks: Networks, batch: Batch, alpha: tf.Tensor, gamma: float, num_dropped: int
) -> CriticLoss:
    """Returns the sum over the critics of the mean quantile Huber loss; equations 8 and 12."""
    targets = tf.stop_gradient(td_targets(networks, batch, alpha, gamma, num_dropped))
    with exact_values():
        quantiles = values(networks.critics, batch.steps, batch.action)
    return CriticLoss(
        quantile_losses(quantiles, targets, batch.valid),
        tf.reduce_mean(quantiles[0], axis=-1),
        tf.reduce_mean(targets, axis=-1),
    )


def td_targets(
    networks: Networks, batch: Batch, alpha: tf.Tensor, gamma: float, num_dropped: int
) -> tf.Tensor:
    """Returns the target quantiles, [B, K] or [B, T, K], without the `num_dropped` largest."""
    distribution = act(networks.actor, batch.next_steps, batch.state)
    next_actions, next_log_prob = networks.head.sample(distribution)
    with exact_values():
        next_quantiles = values(networks.target_critics, batch.next_steps, next_actions)
    next_log_prob, *next_quantiles = batch.of_next([next_log_prob, *next_quantiles])
    kept = truncated(next_quantiles, num_dropped)
    return soft_td_targets(batch.reward, batch.discount, gamma, kept, next_log_prob, alpha)


def mean_quantile(quantiles: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the mean over all quantiles [..., M] of all critics, [...]; equation 13."""
    return tf.add_n([tf.reduce_mean(of_one, axis=-1) for of_one in quantiles]) / len(quantiles)


def truncated(next_quantiles: Sequence[tf.Tensor], num_dropped: int) -> tf.Tensor:
    """Returns the smallest quantiles of the mixture of all critics, [..., N M - num_dropped].

    Section 3.2: the largest quantiles, which are overestimated most, are dropped.

    Args:
      next_quantiles: Quantiles of each of the N critics, [..., M].
      num_dropped: Number of the N M quantiles to drop.
    """
    mixture = tf.concat(next_quantiles, axis=-1)
    return tf.sort(mixture, axis=-1)[..., : mixture.shape[-1] - num_dropped]


def soft_td_targets(
    reward: tf.Tensor,
    discount: tf.Tensor,
    gamma: float,
    next_quantiles: tf.Tensor,
    next_log_prob: tf.Tensor,
    alpha: tf.Tensor,
) -> tf.Tensor:
    """Returns y_i = r + gamma d (z_i(s', a') - alpha log pi(a'|s')), [..., K]; equation 11.

    Args:
      reward: [...], like `discount` and `next_log_prob`.
      discount: Environment's discount; 0 only after a true termination.
      gamma: Discount factor per env step, in [0, 1].
      next_quantiles: [..., K], from `truncated`.
      next_log_prob: log pi(a'|s').
      alpha: [] entropy temperature, >= 0.
    """
    next_values = next_quantiles - alpha * next_log_prob[..., tf.newaxis]
    return bootstrapped_return(
        reward[..., tf.newaxis], discount[..., tf.newaxis], gamma, next_values
    )


def quantile_losses(
    quantiles: Sequence[tf.Tensor], targets: tf.Tensor, valid: tf.Tensor
) -> tf.Tensor:
    """Returns the sum over the critics of the mean quantile Huber loss; equations 8 and 12.

    Args:
      quantiles: For each critic, [..., M]: at the fractions (m - 1/2) / M of its distribution.
      targets: [..., K].
      valid: [...], 0 for padding.
    """
    return tf.add_n([valid_mean(_quantile_huber(q, targets), valid) for q in quantiles])


@tf.custom_gradient
def _quantile_huber(quantiles: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Returns the mean over all pairs of |tau_m - 1{delta < 0}| huber(delta), [...].

    delta is y_k - theta_m. The hand-written gradient needs a third of the passes over the pairs.
    Targets get no gradient.
    """
    num_quantiles, num_targets = quantiles.shape[-1], targets.shape[-1]
    fractions = (tf.range(num_quantiles, dtype=tf.float32) + 0.5) / num_quantiles
    deltas = targets[..., tf.newaxis, :] - quantiles[..., tf.newaxis]
    slopes = tf.maximum(tf.minimum(deltas, 1.0), -1.0)  # of Huber's loss
    positive_slopes = tf.nn.relu(slopes)

    def weighted_sum(of_all: tf.Tensor, of_positive: tf.Tensor) -> tf.Tensor:
        """Sums over targets: those with delta > 0 times tau, the others times 1 - tau."""
        all_of_them, positive = tf.reduce_sum(of_all, axis=-1), tf.reduce_sum(of_positive, axis=-1)
        return fractions * positive + (1.0 - fractions) * (all_of_them - positive)

    # Huber's loss is d^2 / 2 where |d| <= 1 and |d| - 1/2 elsewhere: slope (d - slope / 2).
    rest = deltas - 0.5 * slopes
    losses = weighted_sum(slopes * rest, positive_slopes * rest)
    num_pairs = num_quantiles * num_targets

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, None]:
        by_quantiles = weighted_sum(slopes, positive_slopes)
        return upstream[..., tf.newaxis] * by_quantiles / -num_pairs, None

    return tf.reduce_sum(losses, axis=-1) / num_pairs, gradient
