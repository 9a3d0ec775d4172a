"""The precision of the matrix products in the hidden layers of the built-in networks."""

import contextlib
import contextvars
import pathlib
from collections.abc import Iterator

import tensorflow as tf

CPU_FLAGS = {"avx512_bf16", "amx_bf16"}  # of the instructions that make bfloat16 the faster one

_precision: contextvars.ContextVar[str] = contextvars.ContextVar("precision", default="float32")


def resolve_precision(precision: str, cpuinfo: pathlib.Path = pathlib.Path("/proc/cpuinfo")) -> str:
    """Returns "float32" or "bfloat16"; "auto" is the faster one on this CPU."""
    if precision != "auto":
        return precision
    flags = cpuinfo.read_text().split("flags", 1)[-1].split("\n", 1)[0]
    return "bfloat16" if CPU_FLAGS & set(flags.split()) else "float32"


@contextlib.contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Sets the precision ("float32" or "bfloat16") of what is traced inside.

    The variables and all other operations stay float32 in either case, and so does what is traced
    outside, such as a policy that is exported.
    """
    token = _precision.set(precision)
    try:
        yield
    finally:
        _precision.reset(token)


class Dense(tf.keras.layers.Dense):
    """A Keras layer whose product has the precision that `matmul_precision` has set."""

    def call(self, inputs):
        """Returns [..., units] float32 for `inputs` [..., n] float32."""
        if _precision.get() == "float32":
            return super().call(inputs)
        # The CPU sums up in float32 and rounds the sum. Gradients are such products, too. Bias and
        # activation in the same precision would be one op with the product, but a slower one.
        factors = tf.cast(inputs, tf.bfloat16), tf.cast(self.kernel, tf.bfloat16)
        product = tf.matmul(*factors) if inputs.shape.rank == 2 else tf.tensordot(*factors, 1)
        return self.activation(tf.cast(product, tf.float32) + self.bias)
