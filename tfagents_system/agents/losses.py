"""The losses that an algorithm gives to the train step: functions of networks and a batch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from tfagents_system.agents.batch import Batch
from tfagents_system.agents.networks import Networks

# The entropy temperature: [], or [P] for each part of an action; None for agents without one.
Alpha: TypeAlias = tf.Tensor | None


class ActorLoss(NamedTuple):
    """The actor's loss and intermediate results; tensors are [B] or [B, T]."""

    loss: tf.Tensor  # []
    log_prob: Any = ()  # log-probabilities of its actions, for a stochastic policy; maybe [..., P]
    soft_value: Any = ()  # target of a state-value network
    moments: Sequence[Any] = ()  # moments of the minibatch, for an actor that normalizes by them


class CriticLoss(NamedTuple):
    """The critics' loss and intermediate results; tensors are [B] or [B, T]."""

    loss: tf.Tensor  # []
    q_value: tf.Tensor  # values of the first critic for the replayed actions
    td_target: tf.Tensor
    moments: Sequence[Any] = ()  # moments of the minibatch, for each critic that normalizes by them
    metrics: Mapping[str, tf.Tensor] = {}  # scalars by name


class Losses(NamedTuple):
    """The losses of an algorithm. All gradients are computed at the same variables."""

    actor: Callable[[Networks, Batch, Alpha], ActorLoss]
    critic: Callable[[Networks, Batch, Alpha], CriticLoss]
    # Takes networks, a batch and the soft values of its states; returns a scalar.
    state_value: Callable[[Networks, Batch, tf.Tensor], tf.Tensor] | None = None
    # Returns ActorLoss.moments in a step that does not update the actor.
    idle_moments: Callable[[Batch], Sequence[Any]] = lambda batch: ()


def sum_of_parts(values: tf.Tensor, alpha: tf.Tensor) -> tf.Tensor:
    """Sums `values` [..., P] to [...] if each part of an action has a temperature."""
    return tf.reduce_sum(values, axis=-1) if len(np.shape(alpha)) else values


def valid_mean(values: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Returns the mean of `values` [B, ...] over the valid transitions: []."""
    return tf.reduce_sum(values * valid) / tf.maximum(tf.reduce_sum(valid), 1.0)
