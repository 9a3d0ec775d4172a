"""Batch normalization, and dense layers with it.

Sources: Ioffe and Szegedy 2015, Batch Normalization: Accelerating Deep Network Training by
Reducing Internal Covariate Shift, arXiv:1502.03167, algorithm 1; Palenicek et al. 2025, XQC:
Well-Conditioned Optimization Accelerates Deep Reinforcement Learning, arXiv:2509.25174.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfagents_system.kernels.ops import load_ops
from tfagents_system.networks.matmul import (
    Dense,
    is_compiled,
    tape_gradients,
    twice_differentiable,
)

EPSILON = 1e-3  # added to variances; the compiled op has the same
MOMENTUM = 0.99  # momentum of the running moments

Moments = tuple[tf.Tensor, tf.Tensor]  # mean and variance of a batch, [n] each
Array = npt.NDArray[np.float32]
Read = Callable[[tf.Variable], Array]
Map = tuple[tf.Tensor, tf.Tensor]  # scale and offset, [n] each: x -> scale x + offset


class Normalization(tf.keras.layers.Layer):
    """Normalizes n features; for given moments, this is a linear map of each."""

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates scale, offset, and the untrained running moments."""
        shape = input_shape[-1:]
        self.gamma = self.add_weight("gamma", shape, initializer="ones")
        self.beta = self.add_weight("beta", shape, initializer="zeros")
        self.mean = self.add_weight("mean", shape, initializer="zeros", trainable=False)
        self.variance = self.add_weight("variance", shape, initializer="ones", trainable=False)
        super().build(input_shape)

    def of_running(self) -> Map:
        """Returns the linear map for the running moments."""
        return self.map_of(self.mean, self.variance)

    def numpy_map(self, read: Read) -> tuple[Array, Array]:
        """Returns the linear map for the running moments; `read` returns a variable's value."""
        scale = read(self.gamma) / np.sqrt(read(self.variance) + EPSILON)
        return scale, read(self.beta) - read(self.mean) * scale

    def update(self, moments: Moments) -> None:
        """Moves the running moments towards those of a batch."""
        for running, of_batch in zip((self.mean, self.variance), moments, strict=True):
            running.assign_add((1.0 - MOMENTUM) * (of_batch - running))

    def map_of(self, mean: tf.Tensor, variance: tf.Tensor) -> Map:
        """Returns the linear map for given moments, [n] each."""
        return _map_of(self.gamma, self.beta, mean, variance)


class BatchNorm(Normalization):
    """Normalizes a batch by its own moments."""

    def of_batch(self, inputs: tf.Tensor) -> tuple[Map, Moments]:
        """Returns the linear map for the moments of `inputs` [B, n], and these moments."""
        moments = moments_of(inputs)
        return self.map_of(*moments), moments

    def relu_of_batch(self, inputs: tf.Tensor) -> tuple[tf.Tensor, Moments]:
        """Returns ReLU of the normalized `inputs` [B, n], and their moments.

        It is one compiled op if the hidden layers have compiled products.
        """
        compute = _compiled if is_compiled() else _plain
        outputs, *moments = compute(inputs, *map(tf.convert_to_tensor, (self.gamma, self.beta)))
        return outputs, tuple(map(tf.stop_gradient, moments))


