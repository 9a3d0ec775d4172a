import collections

import numpy as np
import pytest
import tensorflow as tf

from tfagents_system.learning.sampling_pool import (
    MAX_POOL_BYTES,
    MINIBATCHES_PER_POOL,
    SamplingPool,
    pool_capacity,
)

COLUMN = tf.TensorSpec([2], tf.float32)
IMAGE = tf.TensorSpec([84, 84, 3], tf.uint8)
Sample = collections.namedtuple("Sample", "data")


def numbered(count, batch):
    """Batches of items (n, -n) with their numbers n in one column, n as int64 in another."""
    numbers = np.arange(count)
    pairs = np.stack([numbers, -numbers], axis=1).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((pairs, numbers[:, np.newaxis]))
    return dataset.batch(batch).map(lambda *columns: Sample(columns))


def numbered_pool(capacity, num_fresh, batch_size, num_initial=None):
    columns = [COLUMN, tf.TensorSpec([1], tf.int64)]
    return SamplingPool(columns, capacity, num_initial or capacity, num_fresh, batch_size)


def exchange(pool, fresh):
    pool.add(fresh)
    return pool.draw()


def test_capacity_is_some_minibatches_but_not_more_than_the_table_can_hold():
    assert pool_capacity([COLUMN], 32, 256, 10**6) == MINIBATCHES_PER_POOL * 256
    assert pool_capacity([COLUMN], 32, 256, 1000) == 1000 // 32 * 32
    assert pool_capacity([COLUMN], 32, 256, 7) == 32  # at least what comes in at once


def test_capacity_is_bounded_in_bytes():
    item_bytes = 84 * 84 * 3 + 2 * 4
    assert pool_capacity([COLUMN, IMAGE], 32, 256, 10**6) == (
        MAX_POOL_BYTES // item_bytes // 32 * 32
    )


def test_draws_are_from_the_newest_items_only_and_keep_the_columns_together():
    pool = numbered_pool(capacity=6, num_fresh=2, batch_size=50)
    iterator = iter(numbered(100, batch=2))
    pool.fill(iterator)  # 0 to 5
    step = tf.function(lambda fresh: exchange(pool, fresh))
    for newest in (7, 9, 11, 13):
        pairs, numbers = step(next(iterator).data)
        assert set(numbers.numpy().ravel()) == set(range(newest - 5, newest + 1))
        np.testing.assert_array_equal(pairs, np.concatenate([numbers, -numbers], axis=1))


def test_pool_grows_from_its_first_items_to_its_capacity():
    pool = numbered_pool(capacity=8, num_fresh=2, batch_size=100, num_initial=5)  # 4 are 2 reads
    iterator = iter(numbered(100, batch=2))
    pool.fill(iterator)  # 0 to 3
    step = tf.function(lambda fresh: exchange(pool, fresh))
    for newest, size in ((5, 6), (7, 8), (9, 8), (11, 8)):
        _, numbers = step(next(iterator).data)
        assert set(numbers.numpy().ravel()) == set(range(newest - size + 1, newest + 1))
    pool.fill(iterator)  # 12 to 15: begins anew
    _, numbers = step(next(iterator).data)
    assert set(numbers.numpy().ravel()) == set(range(12, 18))


def test_every_item_is_drawn_as_often_as_from_the_table_itself():
    """256 draws an item: 8 visits of 1 / 8 of the steps, each with 256 / 32 draws on average."""
    num_fresh, batch_size, num_steps = 4, 32, 500
    pool = numbered_pool(capacity=40, num_fresh=num_fresh, batch_size=batch_size)
    iterator = iter(numbered(40 + num_fresh * num_steps, batch=num_fresh))
    pool.fill(iterator)

    @tf.function
    def draw_all(iterator):
        drawn = tf.TensorArray(tf.int64, num_steps)
        for step in tf.range(num_steps):
            drawn = drawn.write(step, exchange(pool, next(iterator).data)[1])
        return drawn.concat()

    counts = np.bincount(draw_all(iterator).numpy().ravel())
    inner = counts[80 : 40 + num_fresh * (num_steps - 10)]  # stayed for their whole time
    assert inner.mean() == pytest.approx(batch_size / num_fresh, rel=0.02)
    assert inner.std() == pytest.approx((batch_size / num_fresh) ** 0.5, rel=0.1)  # Poisson


def test_fill_raises_what_the_data_raises_and_can_be_repeated():
    pool = numbered_pool(capacity=6, num_fresh=2, batch_size=60)
    with pytest.raises(tf.errors.OutOfRangeError):
        pool.fill(iter(numbered(4, batch=2)))
    pool.fill(iter(numbered(6, batch=2)))
    fresh = tf.constant([[6.0, -6.0], [7.0, -7.0]]), tf.constant([[6], [7]], tf.int64)
    _, numbers = exchange(pool, fresh)
    assert 7 in numbers.numpy()
    assert numbers.numpy().max() == 7


def test_blocks_fill_the_pool_as_single_items_do():
    pool = SamplingPool([COLUMN], capacity=6, num_initial=6, num_fresh=6, batch_size=100)
    rows = tf.reshape(tf.range(12.0), [6, 2])
    (drawn,) = exchange(pool, (tf.reshape(rows, [3, 2, 2]),))
    np.testing.assert_array_equal(np.unique(drawn, axis=0), rows)


def test_minibatch_spec_describes_sequences():
    pool = SamplingPool([tf.TensorSpec([5, 2], tf.float32)], 8, 8, 4, 16)
    assert pool.minibatch_spec == (tf.TensorSpec([16, 5, 2], tf.float32),)
