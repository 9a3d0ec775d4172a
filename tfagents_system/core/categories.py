"""Marks observations that are categories: unordered integers, such as the ids of places.

Networks read a category one-hot: one input per possible integer, 1 for its own and 0 otherwise. The
replay buffer and the input of an exported policy hold the integer itself.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

CATEGORY = "category_of_"  # begins the spec's name, the only free text that all kinds of specs have
MOST_INPUTS = 10_000  # for more integers, such as a counter's, the number itself is the input


def is_category(spec: Any) -> bool:
    """Returns whether observations of `spec` are categories."""
    return (spec.name or "").startswith(CATEGORY)


def category_name(name: str, low: Any, high: Any) -> str:
    """Returns the name of the spec of integers from `low` to `high`, [] or [K] each."""
    is_small = np.sum(np.subtract(high, low) + 1) <= MOST_INPUTS
    return f"{CATEGORY}{name}" if is_small else name


def columns(spec: Any) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Returns (source [n], value [n]): input j of a category x [K] is 1 if x[source] is value."""
    low, high = (
        np.ravel(np.broadcast_to(bound, tuple(spec.shape))).astype(np.int64)
        for bound in (spec.minimum, spec.maximum)
    )
    source = np.repeat(np.arange(low.size), high - low + 1)
    values = [np.arange(first, last + 1) for first, last in zip(low, high, strict=True)]
    return source, np.concatenate(values).astype(np.float32)
