"""Loads the compiled ops. No other module loads a library."""

import functools
import pathlib
from typing import Any

import tensorflow as tf

from tfagents_system.kernels.shared_library import BUILD_COMMAND, FOLDER, LibraryError, find_library


@functools.cache
def load_ops(folder: pathlib.Path = FOLDER) -> Any:
    """Loads the ops and returns their module; `arithmetic.py` knows which hosts can use them.

    Raises:
      LibraryError: If they have not been built for this system, or do not load.
    """
    library = find_library(folder)
    try:
        return tf.load_op_library(str(library))
    except (OSError, tf.errors.OpError) as error:
        raise LibraryError(
            f"{library} does not load ({error}); delete it and build it with: {BUILD_COMMAND}"
        ) from error