def _plain(inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tuple[tf.Tensor, ...]:
    mean, variance = moments_of(inputs)
    return tf.nn.relu(_mapped(inputs, _map_of(gamma, beta, mean, variance))), mean, variance


@tf.custom_gradient
def _compiled(inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
    outputs, mean, variance = load_ops().batch_norm_relu(inputs, gamma, beta)
    outputs.set_shape(inputs.shape)
    for moment in (mean, variance):
        moment.set_shape(gamma.shape)

    def gradients(upstream: tf.Tensor, inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        by_inputs, by_gamma, by_beta = load_ops().batch_norm_relu_grad(
            upstream, inputs, outputs, gamma, mean, variance
        )
        by_inputs.set_shape(inputs.shape)
        by_gamma.set_shape(gamma.shape)
        by_beta.set_shape(beta.shape)
        return by_inputs, by_gamma, by_beta

    def backward(upstream: tf.Tensor, *by_moments: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return twice_differentiable(
            gradients, tape_gradients(lambda *arguments: _plain(*arguments)[0])
        )(upstream, inputs, gamma, beta)

    return (outputs, mean, variance), backward


@tf.custom_gradient
def moments_of(inputs: tf.Tensor) -> Any:
    """Returns mean and variance of each column [B, n]; its hand-written gradient is fast."""
    num_rows = tf.cast(tf.shape(inputs)[0], tf.float32)
    mean = tf.reduce_mean(inputs, axis=0)
    centered = inputs - mean
    variance = tf.reduce_sum(tf.square(centered), axis=0) / num_rows

    def gradient(by_mean: tf.Tensor, by_variance: tf.Tensor) -> tf.Tensor:
        return (centered * (2.0 * by_variance) + by_mean) / num_rows

    return (mean, variance), gradient


class UnitNorm(tf.keras.initializers.Orthogonal):
    """Draws kernels whose columns, the incoming weights of each unit, have norm 1."""

    def __call__(self, shape: Sequence[int], dtype: Any = None, **kwargs: Any) -> tf.Tensor:
        """Returns a kernel [inputs, units]."""
        return tf.math.l2_normalize(super().__call__(shape, dtype, **kwargs), axis=0)


class NormalizingLayers(tf.keras.layers.Layer):
    """Dense layers with normalizations, one more normalization than hidden layers.

    Subclasses take the units of the hidden layers and the output layer. They define `call`, which
    returns the outputs [..., units] for the running moments; `of_batch`; and `folded`, which
    returns kernels and biases of dense layers that are equivalent without normalization.
    """

    def __init__(
        self,
        hidden_layers: Sequence[Dense],
        normalizations: Sequence[Any],
        output_layer: tf.keras.layers.Dense,
        make_initializer: Callable[[], tf.keras.initializers.Initializer],
        name: str,
    ):
        """Takes all layers, and sets the initializers of their kernels."""
        super().__init__(name=name)
        self.hidden_layers = hidden_layers
        self.normalizations = normalizations
        self.output_layer = output_layer
        for layer in (*hidden_layers, output_layer):
            layer.kernel_initializer = make_initializer()  # a shared one repeats its numbers

    @property
    def kernels(self) -> list[tf.Variable]:
        """The kernels of all dense layers, [inputs, units] each."""
        return [layer.kernel for layer in (*self.hidden_layers, self.output_layer)]

    def running_moments(self) -> list[Moments]:
        """Returns, for each normalization, the moments for which `update` changes nothing."""
        return [(n.mean.read_value(), n.variance.read_value()) for n in self.normalizations]

    def update(self, moments: list[Moments]) -> None:
        """Moves the running moments of each normalization towards those of a batch."""
        for normalization, of_layer in zip(self.normalizations, moments, strict=True):
            normalization.update(of_layer)


class BatchNormLayers(NormalizingLayers):
    """Normalization, then Dense + normalization + ReLU per layer, then the output layer.

    The network of XQC, section 4: the hidden layers have no bias, because normalization would
    remove it.
    """

    def __init__(self, fc_layer_params: Sequence[int], output_layer: tf.keras.layers.Dense):
        """Takes the units of the hidden layers, and the output layer."""
        hidden_layers = [
            Dense(units, is_first=index == 0, has_relu=False, name=f"hidden_{index}")
            for index, units in enumerate(fc_layer_params)
        ]
        for layer in hidden_layers:
            layer.use_bias = False
        normalizations = [BatchNorm() for _ in range(1 + len(hidden_layers))]
        super().__init__(hidden_layers, normalizations, output_layer, UnitNorm, "batch_norm_layers")

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the variables of all layers."""
        first, *others = self.normalizations
        first.build(input_shape)
        for layer, normalization in zip(self.hidden_layers, others, strict=True):
            layer.build(input_shape)
            input_shape = [*input_shape[:-1], layer.units]
            normalization.build(input_shape)
        self.output_layer.build(input_shape)
        super().build(input_shape)

    def call(self, features: tf.Tensor) -> tf.Tensor:
        """Returns the outputs [..., units] for `features` [..., n], by the running moments."""
        first, *others = (normalization.of_running() for normalization in self.normalizations)
        features = _mapped(features, first)
        for layer, (scale, offset) in zip(self.hidden_layers, others, strict=True):
            features = tf.nn.relu(layer.of(features, layer.kernel * scale, offset))
        return self.output_layer(features)

    def of_batch(
        self, features: tf.Tensor, half: int | None = None
    ) -> tuple[tf.Tensor, list[Moments]]:
        """Returns the outputs [B, units] by the batch's moments, and the moments of each layer.

        `half` is the half of the batch, 0 or 1, whose outputs are returned; None: both.
        """
        first, *others = self.normalizations
        linear_map, moments = first.of_batch(features)
        features, all_moments = _mapped(features, linear_map), [moments]
        for layer, normalization in zip(self.hidden_layers, others, strict=True):
            products = layer.of(features, layer.kernel, tf.zeros([layer.units]))
            features, moments = normalization.relu_of_batch(products)
            all_moments.append(moments)
        if half is not None:
            features = tf.split(features, 2)[half]
        return self.output_layer(features), all_moments

    def folded(self, read: Read) -> list[tuple[Array, Array]]:
        """Returns (kernel, bias) of each layer; `read` returns a variable's value."""
        (scale, offset), *maps = (norm.numpy_map(read) for norm in self.normalizations)
        kernels = [read(kernel) for kernel in self.kernels]
        biases = [np.zeros(kernel.shape[1:], np.float32) for kernel in kernels]
        biases[-1] = read(self.output_layer.bias)
        biases[0] = biases[0] + np.dot(offset, kernels[0])
        kernels[0] = scale[:, np.newaxis] * kernels[0]
        for index, (scale, offset) in enumerate(maps):
            kernels[index] = kernels[index] * scale
            biases[index] = biases[index] * scale + offset
        return list(zip(kernels, biases, strict=True))


def _map_of(gamma: tf.Tensor, beta: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> Map:
    scale = gamma * tf.math.rsqrt(variance + EPSILON)
    return scale, beta - mean * scale


def _mapped(features: tf.Tensor, linear_map: Map) -> tf.Tensor:
    scale, offset = linear_map
    return scale * features + offset
