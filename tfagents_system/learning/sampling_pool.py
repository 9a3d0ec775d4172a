"""Minibatches from a pool in the learner's memory that is renewed from the replay table."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

MINIBATCHES_PER_POOL = 32
MAX_POOL_BYTES = 64 * 2**20


def pool_capacity(
    columns: Sequence[tf.TensorSpec], num_fresh: int, batch_size: int, max_replay_size: int
) -> int:
    """Returns the items of a full pool: a multiple of `num_fresh`, so that overwriting never wraps.

    A pool of 32 minibatches is renewed every 32 batch_size / num_fresh train steps.

    Args:
      columns: Specs of one item.
      num_fresh: Items renewed per train step.
      batch_size: Items per minibatch.
      max_replay_size: Items in the full table.
    """
    item_bytes = sum(math.prod(spec.shape) * spec.dtype.size for spec in columns)
    wanted = min(MINIBATCHES_PER_POOL * batch_size, MAX_POOL_BYTES // item_bytes, max_replay_size)
    return max(1, wanted // num_fresh) * num_fresh


class SamplingPool:
    """A uniform sample of the replay table, renewed a little in every train step.

        pool.fill(iterator)               # once, before the first step
        minibatch = pool.draw()           # every train step, within a graph
        pool.add(next(iterator).data)

    A minibatch of B from a pool that takes F fresh items per train step carries F and not B
    messages through the replay server. Every item is still drawn uniformly, and in expectation as
    often: 1 / F as many visits to the pool, each with B / F draws.
    """

    def __init__(
        self,
        columns: Sequence[tf.TensorSpec],
        capacity: int,
        num_initial: int,
        num_fresh: int,
        batch_size: int,
    ):
        """Allocates the pool.

        Args:
          columns: Specs of one item.
          capacity: Items of the full pool, a multiple of `num_fresh`.
          num_initial: Items at the first step; more than the table then holds would only be
            drawn twice, and be older than the table for longer. Rounded down to `num_fresh`.
          num_fresh: Items that each step adds; they overwrite the oldest once the pool is full.
          batch_size: Items per minibatch.
        """
        self._columns = [
            tf.Variable(
                tf.zeros([capacity, *spec.shape], spec.dtype), trainable=False, name="sampling_pool"
            )
            for spec in columns
        ]
        self._next = tf.Variable(0, trainable=False, name="next_in_sampling_pool")
        self._size = tf.Variable(0, trainable=False, name="size_of_sampling_pool")
        self._capacity = capacity
        self._num_reads = max(1, min(num_initial, capacity) // num_fresh)
        self._num_fresh = num_fresh
        self._batch_size = batch_size
        self._fill = tf.function(self._fill_from, autograph=False)

    @property
    def minibatch_spec(self) -> tuple[tf.TensorSpec, ...]:
        """Specs of the columns [B, ...] that `draw` returns."""
        return tuple(
            tf.TensorSpec([self._batch_size, *column.shape[1:]], column.dtype)
            for column in self._columns
        )

    def fill(self, iterator: Iterator[Any]) -> None:
        """Replaces the whole pool; blocks for it and raises what the iterator raises."""
        self._fill(iterator)

    def draw(self) -> tuple[tf.Tensor, ...]:
        """Returns a minibatch [B, ...], drawn uniformly with replacement."""
        index = tf.random.uniform([self._batch_size], maxval=self._size, dtype=tf.int32)
        return tuple(tf.gather(column, index) for column in self._columns)

    def add(self, fresh: Sequence[tf.Tensor]) -> None:
        """Adds `fresh`, in place of the oldest items of a full pool.

        `fresh` is [F, ...], or [F / n, n, ...] in blocks of n.
        """
        start = self._next.read_value()
        index = start + tf.range(self._num_fresh)
        for column, values in zip(self._columns, fresh, strict=True):
            rows = tf.reshape(values, [self._num_fresh, *column.shape[1:]])
            column.scatter_update(tf.IndexedSlices(rows, index))  # a slice takes longer
        self._next.assign((start + self._num_fresh) % self._capacity)
        self._size.assign(tf.minimum(self._size + self._num_fresh, self._capacity))

    def _fill_from(self, iterator):
        def body(index):
            self.add(next(iterator).data)
            return [index + 1]

        self._next.assign(0)
        self._size.assign(0)
        tf.while_loop(lambda index: index < self._num_reads, body, [tf.constant(0)])
