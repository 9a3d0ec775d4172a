"""Chooses the arithmetic of a train step's matrix products by what the host supports.

- float32: everywhere.
- bfloat16: TensorFlow's own products of bfloat16 factors; the values in the TD error are float32.
- int16: the compiled ops; factors are integers of 16 bits, in units of the norm of their row or
  column, so the values keep nearly the digits of float32.

    arithmetic = resolve(params.matmul_precision, this_host())
"""

import dataclasses
import itertools
from collections.abc import Callable

import tensorflow as tf

from tfagents_system.core.errors import ConfigError
from tfagents_system.kernels.cpu import cpu_flags, missing_flags
from tfagents_system.kernels.ops import load_ops
from tfagents_system.kernels.shared_library import LibraryError

AUTO = "auto"
# "auto" takes the first that the host supports, fastest first. bfloat16 is missing because some of
# its learning curves were worse (docs/performance.md).
CHOICES_OF_AUTO = ("int16", "float32")
BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16")  # one of them suffices


@dataclasses.dataclass(frozen=True)
class Host:
    """The facts of a host that determine a learner's arithmetic."""

    cpu_flags: frozenset[str]
    has_gpu: bool
    ops_error: str | None  # why the compiled ops cannot be loaded; None if they are loaded


def this_host() -> Host:
    """Returns the facts of this host. Loads the compiled ops if its CPU has the instructions."""
    flags = cpu_flags()
    ops_error = None
    if not missing_flags(flags):
        try:
            load_ops()
        except LibraryError as error:
            ops_error = str(error)
    return Host(flags, bool(tf.config.list_physical_devices("GPU")), ops_error)


def _obstacle_to_int16(host: Host) -> str | None:
    if host.has_gpu:
        return "the learner has a GPU, and the compiled ops are for CPUs"
    if missing := missing_flags(host.cpu_flags):
        return f"this CPU lacks {', '.join(missing)}"
    return host.ops_error


def _obstacle_to_bfloat16(host: Host) -> str | None:
    if host.has_gpu or host.cpu_flags & set(BFLOAT16_FLAGS):
        return None
    return (
        f"this CPU has neither {' nor '.join(BFLOAT16_FLAGS)}; without them products of bfloat16 "
        "are emulated, which is slower than float32 and less exact"
    )


_OBSTACLES: dict[str, Callable[[Host], str | None]] = {
    "float32": lambda host: None,
    "bfloat16": _obstacle_to_bfloat16,
    "int16": _obstacle_to_int16,
}


def resolve(matmul_precision: str, host: Host) -> str:
    """Returns the arithmetic of a learner on `host`: "float32", "bfloat16" or "int16".

    Args:
      matmul_precision: One of these, or "auto" for the first possible of CHOICES_OF_AUTO.
      host: See `this_host`.

    Raises:
      ConfigError: If `host` does not support the requested arithmetic.
    """
    if matmul_precision == AUTO:
        return next(name for name in CHOICES_OF_AUTO if _OBSTACLES[name](host) is None)
    if (reason := _OBSTACLES[matmul_precision](host)) is not None:
        raise ConfigError(
            f'TrainParams.matmul_precision is "{matmul_precision}", but {reason}. Or set it to '
            f'"auto", which is "{resolve(AUTO, host)}" here.'
        )
    return matmul_precision


def explain(arithmetic: str, host: Host) -> str:
    """Returns the line for the log: the arithmetic, and why a faster one is not possible."""
    line = f"Matrix products of train steps: {arithmetic}."
    for faster in itertools.takewhile(lambda name: name != arithmetic, CHOICES_OF_AUTO):
        if (reason := _OBSTACLES[faster](host)) is not None:
            line += f" Not {faster}, which is faster: {reason}."
    return line
