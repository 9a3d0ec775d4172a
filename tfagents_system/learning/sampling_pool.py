"""Minibatches from a pool in the learner's memory that is renewed from the replay table."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

MINIBATCHES_PER_POOL = 32
MAX_POOL_BYTES = 64 * 2**20


def pool_capacity(
    columns: Sequence[tf.TensorSpec], num_fresh: int, batch_size: int, min_replay_size: int
) -> int:
    """Returns the items of a pool: a multiple of `num_fresh`, so that overwriting never wraps.

    A pool no larger than the table's minimum size is a fair sample of the table from the start; one
    of 32 minibatches is renewed every 32 batch_size / num_fresh train steps.

    Args:
      columns: Specs of one item.
      num_fresh: Items renewed per train step.
      batch_size: Items per minibatch.
      min_replay_size: Items in the table before the first train step.
    """
    item_bytes = sum(math.prod(spec.shape) * spec.dtype.size for spec in columns)
    wanted = min(MINIBATCHES_PER_POOL * batch_size, MAX_POOL_BYTES // item_bytes, min_replay_size)
    return max(1, wanted // num_fresh) * num_fresh


class SamplingPool:
    """A uniform sample of the replay table, renewed a little in every train step.

        pool.fill(iterator)                                   # once, before the first step
        minibatch = pool.exchange(next(iterator).data)        # every train step, within a graph

    A minibatch of B from a pool that takes F fresh items per train step carries F and not B
    messages through the replay server. Every item is still drawn uniformly, and in expectation as
    often: 1 / F as many visits to the pool, each with B / F draws.
    """

    def __init__(
        self, columns: Sequence[tf.TensorSpec], capacity: int, num_fresh: int, batch_size: int
    ):
        """Allocates `capacity` items, a multiple of `num_fresh`; `columns` are their specs."""
        self._columns = [
            tf.Variable(
                tf.zeros([capacity, *spec.shape], spec.dtype), trainable=False, name="sampling_pool"
            )
            for spec in columns
        ]
        self._oldest = tf.Variable(0, trainable=False, name="oldest_in_sampling_pool")
        self._capacity = capacity
        self._num_fresh = num_fresh
        self._batch_size = batch_size
        self._fill = tf.function(self._fill_from, autograph=False)

    @property
    def minibatch_spec(self) -> tuple[tf.TensorSpec, ...]:
        """Specs of the columns [B, ...] that `exchange` returns."""
        return tuple(
            tf.TensorSpec([self._batch_size, *column.shape[1:]], column.dtype)
            for column in self._columns
        )

    def fill(self, iterator: Iterator[Any]) -> None:
        """Replaces the whole pool; blocks for it and raises what the iterator raises."""
        self._fill(iterator)

    def exchange(self, fresh: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Overwrites the oldest items by `fresh` [F, ...]; returns a minibatch [B, ...]."""
        self._overwrite_oldest(fresh)
        index = tf.random.uniform([self._batch_size], maxval=self._capacity, dtype=tf.int32)
        return tuple(tf.gather(column, index) for column in self._columns)

    def _overwrite_oldest(self, fresh):
        start = self._oldest.read_value()
        for column, values in zip(self._columns, fresh, strict=True):
            column[start : start + self._num_fresh].assign(values)
        self._oldest.assign((start + self._num_fresh) % self._capacity)

    def _fill_from(self, iterator):
        def body(index):
            self._overwrite_oldest(next(iterator).data)
            return [index + 1]

        num_reads = self._capacity // self._num_fresh
        tf.while_loop(lambda index: index < num_reads, body, [tf.constant(0)])
