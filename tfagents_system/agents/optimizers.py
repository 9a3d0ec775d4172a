"""Adam, as all built-in agents use it."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

LearningRate = float | Callable[[], Any]


def make_adam(
    learning_rate: LearningRate, variables: Sequence[tf.Variable], beta_1: float = 0.9
) -> tf.keras.optimizers.Optimizer:
    """Returns Adam for `variables`, whose moments exist already; `beta_1` is of the first one."""
    # The legacy one has a fused kernel per variable. It gets a function, because a number would be
    # saved, and restored in place of one changed since.
    step_size = learning_rate if callable(learning_rate) else lambda: learning_rate
    optimizer = tf.keras.optimizers.legacy.Adam(step_size, beta_1=beta_1)
    _create_moments(optimizer, variables)
    return optimizer


def _create_moments(optimizer, variables):
    """Creates the variables of Adam by a train step of zero gradients, which changes no other.

    Now, because a function that creates variables at its first call is traced twice.
    """
    optimizer.apply_gradients([(tf.zeros_like(variable), variable) for variable in variables])
    optimizer.iterations.assign(0)
