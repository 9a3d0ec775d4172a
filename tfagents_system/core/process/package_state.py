"""Settings of packages that hold for the whole process."""

import sys
from collections.abc import Callable
from typing import Any

from tfagents_system.core.process.state_item import StateItem


def _item(
    name: str,
    module: str,
    default: Any,
    read: Callable[[Any], Any],
    write: Callable[[Any, Any], object],
    is_required: bool = False,
    **kind: Any,
) -> StateItem:
    """Returns the state that `read` and `write` know of a module.

    It is `default` if the module is not loaded, which would take seconds. If `is_required`, our
    programs need the default.
    """

    def read_loaded() -> Any:
        loaded = sys.modules.get(module)
        return read(loaded) if loaded else default

    def write_loaded(value: Any) -> None:
        write(sys.modules[module], value)

    required = default if is_required else None
    return StateItem(name, read_loaded, write_loaded, required=required, **kind)


def _set_threads(tensorflow: Any, numbers: tuple[int, int]) -> None:
    tensorflow.config.threading.set_intra_op_parallelism_threads(numbers[0])
    tensorflow.config.threading.set_inter_op_parallelism_threads(numbers[1])


_CONTEXT = "tensorflow.python.eager.context"
PACKAGE_ITEMS = (
    _item(
        "NumPy's handling of floating-point errors",
        "numpy",
        {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"},
        lambda numpy: numpy.geterr(),
        lambda numpy, handling: numpy.seterr(**handling),
        is_lent=True,
    ),
    _item(  # initial weights and actions may depend on it
        "the seed of TensorFlow",
        _CONTEXT,
        None,
        lambda context: context.global_seed(),
        lambda context, seed: context.set_global_seed(seed),
        is_steady=False,
    ),
    _item(  # of an operation, and of operations; 0: as many as there are CPUs
        "TensorFlow's numbers of threads",
        "tensorflow",
        (0, 0),
        lambda tensorflow: (
            tensorflow.config.threading.get_intra_op_parallelism_threads(),
            tensorflow.config.threading.get_inter_op_parallelism_threads(),
        ),
        _set_threads,
        is_steady=False,
    ),
    _item(
        "TensorFlow's determinism",
        "tensorflow.python.framework.config",
        False,
        lambda config: config.is_op_determinism_enabled(),
        lambda config, is_set: (
            config.enable_op_determinism() if is_set else config.disable_op_determinism()
        ),
        is_required=True,
    ),
    _item(
        "whether TensorFlow behaves as version 2",
        _CONTEXT,
        True,
        # The public functions make a graph in version 1, after which nothing can be put back.
        lambda context: context.default_execution_mode == context.EAGER_MODE,
        lambda context, is_set: is_set and sys.modules["tensorflow"].compat.v1.enable_v2_behavior(),
        is_required=True,
    ),
    _item(
        "whether TensorFlow compiles functions",
        "tensorflow",
        True,
        lambda tensorflow: not tensorflow.config.functions_run_eagerly(),
        lambda tensorflow, is_set: tensorflow.config.run_functions_eagerly(not is_set),
        is_required=True,
    ),
    *(
        _item(f"Keras's {name}", "keras", default, read, write, is_required=True)
        for name, default, read, write in (
            (
                "floating point type",
                "float32",
                lambda keras: keras.backend.floatx(),
                lambda keras, dtype: keras.backend.set_floatx(dtype),
            ),
            (
                "precision policy",
                "float32",
                lambda keras: keras.mixed_precision.global_policy().name,
                lambda keras, policy: keras.mixed_precision.set_global_policy(policy),
            ),
            (
                "format of images",
                "channels_last",
                lambda keras: keras.backend.image_data_format(),
                lambda keras, layout: keras.backend.set_image_data_format(layout),
            ),
        )
    ),
)
