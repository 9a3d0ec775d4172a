"""Batch renormalization, and dense layers with it, for CrossQ.

Sources: Ioffe 2017, Batch Renormalization: Towards Reducing Minibatch Dependence in
Batch-Normalized Models, arXiv:1702.03275, algorithm 1; Bhatt et al. 2024, CrossQ: Batch
Normalization in Deep Reinforcement Learning for Greater Sample Efficiency and Simplicity,
arXiv:1902.05605.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfagents_system.networks.batch_norm import (
    EPSILON,
    Array,
    Map,
    Moments,
    Normalization,
    NormalizingLayers,
    Read,
    moments_of,
)
from tfagents_system.networks.hidden_layers import dense_layers

LARGEST_R, LARGEST_D = 3.0, 5.0  # the paper's limits for settled training
WARM_UP_UPDATES = 100_000  # updates with plain batch normalization first, as in CrossQ's code


class BatchRenorm(Normalization):
    """Normalizes a batch by its own moments, corrected towards the running ones.

    The map is folded into the kernel of the next dense layer, which is smaller than a batch.
    """

    def of_batch(self, inputs: tf.Tensor, num_updates: tf.Tensor) -> tuple[Map, Moments]:
        """Returns the linear map for the moments of `inputs` [B, n], and these moments.

        After the warm-up, the paper's r and d correct it; no gradient flows through them.
        """
        mean, variance = moments = moments_of(inputs)
        deviation = tf.sqrt(variance + EPSILON)
        running = tf.sqrt(self.variance + EPSILON)
        r = tf.clip_by_value(deviation / running, 1 / LARGEST_R, LARGEST_R)
        d = tf.clip_by_value((mean - self.mean) / running, -LARGEST_D, LARGEST_D)
        is_warm = num_updates >= WARM_UP_UPDATES
        r = tf.stop_gradient(tf.where(is_warm, r, tf.ones_like(r)))
        d = tf.stop_gradient(tf.where(is_warm, d, tf.zeros_like(d)))
        scale = self.gamma * r / deviation
        return (scale, self.gamma * d + self.beta - mean * scale), moments


class RenormalizedLayers(NormalizingLayers):
    """Renormalization, then Dense + ReLU + renormalization per layer, then the output layer."""

    def __init__(self, fc_layer_params: Sequence[int], output_layer: tf.keras.layers.Dense):
        """Takes the units of the hidden layers, and the output layer."""
        hidden_layers = dense_layers(fc_layer_params)
        normalizations = [BatchRenorm() for _ in range(1 + len(hidden_layers))]
        # Normalized layers learn in steps relative to the size of their weights, and Keras' default
        # makes the weights that read observations a third as large as in the authors' code.
        initializer = tf.keras.initializers.LecunNormal
        super().__init__(
            hidden_layers, normalizations, output_layer, initializer, "renormalized_layers"
        )

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the variables of all layers."""
        layers = *self.hidden_layers, self.output_layer
        for normalization, layer in zip(self.normalizations, layers, strict=True):
            normalization.build(input_shape)
            layer.build(input_shape)
            input_shape = [*input_shape[:-1], layer.units]
        super().build(input_shape)

    def call(self, features: tf.Tensor) -> tf.Tensor:
        """Returns the outputs [..., units] for `features` [..., n], by the running moments."""
        *maps, last = (normalization.of_running() for normalization in self.normalizations)
        for linear_map, layer in zip(maps, self.hidden_layers, strict=True):
            features = layer.of(features, *_taken_up(linear_map, layer))
        return self._output(features, last)

    def of_batch(
        self, features: tf.Tensor, num_updates: tf.Tensor
    ) -> tuple[tf.Tensor, list[Moments]]:
        """Returns the outputs [B, units] by the batch's moments, and the moments of each layer."""
        *normalizations, last = self.normalizations
        all_moments = []
        for normalization, layer in zip(normalizations, self.hidden_layers, strict=True):
            linear_map, moments = normalization.of_batch(features, num_updates)
            features = layer.of(features, *_taken_up(linear_map, layer))
            all_moments.append(moments)
        linear_map, moments = last.of_batch(features, num_updates)
        return self._output(features, linear_map), [*all_moments, moments]

    def folded(self, read: Read) -> list[tuple[Array, Array]]:
        """Returns (kernel, bias) of each layer; `read` returns a variable's value."""
        layers = []
        dense = *self.hidden_layers, self.output_layer
        for normalization, layer in zip(self.normalizations, dense, strict=True):
            (scale, offset), kernel = normalization.numpy_map(read), read(layer.kernel)
            layers.append(
                (scale[:, np.newaxis] * kernel, read(layer.bias) + np.dot(offset, kernel))
            )
        return layers

    def _output(self, features: tf.Tensor, linear_map: Map) -> tf.Tensor:
        kernel, bias = _taken_up(linear_map, self.output_layer)
        return tf.tensordot(features, kernel, 1) + bias


def _taken_up(linear_map: Map, layer: tf.keras.layers.Dense) -> tuple[tf.Tensor, tf.Tensor]:
    """Folds a linear map into the next dense layer: returns its kernel and bias."""
    scale, offset = linear_map
    return scale[:, tf.newaxis] * layer.kernel, layer.bias + tf.linalg.matvec(
        layer.kernel, offset, transpose_a=True
    )
