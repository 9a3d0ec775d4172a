"""A transition: one env step, as learning sees it."""

from typing import Any, NamedTuple

import tensorflow as tf


class Transition(NamedTuple):
    """One env step, as it lies in the replay buffer; leading axes, if any, are [B] or [B, T]."""

    step_type: Any  # of the first observation, float32; LAST marks padding
    observation: Any
    action: Any
    reward: Any  # received after `action`, float32
    discount: Any  # float32; 0 only if `next_observation` is terminal
    next_observation: Any


def transition_spec(observation_spec, action_spec) -> Transition:
    """Returns the nest of tf.TensorSpecs of a Transition, without leading axes."""
    scalar = tf.TensorSpec([], tf.float32)
    return Transition(scalar, observation_spec, action_spec, scalar, scalar, observation_spec)
