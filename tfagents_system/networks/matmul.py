"""Sets the precision of the matrix products in hidden layers of the built-in networks."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tfagents_system.kernels.ops import load_ops

_Gradients = tuple[tf.Tensor, ...]  # arguments of an op
LARGEST_FIRST = 512  # inputs of a first layer; for more, TensorFlow's product is faster than ours

_precisions: contextvars.ContextVar[tuple[str, str]] = contextvars.ContextVar(
    "precisions", default=("float32", "float32")
)


@contextlib.contextmanager
def matmul_precision(values: str, gradients: str) -> Iterator[None]:
    """Sets the precisions of functions traced inside; `kernels/arithmetic.py` explains them.

    Variables and all other operations stay float32, and so does everything that is traced outside,
    such as an exported policy.

    Args:
      values: Precision of the products of the forward pass: "float32", "bfloat16" or "int16".
      gradients: Precision of the products of the backward pass; "int16" if and only if `values`
        is "int16".
    """
    assert (values == "int16") == (gradients == "int16"), (values, gradients)
    token = _precisions.set((values, gradients))
    try:
        yield
    finally:
        _precisions.reset(token)


@contextlib.contextmanager
def exact_values() -> Iterator[None]:
    """Computes values in float32 instead of bfloat16; gradients stay unchanged.

    A TD error is a small difference of large values, for which bfloat16 has too few digits.
    """
    values, gradients = _precisions.get()
    with matmul_precision("float32" if values == "bfloat16" else values, gradients):
        yield


def is_compiled() -> bool:
    """Returns whether functions traced here use the compiled ops (precision int16)."""
    return _precisions.get()[0] == "int16"


class Dense(tf.keras.layers.Dense):
    """Keras' Dense with or without ReLU, in the current `matmul_precision`."""

    def __init__(
        self, units: int, is_first: bool = False, has_relu: bool = True, name: str | None = None
    ):
        """Makes no variables yet.

        Args:
          units: Length of the outputs.
          is_first: Whether it reads observations. Its products are then always float32: they cost
            little, and bfloat16 would cut observations to three digits.
          has_relu: Whether its activation is ReLU; otherwise it has none.
          name: Name of the layer.
        """
        super().__init__(units, activation="relu" if has_relu else None, name=name)
        self._is_first = is_first
        self._has_relu = has_relu

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns [..., units] float32 for `inputs` [..., n] float32."""
        return self.of(inputs, self.kernel, self.bias)

    def of(self, inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        """Applies the layer with another `kernel` [n, units] and `bias` [units]."""
        values, gradients = _precisions.get()
        is_plain = self._is_first and (not is_compiled() or inputs.shape[-1] > LARGEST_FIRST)
        rows = tf.reshape(inputs, [-1, inputs.shape[-1]])
        kernel, bias = tf.convert_to_tensor(kernel), tf.convert_to_tensor(bias)
        if is_compiled() and not is_plain:
            outputs = _compiled(rows, kernel, bias, self._is_first, self._has_relu)
        else:
            if is_plain or values == gradients == "float32":
                products = tf.matmul(rows, kernel)
            else:
                products = _product(rows, kernel, values, gradients)
            outputs = self.activation(tf.nn.bias_add(products, bias))
        return tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], [self.units]], axis=0))


def _compiled(
    rows: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, is_first: bool, has_relu: bool
) -> tf.Tensor:
    """Computes the layer by one compiled op, and adds shapes and gradients."""
    ops = load_ops()
    if has_relu:
        op = ops.float32_mat_mul_bias_relu if is_first else ops.mat_mul_bias_relu
    else:
        op = ops.float32_mat_mul_bias if is_first else ops.mat_mul_bias
    gradients_of = _float32_gradients if is_first else _int16_gradients

    @tf.custom_gradient
    def layer(rows: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, Any]:
        outputs = op(rows, kernel, bias)
        outputs.set_shape([rows.shape[0], kernel.shape[1]])

        def backward(upstream: tf.Tensor) -> _Gradients:
            gates = [outputs] if has_relu else []  # these only tell where ReLU lets a gradient pass
            return twice_differentiable(
                lambda *arguments: gradients_of(*arguments, *gates),
                lambda *arguments: _float32_gradients(*arguments, *map(tf.stop_gradient, gates)),
            )(upstream, rows, kernel)

        return outputs, backward

    return layer(rows, kernel, bias)


def twice_differentiable(
    gradients_of: Callable[..., _Gradients], plain_gradients_of: Callable[..., _Gradients]
) -> Callable[..., _Gradients]:
    """Makes `gradients_of`, which uses compiled ops, differentiable.

    Its derivatives are TensorFlow's derivatives of `plain_gradients_of`.
    """

    @tf.custom_gradient
    def gradients(*arguments: tf.Tensor) -> tuple[_Gradients, Any]:
        def backward(*upstreams: tf.Tensor) -> _Gradients:
            with tf.GradientTape() as tape:
                tape.watch(arguments)
                values = plain_gradients_of(*arguments)
            return tape.gradient(
                values, arguments, upstreams, unconnected_gradients=tf.UnconnectedGradients.ZERO
            )

        return gradients_of(*arguments), backward

    return gradients


def tape_gradients(function: Callable[..., tf.Tensor]) -> Callable[..., _Gradients]:
    """Returns (upstream, *arguments) -> the gradients of `function` w.r.t. its arguments."""

    def gradients(upstream: tf.Tensor, *arguments: tf.Tensor) -> _Gradients:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            outputs = function(*arguments)
        return tape.gradient(outputs, arguments, upstream)

    return gradients


def _int16_gradients(
    upstream: tf.Tensor, rows: tf.Tensor, kernel: tf.Tensor, *gates: tf.Tensor
) -> _Gradients:
    ops = load_ops()
    if gates:
        to_rows = ops.mat_mul_bias_relu_input_grad(upstream, kernel, *gates)
        to_kernel, to_bias = ops.mat_mul_bias_relu_kernel_grad(upstream, rows, *gates)
    else:
        to_rows = ops.mat_mul_bias_input_grad(upstream, kernel)
        to_kernel, to_bias = ops.mat_mul_bias_kernel_grad(upstream, rows)
    to_rows.set_shape(rows.shape)
    to_kernel.set_shape(kernel.shape)
    to_bias.set_shape(kernel.shape[1:])
    return to_rows, to_kernel, to_bias


def _float32_gradients(
    upstream: tf.Tensor, rows: tf.Tensor, kernel: tf.Tensor, *gates: tf.Tensor
) -> _Gradients:
    for outputs in gates:
        upstream = tf.raw_ops.ReluGrad(gradients=upstream, features=outputs)
    to_rows = tf.matmul(upstream, kernel, transpose_b=True)
    to_kernel = tf.matmul(rows, upstream, transpose_a=True)
    return to_rows, to_kernel, tf.raw_ops.BiasAddGrad(out_backprop=upstream)


def _product(rows: tf.Tensor, kernel: tf.Tensor, values: str, gradients: str) -> tf.Tensor:
    if values == gradients:
        return _multiply(rows, kernel, values)

    @tf.custom_gradient
    def multiply(rows: tf.Tensor, kernel: tf.Tensor) -> tuple[tf.Tensor, Any]:
        def backward(upstream: tf.Tensor) -> _Gradients:
            return (
                _multiply(upstream, kernel, gradients, transpose_b=True),
                _multiply(rows, upstream, gradients, transpose_a=True),
            )

        return _multiply(rows, kernel, values), backward

    return multiply(rows, kernel)


def _multiply(left: tf.Tensor, right: tf.Tensor, precision: str, **transposed: bool) -> tf.Tensor:
    # The CPU sums in float32 and rounds the sum. Bias and activation in bfloat16 would be fused
    # with the product, but that product is slower.
    factors = tf.cast(left, precision), tf.cast(right, precision)
    return tf.cast(tf.matmul(*factors, **transposed), tf.float32)
