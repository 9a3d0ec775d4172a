"""The losses of Soft Actor-Critic with several reward streams, each with its own values.

For each stream s, with its rewards r_s, discount factor gamma_s and terminations d_s:

    y_s = r_s + gamma_s d_s (min_k Q'_k,s(s', a') - alpha log pi(a'|s'))

The critics' loss is the mean over the streams, and the actor maximizes the mean over the streams of
min_k Q_k,s. The values of each stream include the whole entropy bonus, so their mean has it once.

Source: SAC in Unity's ML-Agents, which takes these means.
"""

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from tfagents_system.agents.batch import Batch
from tfagents_system.agents.losses import ActorLoss, CriticLoss, valid_mean
from tfagents_system.agents.networks import Networks
from tfagents_system.agents.sac import losses


def actor_loss(
    networks: Networks,
    batch: Batch,
    alpha: tf.Tensor,
    judged_by: Callable[[Sequence[tf.Tensor]], tf.Tensor] = losses.smallest,
) -> ActorLoss:
    """Returns the loss of SAC's actor, judged by the mean over the streams.

    `judged_by` maps the critics' values [S, ...] to one value for each stream.
    """

    def mean_of_streams(q_values: Sequence[tf.Tensor]) -> tf.Tensor:
        return tf.reduce_mean(judged_by(q_values), axis=0)

    return losses.actor_loss(networks, batch, alpha, judged_by=mean_of_streams)


def critic_loss(
    networks: Networks,
    batch: Batch,
    alpha: tf.Tensor,
    discounts: Mapping[str, float],
    num_drawn: int | None = None,
) -> CriticLoss:
    """Returns the mean over the streams of the loss of SAC's critics.

    `discounts` has the discount factor per env step of each stream, sorted by name. For
    `num_drawn`, see `losses.td_target`.
    """
    gamma = tf.reshape(tf.constant([*discounts.values()]), [-1] + [1] * batch.valid.shape.rank)
    total, q_values, targets, *_ = losses.critic_loss(networks, batch, alpha, gamma, num_drawn)
    values = zip(discounts, tf.unstack(q_values), strict=True)
    return CriticLoss(
        total / len(discounts),
        tf.reduce_mean(q_values, axis=0),
        tf.reduce_mean(targets, axis=0),
        metrics={f"{stream}_value": valid_mean(value, batch.valid) for stream, value in values},
    )
