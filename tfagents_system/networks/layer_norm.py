"""Layer normalization with ReLU, as one compiled op if the hidden layers have compiled products."""

from typing import Any

import tensorflow as tf

from tfagents_system.kernels.ops import load_ops
from tfagents_system.networks.matmul import is_compiled, tape_gradients, twice_differentiable

EPSILON = 1e-5  # added to variances; the compiled op has the same


class LayerNormRelu(tf.keras.layers.LayerNormalization):
    """relu(gamma (x - mean) / deviation + beta), over the last axis.

    Source: Ba et al. 2016, Layer Normalization, arXiv:1607.06450, equation 4.
    """

    def __init__(self, name: str | None = None):
        """Makes no variables yet."""
        super().__init__(epsilon=EPSILON, name=name)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns [..., n] float32 for `inputs` [..., n] float32."""
        variables = tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)
        if not is_compiled():
            return _plain(inputs, *variables)
        rows = tf.reshape(inputs, [-1, inputs.shape[-1]])
        return tf.reshape(_compiled(rows, *variables), tf.shape(inputs))


def _plain(inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    centered = inputs - tf.reduce_mean(inputs, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    return tf.nn.relu(centered * tf.math.rsqrt(variance + EPSILON) * gamma + beta)


@tf.custom_gradient
def _compiled(rows: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tuple[tf.Tensor, Any]:
    outputs = load_ops().layer_norm_relu(rows, gamma, beta)
    outputs.set_shape(rows.shape)

    def gradients(
        upstream: tf.Tensor, rows: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        to_rows, to_gamma, to_beta = load_ops().layer_norm_relu_grad(upstream, rows, outputs, gamma)
        to_rows.set_shape(rows.shape)
        to_gamma.set_shape(gamma.shape)
        to_beta.set_shape(beta.shape)
        return to_rows, to_gamma, to_beta

    def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return twice_differentiable(gradients, tape_gradients(_plain))(upstream, rows, gamma, beta)

    return outputs, backward
