"""The precision of the matrix products in the hidden layers of the built-in networks."""

import contextlib
import contextvars
import pathlib
from collections.abc import Iterator

import tensorflow as tf

CPU_FLAGS = {"avx512_bf16", "amx_bf16"}  # of the instructions that make bfloat16 the faster one

_precisions: contextvars.ContextVar[tuple[str, str]] = contextvars.ContextVar(
    "precisions", default=("float32", "float32")
)


def resolve_precision(precision: str, cpuinfo: pathlib.Path = pathlib.Path("/proc/cpuinfo")) -> str:
    """Returns "float32" or "bfloat16"; "auto" is the faster one on this CPU."""
    if precision != "auto":
        return precision
    flags = cpuinfo.read_text().split("flags", 1)[-1].split("\n", 1)[0]
    return "bfloat16" if CPU_FLAGS & set(flags.split()) else "float32"


@contextlib.contextmanager
def matmul_precision(values: str, gradients: str) -> Iterator[None]:
    """Sets the precisions, "float32" or "bfloat16", of what is traced inside.

    The variables and all other operations stay float32 in either case, and so does what is traced
    outside, such as a policy that is exported.

    Args:
      values: Of the products that lead from inputs to outputs.
      gradients: Of the products that lead back to the gradients of inputs and kernels.
    """
    token = _precisions.set((values, gradients))
    try:
        yield
    finally:
        _precisions.reset(token)


class Dense(tf.keras.layers.Dense):
    """A Keras layer whose products have the precisions that `matmul_precision` has set."""

    def call(self, inputs):
        """Returns [..., units] float32 for `inputs` [..., n] float32."""
        values, gradients = _precisions.get()
        if values == gradients == "float32":
            return super().call(inputs)

        rows = tf.reshape(inputs, [-1, inputs.shape[-1]])
        product = _product(rows, tf.convert_to_tensor(self.kernel), values, gradients)
        outputs_shape = tf.concat([tf.shape(inputs)[:-1], [self.units]], axis=0)
        return tf.reshape(self.activation(tf.nn.bias_add(product, self.bias)), outputs_shape)


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
