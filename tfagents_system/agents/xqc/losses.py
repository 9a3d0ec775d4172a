"""The losses of XQC: SAC with categorical critics and batch normalization.

Source: Palenicek et al. 2025, XQC: Well-Conditioned Optimization Accelerates Deep Reinforcement
Learning, arXiv:2509.25174.
"""

import functools

import numpy as np
import tensorflow as tf

from tfagents_system.agents.batch import Batch
from tfagents_system.agents.crossq.losses import joint_inputs
from tfagents_system.agents.losses import CriticLoss, valid_mean
from tfagents_system.agents.networks import Networks, act
from tfagents_system.networks.matmul import exact_values
from tfagents_system.networks.normalizing_networks import expectation

NUM_BINS, LARGEST_RETURN = 101, 5.0
SUPPORT = tuple(np.linspace(-LARGEST_RETURN, LARGEST_RETURN, NUM_BINS).tolist())


def critic_loss(networks: Networks, batch: Batch, alpha: tf.Tensor, gamma: float) -> CriticLoss:
    """Returns the sum over the critics of the mean cross entropy with the projected target.

    Critics and target critics evaluate (s, a) and (s', a') in one batch, as in CrossQ. The target
    is, for each transition, the distribution of the target critic with the lowest mean.
    """
    # The policy acts with its running moments.
    next_actions, next_log_prob = networks.head.sample(act(networks.actor, batch.next_steps))
    inputs = joint_inputs(batch, next_actions)
    with exact_values():
        of_next = [critic.of_batch(inputs, 1)[0] for critic in networks.target_critics]
        judged = [critic.of_batch(inputs, 0) for critic in networks.critics]
    next_returns = [tf.nn.softmax(logits) for logits in of_next]
    target = tf.stop_gradient(
        projected(lowest(next_returns), batch.reward, batch.discount, gamma, next_log_prob, alpha)
    )
    losses = [
        valid_mean(tf.nn.softmax_cross_entropy_with_logits(target, logits), batch.valid)
        for logits, _ in judged
    ]
    return CriticLoss(
        tf.add_n(losses),
        expectation(tf.nn.softmax(judged[0][0]), SUPPORT),
        expectation(target, SUPPORT),
        [moments for _, moments in judged],
    )


def lowest(distributions: list[tf.Tensor]) -> tf.Tensor:
    """Returns, for each transition, the distribution [B, bins] with the lowest mean."""

    def lower(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        is_lower = expectation(one, SUPPORT) <= expectation(other, SUPPORT)
        return tf.where(is_lower[:, tf.newaxis], one, other)

    return functools.reduce(lower, distributions)


def projected(
    probabilities: tf.Tensor,
    reward: tf.Tensor,
    discount: tf.Tensor,
    gamma: float,
    next_log_prob: tf.Tensor,
    alpha: tf.Tensor,
) -> tf.Tensor:
    """Returns the distribution of r + gamma d (Z - alpha log pi(a'|s')) on the bins, [B, bins].

    Each possible return is clipped to the support, and its probability is divided between the two
    nearest bins in proportion to nearness: Bellemare et al. 2017, A Distributional Perspective on
    Reinforcement Learning, arXiv:1707.06887, equation 7.

    Args:
      probabilities: [B, bins], of Z.
      reward: [B], like `discount` and `next_log_prob`.
      discount: Environment's discount; 0 only after a true termination.
      gamma: Discount factor per env step, in [0, 1].
      next_log_prob: log pi(a'|s').
      alpha: [] entropy temperature, >= 0.
    """
    offset = reward - gamma * discount * alpha * next_log_prob
    returns = offset[:, tf.newaxis] + (gamma * discount)[:, tf.newaxis] * tf.constant(SUPPORT)
    returns = tf.clip_by_value(returns, -LARGEST_RETURN, LARGEST_RETURN)
    positions = (returns + LARGEST_RETURN) * ((NUM_BINS - 1) / (2 * LARGEST_RETURN))
    below = tf.minimum(tf.floor(positions), NUM_BINS - 2.0)
    of_upper = (positions - below) * probabilities
    num_rows = tf.shape(probabilities)[0]
    bins = tf.cast(below, tf.int32) + NUM_BINS * tf.range(num_rows)[:, tf.newaxis]
    sums = tf.math.unsorted_segment_sum(
        tf.concat([probabilities - of_upper, of_upper], axis=0),
        tf.concat([bins, bins + 1], axis=0),
        num_rows * NUM_BINS,
    )
    return tf.reshape(sums, [num_rows, NUM_BINS])
