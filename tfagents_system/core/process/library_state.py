"""Reads and restores settings of libraries that hold for a whole process.

A library that is not loaded has its own defaults, and loading it would take seconds.
"""

import sys
from typing import Any

_NUMPYS_OWN = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


def float_errors() -> dict[str, str]:
    """Returns what NumPy does on floating-point errors."""
    numpy = sys.modules.get("numpy")
    return numpy.geterr() if numpy else _NUMPYS_OWN


def set_float_errors(handling: dict[str, str]) -> None:
    """Sets what NumPy does on floating-point errors."""
    if numpy := sys.modules.get("numpy"):
        numpy.seterr(**handling)


def tensorflow_seed() -> int | None:
    """Returns TensorFlow's global seed, on which initial weights and actions may depend."""
    context = sys.modules.get("tensorflow.python.eager.context")
    return context.global_seed() if context else None


def set_tensorflow_seed(seed: int | None) -> None:
    """Sets TensorFlow's global seed."""
    sys.modules["tensorflow"].random.set_seed(seed)


def tensorflow_threads() -> tuple[int, int] | None:
    """Returns the numbers of TensorFlow's threads: of an operation, and of operations."""
    if not (tensorflow := sys.modules.get("tensorflow")):
        return None
    threading = tensorflow.config.threading
    return (
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
    )


def set_tensorflow_threads(numbers: tuple[int, int] | None) -> None:
    """Sets the numbers of TensorFlow's threads, before it has computed anything."""
    intra_op, inter_op = numbers or (0, 0)  # 0: as many as there are CPUs
    threading = sys.modules["tensorflow"].config.threading
    threading.set_intra_op_parallelism_threads(intra_op)
    threading.set_inter_op_parallelism_threads(inter_op)


def is_deterministic() -> bool:
    """Returns whether TensorFlow refuses operations without deterministic results."""
    config = sys.modules.get("tensorflow.python.framework.config")
    return bool(config and config.is_op_determinism_enabled())


def set_deterministic(is_set: bool) -> None:
    """Sets whether TensorFlow refuses operations without deterministic results."""
    config: Any = sys.modules["tensorflow.python.framework.config"]
    (config.enable_op_determinism if is_set else config.disable_op_determinism)()


def has_tensorflow_2() -> bool:
    """Returns whether TensorFlow behaves as version 2 of it, which computes at once."""
    context = sys.modules.get("tensorflow.python.eager.context")
    # The public functions make a graph in version 1, after which nothing can be put back.
    return not context or context.default_execution_mode == context.EAGER_MODE


def set_tensorflow_2(is_set: bool) -> None:
    """Makes TensorFlow behave as version 2, if `is_set`."""
    if is_set:
        sys.modules["tensorflow"].compat.v1.enable_v2_behavior()


def compiles_functions() -> bool:
    """Returns whether TensorFlow compiles a tf.function; otherwise, it runs as Python."""
    tensorflow = sys.modules.get("tensorflow")
    return not tensorflow or not tensorflow.config.functions_run_eagerly()


def set_compiles_functions(is_set: bool) -> None:
    """Sets whether TensorFlow compiles a tf.function."""
    sys.modules["tensorflow"].config.run_functions_eagerly(not is_set)


def keras_floats() -> str:
    """Returns the floating point type of new Keras layers."""
    keras: Any = sys.modules.get("keras")
    return keras.backend.floatx() if keras else "float32"


def set_keras_floats(dtype: str) -> None:
    """Sets the floating point type of new Keras layers."""
    sys.modules["keras"].backend.set_floatx(dtype)


def keras_policy() -> str:
    """Returns the name of the types in which new Keras layers compute and keep variables."""
    keras: Any = sys.modules.get("keras")
    return keras.mixed_precision.global_policy().name if keras else "float32"


def set_keras_policy(name: str) -> None:
    """Sets the types of new Keras layers by the name of a policy."""
    sys.modules["keras"].mixed_precision.set_global_policy(name)


def keras_images() -> str:
    """Returns where new Keras layers look for the channels of an image."""
    keras: Any = sys.modules.get("keras")
    return keras.backend.image_data_format() if keras else "channels_last"


def set_keras_images(data_format: str) -> None:
    """Sets where new Keras layers look for the channels of an image."""
    sys.modules["keras"].backend.set_image_data_format(data_format)
