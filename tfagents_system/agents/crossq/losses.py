"""The losses of CrossQ: those of SAC without target networks, with batch renormalization.

Source: Bhatt et al. 2024, CrossQ: Batch Normalization in Deep Reinforcement Learning for Greater
Sample Efficiency and Simplicity, arXiv:1902.05605.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfagents_system.agents.batch import Batch
from tfagents_system.agents.losses import ActorLoss, CriticLoss, valid_mean
from tfagents_system.agents.networks import Networks, act, values
from tfagents_system.agents.sac.losses import half_squared_errors, smallest, soft_td_target
from tfagents_system.core.nests import Nest
from tfagents_system.networks.matmul import exact_values


def actor_loss(
    networks: Networks, batch: Batch, alpha: tf.Tensor, of_batch: Callable[[Nest], Any]
) -> ActorLoss:
    """Returns the loss of SAC's actor; this one normalizes by the minibatch.

    Args:
      networks: Of the agent.
      batch: A minibatch.
      alpha: [] entropy temperature, >= 0.
      of_batch: observation -> (distribution, moments), by the actor.
    """
    distribution, moments = of_batch(batch.steps.observation)
    actions, log_prob = networks.head.sample(distribution)
    q_value = smallest(values(networks.critics, batch.steps, actions))
    return ActorLoss(valid_mean(alpha * log_prob - q_value, batch.valid), log_prob, moments=moments)


def critic_loss(
    networks: Networks, batch: Batch, alpha: tf.Tensor, gamma: float, train_step: tf.Variable
) -> CriticLoss:
    """Returns the loss of SAC's critics, which evaluate (s, a) and (s', a') in one batch.

    Section 3.3: both come from different distributions, and the normalization must see both. The
    values at (s', a') are targets, so no gradient flows through them, but gradients do flow through
    the moments that they share with (s, a).
    """
    inputs, next_log_prob = joint_inputs(networks, batch)
    with exact_values():
        judged = [critic.of_batch(inputs, train_step) for critic in networks.critics]
    q_values, next_q_values = zip(*(tf.split(q, 2) for q, _ in judged), strict=True)
    next_q_value = smallest(next_q_values)
    target = tf.stop_gradient(
        soft_td_target(batch.reward, batch.discount, gamma, next_q_value, next_log_prob, alpha)
    )
    loss = half_squared_errors(q_values, target, batch.valid)
    return CriticLoss(loss, q_values[0], target, [moments for _, moments in judged])


def joint_inputs(networks: Networks, batch: Batch) -> tuple[tuple[Nest, tf.Tensor], tf.Tensor]:
    """Returns (observations, actions) of (s, a) and then (s', a'), [2 B, ...], and log pi(a'|s').

    a' is of the policy, which acts by its running moments.
    """
    distribution = act(networks.actor, batch.next_steps)
    next_actions, next_log_prob = networks.head.sample(distribution)
    actions = tf.concat([batch.action, next_actions], axis=0)
    observations = tf.nest.map_structure(
        lambda *parts: tf.concat(parts, axis=0),
        batch.steps.observation,
        batch.next_steps.observation,
    )
    return (observations, actions), next_log_prob
