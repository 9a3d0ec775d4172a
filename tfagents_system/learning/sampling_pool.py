"""Draws minibatches from a pool in the learner's memory, renewed from the replay table."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.data.sample_reader import SampleReader

MINIBATCHES_PER_POOL = 32
FEW_MINIBATCHES = 8
MAX_POOL_BYTES = 64 * 2**20
NO_KEY = 0  # key of items that are not in the replay table


def pool_capacity(
    reader: SampleReader, num_fresh: int, batch_size: int, max_replay_size: int
) -> int:
    """Returns the number of samples in a full pool, a multiple of `num_fresh`.

    A pool of 32 minibatches is renewed every 32 batch_size / num_fresh train steps. With large
    observations it has fewer minibatches, because of MAX_POOL_BYTES; fewer than eight are reported
    on stdout.

    Args:
      reader: Reads the items.
      num_fresh: New samples per train step.
      batch_size: Samples per minibatch.
      max_replay_size: Samples in the full table.
    """
    item_bytes = sum(math.prod(spec.shape) * spec.dtype.size for spec in reader.columns)
    fitting = MAX_POOL_BYTES * reader.layout.samples // item_bytes
    wanted = min(MINIBATCHES_PER_POOL * batch_size, fitting, max_replay_size)
    capacity = max(1, wanted // num_fresh) * num_fresh
    if capacity < FEW_MINIBATCHES * batch_size < max_replay_size:
        print(
            f"The sampling pool holds {capacity / batch_size:.1f} minibatches, not "
            f"{MINIBATCHES_PER_POOL}: more would not fit into {MAX_POOL_BYTES:,} bytes."
        )
    return capacity


class SamplingPool:
    """A uniform sample of the replay table, of which each train step replaces a part.

        pool.fill(iterator)               # once, before the first step
        minibatch = pool.draw()           # every train step, within a graph
        sample = next(iterator)
        pool.add(sample.data, keys_of(sample))

    For a minibatch of B, a pool with F new samples per train step takes F instead of B samples from
    the replay server. Each sample is still drawn uniformly, and in expectation as often: it enters
    the pool less often, and is then drawn B / F times.

    Rows are stored in a ring in the order of arrival. A second ring has the rows at which samples
    begin, so that draws are uniform over samples although a block in which episodes meet has fewer
    of them.
    """

    def __init__(
        self,
        reader: SampleReader,
        capacity: int,
        num_initial: int,
        num_fresh: int,
        batch_size: int,
    ):
        """Allocates the pool.

        Args:
          reader: Finds the samples in items.
          capacity: Samples of the full pool, a multiple of `num_fresh`.
          num_initial: Samples at the first step, rounded down to a multiple of `num_fresh`. More
            than the table then has would only be duplicates, and stay too long.
          num_fresh: Samples that each step adds, a multiple of the samples per item; their items
            overwrite the oldest once the pool is full.
          batch_size: Samples per minibatch.
        """
        layout = reader.layout
        self._reader = reader
        self._window = tf.range(layout.window)
        self._rows_per_add = num_fresh // layout.samples * layout.rows
        self._num_adds = capacity // num_fresh  # in the pool
        self._num_initial_adds = max(1, min(num_initial, capacity) // num_fresh)
        self._batch_size = batch_size
        num_rows = self._num_adds * self._rows_per_add
        self._columns = [
            _variable(tf.zeros([num_rows, *spec.shape[1:]], spec.dtype), "rows")
            for spec in reader.columns
        ]
        items_per_add = num_fresh // layout.samples
        self._keys = _variable(tf.zeros([self._num_adds, items_per_add], tf.int64), "keys")
        self._starts = _variable(tf.zeros([capacity], tf.int32), "starts")
        self._num_starts = _variable(tf.zeros([self._num_adds], tf.int32), "starts_of_add")
        self._next_add = _variable(0, "next_add")
        self._oldest = _variable(0, "oldest_start")  # its index in the ring
        self._size = _variable(0, "size")  # of the ring
        self._num_filled = _variable(0, "filled_adds")  # of the initial ones
        self._fill = tf.function(self._fill_from, autograph=False)

    @property
    def minibatch_spec(self) -> tuple[tf.TensorSpec, ...]:
        """The specs of the columns [B, window, size] that `draw` returns."""
        shape = [self._batch_size, self._window.shape[0]]
        return tuple(
            tf.TensorSpec(shape + column.shape[1:], column.dtype) for column in self._columns
        )

    def fill(self, iterator: Iterator[Any]) -> None:
        """Fills the pool up to its first size; blocks, and raises the iterator's exceptions.

        Another call continues: with a slow simulator, data run out many times before the pool is
        full, and the replay server does not send the same samples again.
        """
        self._fill(iterator)

    def draw(self) -> tuple[tf.Tensor, ...]:
        """Returns a minibatch [B, window, size], drawn with replacement."""
        chosen = tf.random.uniform([self._batch_size], maxval=self._size, dtype=tf.int32)
        starts = tf.gather(self._starts, (self._oldest + chosen) % self._starts.shape[0])
        rows = starts[:, tf.newaxis] + self._window
        return tuple(tf.gather(column, rows) for column in self._columns)

    def add(self, fresh: Sequence[tf.Tensor], keys: tf.Tensor | None = None) -> None:
        """Adds the items `fresh`, columns [N, rows, size], in place of the oldest in a full pool.

        N is num_fresh / samples per item. `keys` [N] are their keys in the replay table, if known.
        """
        add = self._next_add.read_value()
        if keys is not None:
            self._keys.scatter_update(tf.IndexedSlices(keys[tf.newaxis], add[tf.newaxis]))
        first_row = add * self._rows_per_add
        index = first_row + tf.range(self._rows_per_add)
        for column, values in zip(self._columns, fresh, strict=True):
            rows = tf.reshape(values, [self._rows_per_add, *column.shape[1:]])
            column.scatter_update(tf.IndexedSlices(rows, index))  # faster than a slice
        capacity = self._starts.shape[0]
        num_dropped = self._num_starts[add]
        oldest = (self._oldest + num_dropped) % capacity
        kept = self._size - num_dropped
        starts = first_row + self._start_rows(fresh)
        count = tf.size(starts)
        places = (oldest + kept + tf.range(count)) % capacity
        self._starts.scatter_update(tf.IndexedSlices(starts, places))
        self._num_starts.scatter_update(tf.IndexedSlices(count, add))
        self._oldest.assign(oldest)
        self._size.assign(kept + count)
        self._next_add.assign((add + 1) % self._num_adds)

    def keys_of(self, windows: Sequence[NDArray[Any]]) -> set[int]:
        """Returns the keys of the pool's items that contain one of `windows` [N, window, size].

        Items that a later step has replaced are missing.
        """
        columns = [_as_bytes(column.numpy()) for column in self._columns]
        found: set[int] = set()
        for window in zip(*map(_as_bytes, windows), strict=True):
            length = len(window[0])
            rows = np.arange(len(columns[0]) - length + 1)
            for column, expected in zip(columns, window, strict=True):
                for place in range(length):
                    rows = rows[(column[rows + place] == expected[place]).all(-1)]
            add, row = np.divmod(rows, self._rows_per_add)
            found.update(self._keys.numpy()[add, row // self._reader.layout.rows].tolist())
        return found - {NO_KEY}

    def _start_rows(self, items: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the row numbers, over all `items`, at which samples begin: int32 [S]."""
        item, row = tf.unstack(tf.where(self._reader.are_samples(items)), axis=1)
        return tf.cast(item * self._reader.layout.rows + row, tf.int32)

    def _fill_from(self, iterator: Iterator[Any]) -> None:
        def body(index: tf.Tensor) -> list[tf.Tensor]:
            sample = next(iterator)
            with tf.control_dependencies(sample.data):  # so that nothing changes if data have ended
                self.add(sample.data, keys_of(sample))
                return [self._num_filled.assign_add(1)]

        begin = [self._num_filled.read_value()]
        tf.while_loop(lambda index: index < self._num_initial_adds, body, begin)


def keys_of(sample: Any) -> tf.Tensor | None:
    """Returns the keys [N] of sampled items as int64; None if they have no keys."""
    if not hasattr(sample, "info"):
        return None
    return tf.bitcast(sample.info.key, tf.int64)


def _as_bytes(rows: NDArray[Any]) -> NDArray[Any]:
    """Returns [..., size] as bytes [..., M], so that NaN equals NaN."""
    return np.ascontiguousarray(rows).view(np.uint8)


def _variable(initial_value: Any, name: str) -> tf.Variable:
    return tf.Variable(initial_value, trainable=False, name=f"sampling_pool/{name}")
