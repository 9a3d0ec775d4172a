"""The precision of the matrix products in the hidden layers of the built-in networks."""

import contextlib
import contextvars
import pathlib
from collections.abc import Iterator

import tensorflow as tf

from tfagents_system.networks import dense_relu_ops

CPU_FLAGS = {"avx512_bf16", "amx_bf16"}  # of the instructions that make bfloat16 the faster one

LARGEST_FIRST = 512  # inputs of a first layer; TensorFlow's product of more is faster than ours

_precisions: contextvars.ContextVar[tuple[str, str]] = contextvars.ContextVar(
    "precisions", default=("float32", "float32")
)


def resolve_precision(precision: str, cpuinfo: pathlib.Path = dense_relu_ops.CPUINFO) -> str:
    """Returns "float32" or "bfloat16"; "auto" is the faster one on this CPU."""
    if precision != "auto":
        return precision
    return "bfloat16" if CPU_FLAGS & dense_relu_ops.cpu_flags(cpuinfo) else "float32"


@contextlib.contextmanager
def matmul_precision(values: str, gradients: str) -> Iterator[None]:
    """Sets the precisions, "float32" or "bfloat16", of what is traced inside.

    The variables and all other operations stay float32 in either case, and so does what is traced
    outside, such as a policy that is exported.

    Args:
      values: Of the products that lead from inputs to outputs. If gradients are in bfloat16 and the
        CPU has the ops of `dense_relu_ops.cc`, their integers take the place of both.
      gradients: Of the products that lead back to the gradients of inputs and kernels.
    """
    token = _precisions.set((values, gradients))
    try:
        yield
    finally:
        _precisions.reset(token)


class DenseRelu(tf.keras.layers.Dense):
    """Keras' Dense with ReLU; the products have the precisions that `matmul_precision` has set."""

    def __init__(self, units: int, is_first: bool = False, name: str | None = None):
        """Makes no variables yet.

        Args:
          units: Length of the outputs.
          is_first: It reads observations. The products are float32 in any case: they cost little,
            and bfloat16 would cut observations to three digits.
          name: Name of the layer.
        """
        super().__init__(units, activation="relu", name=name)
        self._is_first = is_first

    def call(self, inputs):
        """Returns [..., units] float32 for `inputs` [..., n] float32."""
        values, gradients = _precisions.get()
        ops = dense_relu_ops.load() if gradients == "bfloat16" else None
        is_keras = self._is_first and (ops is None or inputs.shape[-1] > LARGEST_FIRST)
        if is_keras or values == gradients == "float32":
            return super().call(inputs)

        rows = tf.reshape(inputs, [-1, inputs.shape[-1]])
        kernel, bias = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)
        if ops is None:
            outputs = tf.nn.relu(tf.nn.bias_add(_product(rows, kernel, values, gradients), bias))
        elif self._is_first:
            outputs = _fused(ops.float32_mat_mul_bias_relu, _float32_gradients, rows, kernel, bias)
        else:
            outputs = _fused(ops.mat_mul_bias_relu, _integer_gradients, rows, kernel, bias)
        return tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], [self.units]], axis=0))


def _fused(op, gradients_of, rows, kernel, bias):
    """The layer by one op of `dense_relu_ops.cc`, which knows neither shapes nor gradients."""

    @tf.custom_gradient
    def layer(rows, kernel, bias):
        outputs = op(rows, kernel, bias)
        outputs.set_shape([rows.shape[0], kernel.shape[1]])

        def backward(upstream):
            gradients = gradients_of(upstream, outputs, rows, kernel)
            for gradient, of in zip(gradients, (rows, kernel, bias), strict=True):
                gradient.set_shape(of.shape)
            return gradients

        return outputs, backward

    return layer(rows, kernel, bias)


def _integer_gradients(upstream, outputs, rows, kernel):
    ops = dense_relu_ops.load()
    to_rows = ops.mat_mul_bias_relu_input_grad(upstream, outputs, kernel)
    return to_rows, *ops.mat_mul_bias_relu_kernel_grad(upstream, outputs, rows)


def _float32_gradients(upstream, outputs, rows, kernel):
    passed = tf.raw_ops.ReluGrad(gradients=upstream, features=outputs)
    to_rows = tf.matmul(passed, kernel, transpose_b=True)
    to_kernel = tf.matmul(rows, passed, transpose_a=True)
    return to_rows, to_kernel, tf.raw_ops.BiasAddGrad(out_backprop=passed)


def _product(rows, kernel, values, gradients):
    if values == gradients:
        return _multiply(rows, kernel, values)

    @tf.custom_gradient
    def multiply(rows, kernel):
        def backward(upstream):
            return (
                _multiply(upstream, kernel, gradients, transpose_b=True),
                _multiply(rows, upstream, gradients, transpose_a=True),
            )

        return _multiply(rows, kernel, values), backward

    return multiply(rows, kernel)


def _multiply(left, right, precision, **transposed):
    # The CPU sums up in float32 and rounds the sum. Bias and activation in bfloat16 would be one op
    # with the product, but a slower one.
    factors = tf.cast(left, precision), tf.cast(right, precision)
    return tf.cast(tf.matmul(*factors, **transposed), tf.float32)
