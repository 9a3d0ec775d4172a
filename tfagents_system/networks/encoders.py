"""The parts that the built-in actors and critics are made of."""

import copy

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.networks.matmul import DenseRelu


def action_center_and_magnitude(action_spec) -> tuple[np.ndarray, np.ndarray]:
    """Returns the middle and the half width of the action bounds, [A] float32 each.

    Raises:
      ConfigError: If the spec is not one finite, bounded, floating point vector.
    """
    if tf.nest.is_nested(action_spec) or len(action_spec.shape) != 1:
        raise ConfigError(f"SAC needs one action vector; the environment's action spec is "
                          f"{action_spec}.")  # fmt: skip
    if not action_spec.dtype.is_floating:
        raise ConfigError(
            f"SAC needs a floating point action; the environment's is {action_spec.dtype.name}."
        )
    low = np.broadcast_to(action_spec.minimum, action_spec.shape).astype(np.float32)
    high = np.broadcast_to(action_spec.maximum, action_spec.shape).astype(np.float32)
    if not np.all(np.isfinite(high - low)) or np.any(high <= low):
        raise ConfigError(
            f"SAC needs finite action bounds with minimum < maximum; the environment's are "
            f"minimum {low.tolist()}, maximum {high.tolist()}."
        )
    return (high + low) / 2, (high - low) / 2


class ObservationEncoder(tf.keras.layers.Layer):
    """Joins an observation into one float32 vector for each step.

    A single array is flattened. A nest needs `preprocessing_combiner`, which receives the list of
    its leaves; each network uses its own copy of the layer.
    """

    def __init__(self, observation_spec, preprocessing_combiner=None):
        """Raises ConfigError for a nested observation without a combiner."""
        super().__init__(name="observation_encoder")
        self._leaf_ranks = [len(spec.shape) for spec in tf.nest.flatten(observation_spec)]
        if preprocessing_combiner is None and len(self._leaf_ranks) != 1:
            raise ConfigError(
                f"The observation has {len(self._leaf_ranks)} parts but preprocessing_combiner is "
                "None. Set it to a Keras layer that joins them, such as "
                "tf.keras.layers.Concatenate()."
            )
        self.combiner = copy.deepcopy(preprocessing_combiner)

    def call(self, observation):
        """Returns [B, n] for leaves [B, ...], or [B, T, n] for leaves [B, T, ...]."""
        leaves = [tf.cast(leaf, tf.float32) for leaf in tf.nest.flatten(observation)]
        if self.combiner is not None:
            return self.combiner(leaves)
        (leaf,), (leaf_rank,) = leaves, self._leaf_ranks
        if leaf_rank == 1:
            return leaf
        outer = tf.shape(leaf)[: leaf.shape.rank - leaf_rank]
        size = int(np.prod(leaf.shape[leaf.shape.rank - leaf_rank :]))
        return tf.reshape(leaf, tf.concat([outer, [size]], axis=0))


def dense_layers(fc_layer_params) -> list[tf.keras.layers.Layer]:
    """Returns Dense + ReLU layers with these numbers of units; the first one reads observations."""
    return [
        DenseRelu(units, is_first=index == 0, name=f"hidden_{index}")
        for index, units in enumerate(fc_layer_params)
    ]


def lstm_state_spec(units: int) -> list[tf.TensorSpec]:
    """Spec of an LSTM's state [h, c] without batch axis."""
    return [tf.TensorSpec([units], tf.float32, name=name) for name in ("h", "c")]


class ResettingLstm(tf.keras.layers.Layer):
    """An LSTM whose state becomes zero before each step of type FIRST."""

    def __init__(self, units: int):
        """`units` is the size of h and of c."""
        super().__init__(name="lstm")
        self.cell = tf.keras.layers.LSTMCell(units, name="cell")

    def call(self, features, step_type=None, state=()):
        """Returns (outputs, last state): [B, n] -> [B, units], or [B, T, n] -> [B, T, units]."""
        is_sequence = features.shape.rank == 3
        steps = tf.unstack(features, axis=1) if is_sequence else [features]
        if step_type is None:
            continues = [None] * len(steps)
        else:
            kept = tf.cast(tf.not_equal(step_type, ts.StepType.FIRST), tf.float32)[..., tf.newaxis]
            continues = tf.unstack(kept, axis=1) if is_sequence else [kept]
        if not tf.nest.flatten(state):
            zeros = tf.zeros([tf.shape(features)[0], self.cell.units])
            state = [zeros, zeros]
        outputs = []
        for step, keep in zip(steps, continues, strict=True):
            if keep is not None:
                state = [part * keep for part in state]
            output, state = self.cell(step, state)
            outputs.append(output)
        return (tf.stack(outputs, axis=1) if is_sequence else outputs[0]), state
