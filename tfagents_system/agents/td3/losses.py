"""The losses of the deterministic algorithms, TD3 and DDPG.

Sources: Fujimoto et al. 2018, Addressing Function Approximation Error in Actor-Critic Methods,
arXiv:1802.09477 (TD3); Lillicrap et al. 2015, Continuous control with deep reinforcement learning,
arXiv:1509.02971 (DDPG).
"""

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.agents.batch import Batch
from tfagents_system.agents.losses import ActorLoss, CriticLoss, valid_mean
from tfagents_system.agents.networks import Networks, act, values
from tfagents_system.networks.box_head import BoxHead
from tfagents_system.networks.matmul import exact_values

Bound = float | NDArray[np.float32]  # for all action dimensions, or [A] for each


def actor_loss(networks: Networks, batch: Batch, alpha: None) -> ActorLoss:
    """Returns the mean of -Q_1(s, mu(s)).

    Its gradient w.r.t. the actor is minus the deterministic policy gradient; arXiv:1509.02971,
    equation 6.
    """
    actions = act(networks.actor, batch.steps, batch.state)
    (q_value,) = values(networks.critics[:1], batch.steps, actions)
    return ActorLoss(-valid_mean(q_value, batch.valid))


def critic_loss(
    networks: Networks, batch: Batch, alpha: None, gamma: float, noise_std: Bound, noise_clip: Bound
) -> CriticLoss:
    """Returns the sum over the critics of mean (y - Q)^2; arXiv:1802.09477 and 1509.02971, alg. 1.

    `noise_std` and `noise_clip` apply to target actions, [A], in the units of the action.
    """
    target = tf.stop_gradient(target_value(networks, batch, gamma, noise_std, noise_clip))
    with exact_values():
        q_values = values(networks.critics, batch.steps, batch.action)
    return CriticLoss(squared_errors(q_values, target, batch.valid), q_values[0], target)


def target_value(
    networks: Networks, batch: Batch, gamma: float, noise_std: Bound, noise_clip: Bound
) -> tf.Tensor:
    """Returns the targets of the critics, [B] or [B, T]; see `critic_loss`."""
    actions = act(networks.target_actor, batch.next_steps, batch.state)
    if np.any(noise_std):
        noise = noise_std * tf.random.normal(tf.shape(actions))
        head = networks.head
        assert isinstance(head, BoxHead), "no other has deterministic actors"
        actions = smoothed_action(actions, noise, noise_clip, head.low, head.high)
    with exact_values():
        next_q_values = values(networks.target_critics, batch.next_steps, actions)
    return td_target(batch.reward, batch.discount, gamma, batch.of_next(next_q_values))


def smoothed_action(
    action: tf.Tensor, noise: tf.Tensor, clip: Bound, low: Bound, high: Bound
) -> tf.Tensor:
    """Returns a~ = clip(a + clip(noise, -c, c), low, high); arXiv:1802.09477, algorithm 1.

    Args:
      action: [..., A] from the target actor.
      noise: [..., A] drawn from a Gaussian, in the units of the action.
      clip: [A] or [], largest size of the noise, c.
      low: [A] or [], lower bounds of the action.
      high: Upper bounds.
    """
    return tf.clip_by_value(action + tf.clip_by_value(noise, -clip, clip), low, high)


def td_target(
    reward: tf.Tensor, discount: tf.Tensor, gamma: float, next_q_values: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Returns y = r + gamma d min_i Q'_i(s', a~); arXiv:1802.09477, algorithm 1.

    With one critic it is the target of DDPG; arXiv:1509.02971, algorithm 1.

    Args:
      reward: [B] or [B, T], like all others.
      discount: Environment's discount; 0 only after a true termination.
      gamma: Discount factor per env step, in [0, 1].
      next_q_values: The values of each target critic at (s', a~).
    """
    return reward + gamma * discount * functools.reduce(tf.minimum, next_q_values)


def squared_errors(q_values: Sequence[tf.Tensor], target: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Returns the sum over the critics' values, [B] or [B, T] each, of the mean of (y - Q)^2."""
    return tf.add_n([valid_mean(tf.square(target - q), valid) for q in q_values])
