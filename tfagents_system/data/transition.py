"""Defines steps, which workers store, and transitions, which the agent trains on."""

from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_system.core.nests import Nest

FIRST, MID, LAST = 0.0, 1.0, 2.0  # as tf_agents.trajectories.StepType


class Step(NamedTuple):
    """One row of a worker's stream: an observation and how it was reached.

    An episode of T transitions is T + 1 rows. Row t and row t + 1 make a transition unless row
    t + 1 is FIRST, so no row has to know whether it is the last one.
    """

    step_type: Any  # float32: FIRST, MID (the end of an episode, too), or LAST: padding
    observation: Any
    action: Any  # that led here; zero in a FIRST row, as all below
    reward: Any  # received on arrival, float32; or a nest of named rewards
    discount: Any  # on arrival, float32; 0 only if `observation` is terminal
    extras: Any = ()  # what else is known on arrival, such as the policy's state


class Transition(NamedTuple):
    """One env step, as it is learned from; leading axes are [B] or [B, T]."""

    step_type: Any  # of the first observation, float32; LAST marks padding
    observation: Any
    action: Any
    reward: Any  # received after `action`, float32
    discount: Any  # float32; 0 only if `next_observation` is terminal
    next_observation: Any
    extras: Any = ()  # those of `observation`


def step_spec(
    observation_spec: Nest, action_spec: Nest, reward_spec: Nest = None, extras_spec: Nest = ()
) -> Step:
    """Returns the nest of tf.TensorSpecs of a Step, without leading axes.

    Any nest of arrays will do for each part, of any dtype: all that follows (codec, items, pool)
    takes the layout from here. `reward_spec` None is one scalar.
    """
    scalar = tf.TensorSpec([], tf.float32)
    reward_spec = scalar if reward_spec is None else reward_spec
    return Step(scalar, observation_spec, action_spec, reward_spec, scalar, extras_spec)
