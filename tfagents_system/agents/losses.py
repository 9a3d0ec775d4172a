"""What an algorithm gives to the train step: its losses, as functions of networks and a batch."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from tfagents_system.agents.batch import Batch
from tfagents_system.agents.networks import Networks

Alpha: TypeAlias = tf.Tensor | None  # the entropy temperature, []; None for agents that have none


class ActorLoss(NamedTuple):
    """The loss of the actor, and what it was computed from; tensors are [B] or [B, T]."""

    loss: tf.Tensor  # []
    log_prob: Any = ()  # of its actions, where the policy is stochastic
    soft_value: Any = ()  # what a state-value network learns
    moments: Sequence[Any] = ()  # of the minibatch, of an actor that normalizes by them


class CriticLoss(NamedTuple):
    """The loss of all critics, and what it was computed from; tensors are [B] or [B, T]."""

    loss: tf.Tensor  # []
    q_value: tf.Tensor  # of the first critic, for the replayed actions
    td_target: tf.Tensor
    moments: Sequence[Any] = ()  # of the minibatch, of each critic that normalizes by them


class Losses(NamedTuple):
    """What an algorithm minimizes. All gradients are taken at the same variables."""

    actor: Callable[[Networks, Batch, Alpha], ActorLoss]
    critic: Callable[[Networks, Batch, Alpha], CriticLoss]
    # Of networks, a batch and the soft values of its states; gives a scalar.
    state_value: Callable[[Networks, Batch, tf.Tensor], tf.Tensor] | None = None
    no_actor_moments: Callable[[], Sequence[Any]] = tuple  # zeros in place of ActorLoss.moments


def valid_mean(values: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Returns the mean of `values` over the transitions that are no padding: [] for [B, ...]."""
    return tf.reduce_sum(values * valid) / tf.maximum(tf.reduce_sum(valid), 1.0)
