"""The losses of CrossQ: those of SAC without target networks, with batch renormalization.

Source: Bhatt et al. 2024, CrossQ: Batch Normalization in Deep Reinforcement Learning for Greater
Sample Efficiency and Simplicity, arXiv:1902.05605.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfagents_system.agents.batch import Batch
from tfagents_system.agents.losses import ActorLoss, CriticLoss, sum_of_parts, valid_mean
from tfagents_system.agents.networks import Networks, act_of, allowed, seen_by, values
from tfagents_system.agents.sac.losses import half_squared_errors, smallest, soft_td_target
from tfagents_system.core.nests import Nest
from tfagents_system.networks.matmul import exact_values


def actor_loss(
    networks: Networks, batch: Batch, alpha: tf.Tensor, of_batch: Callable[[Nest], Any]
) -> ActorLoss:
    """Returns the loss of SAC's actor, for an actor that normalizes by the minibatch.

    Args:
      networks: The agent's networks.
      batch: A minibatch.
      alpha: [] or [P] entropy temperature, >= 0.
      of_batch: observation -> (distribution, moments), by the actor.
    """
    distribution, moments = of_batch(seen_by(networks.actor, batch.steps))
    q_value, log_prob = networks.head.expectation(
        allowed(networks, distribution, batch.steps),
        lambda actions: smallest(values(networks.critics, batch.steps, actions)),
    )
    loss = valid_mean(sum_of_parts(alpha * log_prob, alpha) - q_value, batch.valid)
    return ActorLoss(loss, log_prob, moments=moments)


def critic_loss(
    networks: Networks, batch: Batch, alpha: tf.Tensor, gamma: float, train_step: tf.Variable
) -> CriticLoss:
    """Returns the loss of SAC's critics, which evaluate (s, a) and (s', a') in one batch.

    Section 3.3: both come from different distributions, and the normalization must see both. The
    values at (s', a') are targets, so no gradient flows through them, but gradients do flow through
    the moments that they share with (s, a).
    """
    judged: list[Any] = []  # what the critics return for the joint batch

    def judge(next_actions: Nest) -> tf.Tensor:
        inputs = joint_inputs(batch, next_actions)
        with exact_values():
            judged.extend(critic.of_batch(inputs, train_step) for critic in networks.critics)
        return smallest([tf.split(outputs, 2)[1] for outputs, _ in judged])

    # The policy acts with its running moments.
    next_q_value, next_log_prob = networks.head.expectation(
        act_of(networks, batch.next_steps), judge
    )
    q_values = [networks.head.taken(tf.split(outputs, 2)[0], batch.action) for outputs, _ in judged]
    target = tf.stop_gradient(
        soft_td_target(batch.reward, batch.discount, gamma, next_q_value, next_log_prob, alpha)
    )
    loss = half_squared_errors(q_values, target, batch.valid)
    return CriticLoss(loss, q_values[0], target, [moments for _, moments in judged])


def joint_inputs(batch: Batch, next_actions: Nest) -> tuple[Nest, Nest]:
    """Returns (observations, actions) of (s, a) and then (s', a'), [2 B, ...]."""
    return tf.nest.map_structure(
        lambda *parts: tf.concat(parts, axis=0),
        (batch.steps.observation, batch.action),
        (batch.next_steps.observation, next_actions),
    )
