"""Defines steps, which workers store, and transitions, which the agent trains on."""

from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_system.core.nests import Nest

FIRST, MID, LAST = 0.0, 1.0, 2.0  # as tf_agents.trajectories.StepType


class Step(NamedTuple):
    """One row of a worker's stream: an observation and what led to it.

    An episode of T transitions has T + 1 rows. Rows t and t + 1 are a transition unless row t + 1
    is FIRST, so that no row needs to know whether it is the last one.
    """

    step_type: Any  # float32: FIRST, MID (also at the end of an episode), or LAST for padding
    observation: Any
    action: Any  # the action that led here; in a FIRST row it is zero, as are all fields below
    reward: Any  # float32, or a nest of named rewards
    discount: Any  # float32; 0 only if `observation` is terminal
    extras: Any = ()  # additional data, such as the policy's state
    return_so_far: Any = ()  # float32, the episode's, discounted; () if it is not stored


class Transition(NamedTuple):
    """One env step for training; leading axes are [B] or [B, T]."""

    step_type: Any  # of the first observation, float32; LAST marks padding
    observation: Any
    action: Any
    reward: Any  # received after `action`, float32
    discount: Any  # float32; 0 only if `next_observation` is terminal
    next_observation: Any
    extras: Any = ()  # those of `observation`
    return_so_far: Any = ()  # with the reward after `action`, before it is summed over env steps


def is_valid(transition: Transition) -> tf.Tensor:
    """Returns whether each transition is valid, not padding: bool [B] or [B, T]."""
    return tf.not_equal(tf.cast(transition.step_type, tf.int32), int(LAST))


def step_spec(
    observation_spec: Nest,
    action_spec: Nest,
    reward_spec: Nest = None,
    extras_spec: Nest = (),
    stores_return: bool = False,
) -> Step:
    """Returns the nest of tf.TensorSpecs of a Step, without leading axes.

    Each part may be any nest of arrays of any dtype: codec, items and pool take their layout from
    here. `reward_spec` None is one scalar.
    """
    scalar = tf.TensorSpec([], tf.float32)
    reward_spec = scalar if reward_spec is None else reward_spec
    return_spec = scalar if stores_return else ()
    return Step(
        scalar, observation_spec, action_spec, reward_spec, scalar, extras_spec, return_spec
    )
