"""The losses of the deterministic algorithms, TD3 and DDPG.

Sources: Fujimoto et al. 2018, Addressing Function Approximation Error in Actor-Critic Methods,
arXiv:1802.09477 (TD3); Lillicrap et al. 2015, Continuous control with deep reinforcement learning,
arXiv:1509.02971 (DDPG).
"""

import functools

import tensorflow as tf

from tfagents_system.agents.sac_losses import valid_mean


def smoothed_action(action, noise, clip, low, high):
    """Returns a~ = clip(a + clip(noise, -c, c), low, high); arXiv:1802.09477, algorithm 1.

    Args:
      action: [..., A] of the target actor.
      noise: [..., A] drawn from a Gaussian, in the units of the action.
      clip: [A] or [], largest size of the noise, c.
      low: [A] or [], lower bounds of the action.
      high: Upper bounds.
    """
    return tf.clip_by_value(action + tf.clip_by_value(noise, -clip, clip), low, high)


def td_target(reward, discount, gamma, next_q_values):
    """Returns y = r + gamma d min_i Q'_i(s', a~); arXiv:1802.09477, algorithm 1.

    With one critic it is the target of DDPG; arXiv:1509.02971, algorithm 1.

    Args:
      reward: [B] or [B, T], as all others.
      discount: Environment's discount; 0 only after a true termination.
      gamma: Discount factor per env step, in [0, 1].
      next_q_values: The values of each target critic at (s', a~).
    """
    return reward + gamma * discount * functools.reduce(tf.minimum, next_q_values)


def critic_loss(q_values, target, valid):
    """Sum over the critics of mean (y - Q)^2; arXiv:1802.09477 and 1509.02971, algorithm 1."""
    return tf.add_n([valid_mean(tf.square(target - q), valid) for q in q_values])


def actor_loss(q_value, valid):
    """Mean of -Q_1(s, mu(s)).

    Its gradient by the actor is minus the deterministic policy gradient; arXiv:1509.02971,
    equation 6.
    """
    return -valid_mean(q_value, valid)
