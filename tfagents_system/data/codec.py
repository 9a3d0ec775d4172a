"""Packs a nest of arrays into one flat column per dtype, and unpacks it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tree
from numpy.typing import NDArray

from tfagents_system.core.leaves import leaf_name

LARGEST_SUM = 1e38  # the largest float32


class Codec:
    """Packs nests of `spec` into columns: float32 first, then other dtypes by name.

    Each column is a vector of all leaves of its dtype, in the order of `tree.flatten`.
    """

    def __init__(self, spec: Any, largest: float = math.inf):
        """Makes the layout of the columns.

        Args:
          spec: A nest of specs with static `shape` and `dtype`, without leading axes.
          largest: Largest size of a floating point number that `pack` accepts.
        """
        self._spec = spec
        self._largest = largest
        self._most_squares = min(largest**2, LARGEST_SUM)
        self._paths = [leaf_name(*path) for path, _ in tree.flatten_with_path(spec)]
        leaves = tree.flatten(spec)
        self._shapes = [tuple(tf.TensorShape(leaf.shape).as_list()) for leaf in leaves]
        self._dtypes = [tf.as_dtype(leaf.dtype).as_numpy_dtype for leaf in leaves]
        names = {np.dtype(dtype).name for dtype in self._dtypes}
        order = sorted(names, key=lambda name: (name != "float32", name))
        sizes = [0] * len(order)
        self._slots = []  # column and slice of each leaf
        for shape, dtype in zip(self._shapes, self._dtypes, strict=True):
            column = order.index(np.dtype(dtype).name)
            size = int(np.prod(shape))
            self._slots.append((column, slice(sizes[column], sizes[column] + size)))
            sizes[column] += size
        self.columns = [
            tf.TensorSpec([size], tf.as_dtype(name))
            for name, size in zip(order, sizes, strict=True)
        ]
        self._layout = [(size, np.dtype(name)) for name, size in zip(order, sizes, strict=True)]

    @property
    def spec(self) -> Any:
        """The nest of specs."""
        return self._spec

    def zeros(self) -> Any:
        """Returns a nest of zeros."""
        pairs = zip(self._shapes, self._dtypes, strict=True)
        return tree.unflatten_as(self._spec, [np.zeros(shape, dtype) for shape, dtype in pairs])

    def pack(self, nest: Any) -> list[NDArray[Any]]:
        """Returns the columns of one nest without leading axes.

        Raises:
          ValueError: If the number of leaves differs; or if a leaf has another shape than its
            spec, a dtype of another kind, or a value that is not finite, beyond `largest`, or
            does not fit the spec's dtype; the message names the leaf.
        """
        leaves = tree.flatten(nest)
        if len(leaves) != len(self._slots):
            raise ValueError(f"{len(leaves)} arrays instead of {len(self._slots)}")
        packed = [np.empty(size, dtype) for size, dtype in self._layout]
        for index, leaf in enumerate(leaves):
            column, place = self._slots[index]
            target = packed[column]
            shape = self._shapes[index]
            if getattr(leaf, "dtype", None) == target.dtype and leaf.shape == shape:
                target[place] = leaf if len(shape) <= 1 else leaf.ravel()
            else:
                self._pack_cast(index, leaf, target[place])
        for column, array in enumerate(packed):
            # No term exceeds the sum, which is NaN if any term is: cheap, and rarely inconclusive.
            if array.dtype.kind == "f" and not float(array.dot(array)) <= self._most_squares:
                self._check_values(column, array)
        return packed

    def pack_rows(self, nest: Any) -> list[NDArray[Any]]:
        """Returns the columns [N, size] of a nest whose leaves fit the spec after an axis [N].

        Raises:
          ValueError: If a value is not finite or beyond `largest`; the message names the leaf.
        """
        leaves = tree.flatten(nest)
        packed = [np.empty((len(leaves[0]), size), dtype) for size, dtype in self._layout]
        for leaf, (column, place) in zip(leaves, self._slots, strict=True):
            packed[column][:, place] = np.reshape(leaf, (len(leaf), place.stop - place.start))
        for column, array in enumerate(packed):
            if array.dtype.kind == "f" and len(array):
                self._check_values(column, np.abs(array).max(axis=0))  # NaN if any is
        return packed

    def _pack_cast(self, index: int, leaf: Any, target: NDArray[Any]) -> None:
        """Casts a leaf of another dtype into `target`, or raises ValueError."""
        array, path = np.asarray(leaf), self._paths[index]
        if array.shape != self._shapes[index]:
            raise ValueError(f"{path} has shape {array.shape}, its spec {self._shapes[index]}")
        if not np.can_cast(array.dtype, target.dtype, "same_kind"):
            raise ValueError(f"{path} has dtype {array.dtype}, its spec {target.dtype}")
        target[:] = array.ravel()
        if target.dtype.kind in "iu" and not np.array_equal(target, array.ravel()):
            raise ValueError(f"{path} has a value that its spec, {target.dtype}, cannot hold")

    def unpack(self, columns: Sequence[Any]) -> Any:
        """Returns the nest from columns [..., size], TensorFlow or NumPy, by static slices."""
        leaves = []
        for (column, place), shape in zip(self._slots, self._shapes, strict=True):
            packed = columns[column]
            leaf = packed[..., place]
            if len(shape) != 1:
                lead = tuple(packed.shape)[:-1]
                reshape = tf.reshape if tf.is_tensor(packed) else np.reshape
                leaf = reshape(leaf, [-1 if n is None else n for n in lead] + list(shape))
            leaves.append(leaf)
        return tree.unflatten_as(self._spec, leaves)

    def _check_values(self, column: int, array: NDArray[Any]) -> None:
        """Raises ValueError if a value is not finite or too large; messages leave the value out."""
        if not np.isfinite(array).all():
            raise ValueError(f"{self._path_of(column, ~np.isfinite(array))} is not finite")
        if (is_large := np.abs(array) > self._largest).any():
            raise ValueError(f"{self._path_of(column, is_large)} is beyond {self._largest:g}")

    def _path_of(self, column: int, is_bad: NDArray[Any]) -> str:
        bad = np.flatnonzero(is_bad)[0]
        for index, (leaf_column, place) in enumerate(self._slots):
            if leaf_column == column and place.start <= bad < place.stop:
                return self._paths[index]
        raise AssertionError("every element of a column belongs to a leaf")
