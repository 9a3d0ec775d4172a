"""Joins an observation to a vector."""

import copy
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfagents_system.core.categories import columns, is_category
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.nests import Nest

_MERGE_LAYER = tf.keras.layers.Add.__base__  # not exported by Keras


def num_inputs(spec: tf.TensorSpec) -> int:
    """Returns the number of network inputs for a part of an observation."""
    return len(columns(spec)[0]) if is_category(spec) else math.prod(spec.shape)


def as_inputs(part: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Returns the inputs [..., num_inputs] for a flattened part [..., n] of an observation."""
    if not is_category(spec):
        return part
    source, value = columns(spec)
    return tf.cast(tf.equal(tf.gather(part, source, axis=-1), value), tf.float32)


class ObservationEncoder(tf.keras.layers.Layer):
    """Joins an observation to one float32 vector for each step.

    The parts are flattened and joined in the order of `tf.nest.flatten`, which sorts the keys of a
    dict; a category is one-hot encoded, see core/categories.py.

    With a `preprocessing_combiner`, each network uses its own copy of it. As in TF-Agents'
    EncodingNetwork, it receives the nest [N, ...] with the environment's dtypes, where N counts all
    steps of a batch of sequences, and its result is flattened. Keras' merge layers (Concatenate,
    Add, ...) take a list instead of a nest: they receive the leaves as float32, in that order.
    """

    def __init__(
        self, observation_spec: Nest, preprocessing_combiner: Callable[..., Any] | None = None
    ):
        """Takes the spec of an observation without batch axis."""
        super().__init__(name="observation_encoder")
        self.specs = tf.nest.flatten(observation_spec)
        self._leaf_shapes = [tuple(spec.shape) for spec in self.specs]
        try:
            self.combiner = copy.deepcopy(preprocessing_combiner)
        except (TypeError, ValueError) as error:  # of a layer that has state of its own
            raise ConfigError(
                f"TrainParams.preprocessing_combiner, a {type(preprocessing_combiner).__name__}, "
                f"cannot be copied for each network: {error}. Put it into a "
                "tf.keras.Model(inputs, outputs)."
            ) from error

    @property
    def num_features(self) -> int:
        """The length of the vector, without a combiner."""
        return sum(map(num_inputs, self.specs))

    def call(self, observation: Nest) -> tf.Tensor:
        """Returns [B, n] for leaves [B, ...], or [B, T, n] for leaves [B, T, ...]."""
        leaves = tf.nest.flatten(observation)
        num_outer = leaves[0].shape.rank - len(self._leaf_shapes[0])
        outer = tf.shape(leaves[0])[:num_outer]
        if self.combiner is None:
            parts = [
                as_inputs(self._flat(leaf, tuple(spec.shape), outer), spec)
                for leaf, spec in zip(leaves, self.specs, strict=True)
            ]
            return parts[0] if len(parts) == 1 else tf.concat(parts, axis=-1)
        combined = self._combine(self.combiner, observation, num_outer)
        return self._flat(combined, tuple(combined.shape[1:]), outer)

    def _flat(self, part: tf.Tensor, shape: tuple[int, ...], outer: tf.Tensor) -> tf.Tensor:
        """Flattens `part` to [*outer, n] float32; its axes before `shape` may be joined."""
        part = tf.cast(part, tf.float32)
        if len(shape) == 1 and part.shape.rank == 1 + outer.shape[0]:
            return part
        return tf.reshape(part, tf.concat([outer, [math.prod(shape)]], axis=0))

    def _combine(
        self, combiner: Callable[..., tf.Tensor], observation: Nest, num_outer: int
    ) -> tf.Tensor:
        leaves = tf.nest.flatten(observation)
        if num_outer != 1:
            leaves = [
                tf.reshape(leaf, [-1, *shape])
                for leaf, shape in zip(leaves, self._leaf_shapes, strict=True)
            ]
        if isinstance(combiner, _MERGE_LAYER):
            return combiner([tf.cast(leaf, tf.float32) for leaf in leaves])
        return combiner(tf.nest.pack_sequence_as(observation, leaves))
