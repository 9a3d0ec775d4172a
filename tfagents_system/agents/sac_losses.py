"""The losses of Soft Actor-Critic.

Sources: Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905;
Haarnoja et al. 2018, Soft Actor-Critic: Off-Policy Maximum Entropy Deep Reinforcement Learning with
a Stochastic Actor, arXiv:1801.01290, which has a state-value network.
"""

import functools

import tensorflow as tf


def smallest(q_values):
    """Returns the smallest of the critics' values, each [B] or [B, T]."""
    return functools.reduce(tf.minimum, q_values)


def bootstrapped_return(reward, discount, gamma, next_value):
    """Returns y = r + gamma d V'(s'); arXiv:1801.01290, equation 8. All [B] or [B, T] but gamma."""
    return reward + gamma * discount * next_value


def soft_td_target(reward, discount, gamma, next_q_values, next_log_prob, alpha):
    """Returns y = r + gamma d (min_i Q'_i(s', a') - alpha log pi(a'|s')).

    Source: arXiv:1812.05905, equation 6, with the minimum of two target critics.

    Args:
      reward: [B] or [B, T], as all others.
      discount: Environment's discount; 0 only after a true termination.
      gamma: Discount factor per env step, in [0, 1].
      next_q_values: Of each target critic the value at (s', a'), a' from the policy.
      next_log_prob: log pi(a'|s').
      alpha: [] entropy temperature, >= 0.
    """
    next_value = state_value_target(next_q_values, next_log_prob, alpha)
    return bootstrapped_return(reward, discount, gamma, next_value)


def state_value_target(q_values, log_prob, alpha):
    """Returns min_i Q_i(s, a) - alpha log pi(a|s), a from the policy.

    Source: arXiv:1801.01290, equation 3, for one action.

    Args:
      q_values: Of each critic the value, [B], as all others.
      log_prob: log pi(a|s).
      alpha: [] entropy temperature, >= 0.
    """
    return smallest(q_values) - alpha * log_prob


def state_value_loss(value, target, valid):
    """Mean of 1/2 (V - target)^2; arXiv:1801.01290, equation 5."""
    return 0.5 * valid_mean(tf.square(value - target), valid)


def critic_loss(q_values, td_target, valid):
    """Sum over the critics of mean 1/2 (Q - y)^2; arXiv:1812.05905, equation 5."""
    return tf.add_n([0.5 * valid_mean(tf.square(q - td_target), valid) for q in q_values])


def actor_loss(log_prob, q_values, alpha, valid):
    """Mean of alpha log pi(a|s) - min_i Q_i(s, a), a from the policy; equation 9."""
    return valid_mean(alpha * log_prob - smallest(q_values), valid)


def alpha_loss(log_alpha, log_prob, target_entropy, valid):
    """Mean of -log_alpha (log pi(a|s) + target entropy).

    Equation 18 of arXiv:1812.05905 has alpha where this has log_alpha: the same sign and the same
    optimum, but a step size that does not shrink with alpha (as the authors' own code does).
    """
    return -log_alpha * valid_mean(log_prob + target_entropy, valid)


def valid_mean(values, valid):
    """Returns the mean of `values` over the transitions that are no padding: [] for [B, ...]."""
    return tf.reduce_sum(values * valid) / tf.maximum(tf.reduce_sum(valid), 1.0)
