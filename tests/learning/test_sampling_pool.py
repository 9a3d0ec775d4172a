import collections

import numpy as np
import pytest
import tensorflow as tf

from tfagents_system.data.codec import Codec
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.data.transition import FIRST, LAST, MID, Step, step_spec
from tfagents_system.learning.sampling_pool import (
    MAX_POOL_BYTES,
    MINIBATCHES_PER_POOL,
    SamplingPool,
    pool_capacity,
)

# A transition is known by the number that its first row observes, as float32 and as int64.
NUMBER = {"float": tf.TensorSpec([1], tf.float32), "int": tf.TensorSpec([1], tf.int64)}
CODEC = Codec(step_spec(NUMBER, tf.TensorSpec([1], tf.float32)))
SINGLES = SampleReader(CODEC, SINGLE)
Sample = collections.namedtuple("Sample", "data")


def rows_of(first, step_types):
    """Packed rows that observe `first`, `first` + 1, ..."""
    zero = np.zeros(1, np.float32)
    rows = [
        CODEC.pack(
            Step(
                np.float32(step_type),
                {"float": np.float32([number]), "int": np.int64([number])},
                zero,
                np.float32(0),
                np.float32(1),
            )
        )
        for number, step_type in enumerate(step_types, start=first)
    ]
    return [np.stack(column) for column in zip(*rows, strict=True)]


def numbered(count, batch):
    """Batches of single transitions that begin at 0, 1, 2, ..."""
    items = [rows_of(number, [MID, MID]) for number in range(count)]
    columns = tuple(np.stack(column) for column in zip(*items, strict=True))
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    return dataset.batch(batch).map(lambda *columns: Sample(columns))


def numbered_pool(capacity, num_fresh, batch_size, num_initial=None):
    return SamplingPool(SINGLES, capacity, num_initial or capacity, num_fresh, batch_size)


def drawn_numbers(pool, reader=SINGLES):
    """Draws; returns the numbers [B] where the transitions begin, after checking the columns."""
    transition = reader.unpack(pool.draw())
    number = transition.observation["int"]
    tf.debugging.assert_equal(transition.next_observation["int"], number + 1)
    tf.debugging.assert_equal(transition.observation["float"], tf.cast(number, tf.float32))
    return number[:, 0]


def exchange(pool, fresh):
    pool.add(fresh)
    return drawn_numbers(pool)


def reader_of_size(size, layout):
    return SampleReader(Codec([tf.TensorSpec([size], tf.float32)]), layout)


def test_capacity_is_some_minibatches_but_not_more_than_the_table_can_hold():
    reader = reader_of_size(2, ItemLayout(8))
    assert pool_capacity(reader, 32, 256, 10**6) == MINIBATCHES_PER_POOL * 256
    assert pool_capacity(reader, 32, 256, 1000) == 1000 // 32 * 32
    assert pool_capacity(reader, 32, 256, 7) == 32  # at least what comes in at once


@pytest.mark.parametrize("layout", [ItemLayout(8), SINGLE, ItemLayout(8, is_sequence=True)])
def test_capacity_is_bounded_in_bytes(layout):
    reader = reader_of_size(84 * 84, layout)
    item_bytes = layout.rows * 84 * 84 * 4
    most = MAX_POOL_BYTES // item_bytes * layout.samples
    assert most - 32 < pool_capacity(reader, 32, 256, 10**6) <= most + layout.samples


def test_a_pool_of_stacked_images_holds_eight_minibatches():
    layout = ItemLayout(32, frame_stack=4)
    reader = SampleReader(Codec([tf.TensorSpec([84, 84, 3], tf.uint8)]), layout)
    assert pool_capacity(reader, 64, 256, 10**5) >= 8 * 256


def test_draws_are_from_the_newest_items_only():
    pool = numbered_pool(capacity=6, num_fresh=2, batch_size=50)
    iterator = iter(numbered(100, batch=2))
    pool.fill(iterator)  # 0 to 5
    step = tf.function(lambda fresh: exchange(pool, fresh))
    for newest in (7, 9, 11, 13):
        numbers = step(next(iterator).data)
        assert set(numbers.numpy()) == set(range(newest - 5, newest + 1))


def test_pool_grows_from_its_first_items_to_its_capacity():
    pool = numbered_pool(capacity=8, num_fresh=2, batch_size=100, num_initial=5)  # 4 are 2 reads
    iterator = iter(numbered(100, batch=2))
    pool.fill(iterator)  # 0 to 3
    step = tf.function(lambda fresh: exchange(pool, fresh))
    for newest, size in ((5, 6), (7, 8), (9, 8), (11, 8)):
        numbers = step(next(iterator).data)
        assert set(numbers.numpy()) == set(range(newest - size + 1, newest + 1))


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
            drawn = drawn.write(step, exchange(pool, next(iterator).data))
        return drawn.concat()

    counts = np.bincount(draw_all(iterator).numpy())
    inner = counts[80 : 40 + num_fresh * (num_steps - 10)]  # stayed for their whole time
    assert inner.mean() == pytest.approx(batch_size / num_fresh, rel=0.02)
    assert inner.std() == pytest.approx((batch_size / num_fresh) ** 0.5, rel=0.1)  # Poisson


def test_a_fill_that_the_end_of_the_data_interrupts_goes_on_with_the_next():
    pool = numbered_pool(capacity=6, num_fresh=2, batch_size=60)
    items = numbered(8, batch=8).unbatch()
    for begin in (0, 2):
        with pytest.raises(tf.errors.OutOfRangeError):
            pool.fill(iter(items.skip(begin).take(2).batch(2)))
    pool.fill(iter(items.skip(4).batch(2)))  # takes 4 and 5
    numbers = exchange(pool, next(iter(items.skip(6).batch(2))).data)
    assert set(numbers.numpy()) == set(range(2, 8))


@pytest.mark.parametrize("length", [2, 4, 8])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_give_exactly_the_transitions_of_their_episodes(length, seed):
    """Episodes of every length around that of a block; each block overwrites the oldest ones."""
    layout = ItemLayout(length)
    reader = SampleReader(CODEC, layout)
    rng = np.random.default_rng(seed)
    lengths = rng.permutation([1, 1, 2, length - 1, length, length + 1, 3 * length] * 6)
    step_types = [t for n in lengths for t in [FIRST] + [MID] * n]
    starts = {k for k in range(len(step_types) - 1) if step_types[k + 1] != FIRST}
    rows = rows_of(0, step_types)
    blocks_per_add, adds_in_pool = 2, 3
    fresh = blocks_per_add * length
    pool = SamplingPool(reader, adds_in_pool * fresh, 0, fresh, batch_size=600)

    @tf.function
    def step(items):
        pool.add(items)
        return drawn_numbers(pool, reader)

    seen = set()
    for add in range((len(step_types) - 1) // fresh):
        firsts = [add * fresh + block * length for block in range(blocks_per_add)]
        items = [np.stack([c[first : first + length + 1] for first in firsts]) for c in rows]
        numbers = step(tuple(map(tf.constant, items))).numpy()
        oldest = max(0, add + 1 - adds_in_pool) * fresh
        assert set(numbers) == {k for k in starts if oldest <= k < (add + 1) * fresh}
        counts = np.bincount(numbers)
        assert counts.max() < 600 / len(set(numbers)) + 8 * (600 / len(set(numbers))) ** 0.5
        seen |= set(numbers)
    assert seen == {k for k in starts if k < (add + 1) * fresh}


def test_minibatch_spec_describes_what_is_drawn():
    pool = SamplingPool(SampleReader(CODEC, ItemLayout(5, is_sequence=True)), 8, 8, 4, 16)
    assert [spec.shape.as_list() for spec in pool.minibatch_spec] == [[16, 6, 5], [16, 6, 1]]
    pool = SamplingPool(SampleReader(CODEC, ItemLayout(4)), 8, 8, 8, 16)
    assert [spec.shape.as_list() for spec in pool.minibatch_spec] == [[16, 2, 5], [16, 2, 1]]


def test_segments_are_drawn_equally_often_however_padded_also_when_they_have_replaced_others():
    reader = SampleReader(CODEC, ItemLayout(4, is_sequence=True, is_segment=True))
    kinds = {0: [FIRST, MID, MID, MID, MID], 10: [FIRST, MID, LAST, LAST, LAST]}

    def items_at(*numbers):
        items = [rows_of(number, kinds[number % 20]) for number in numbers]
        return [tf.constant(np.stack(column)) for column in zip(*items, strict=True)]

    pool = SamplingPool(reader, capacity=4, num_initial=4, num_fresh=2, batch_size=1000)
    for whole in (0, 20, 40):
        pool.add(items_at(whole, whole + 10))
        first = reader.unpack(pool.draw()).observation["int"][:, 0, 0].numpy()
        kept = [number for number in (whole - 20, whole) if number >= 0]
        counts = {n: int((first == n).sum()) for n in np.unique(first)}
        assert set(counts) == {n for number in kept for n in (number, number + 10)}
        of_short = sum(count for number, count in counts.items() if number % 20 == 10)
        assert abs(of_short - 1000 / 2) < 5 * (1000 * 1 / 2 * 1 / 2) ** 0.5


@pytest.mark.parametrize("length", [1, 4])
def test_a_drawn_sample_names_its_item_until_that_is_replaced(length):
    """By its content, also where that is not a number."""
    layout = ItemLayout(length)
    reader, blocks_per_add = SampleReader(CODEC, layout), 2
    pool = SamplingPool(reader, 3 * blocks_per_add * length, 0, blocks_per_add * length, 8)
    rows = rows_of(0, [MID] * 100)
    rows[0][:, -1] = np.where(np.arange(100) % 7 == 3, np.nan, rows[0][:, -1])

    def add(number):
        firsts = [(number * blocks_per_add + block) * length for block in range(blocks_per_add)]
        items = [np.stack([c[first : first + length + 1] for first in firsts]) for c in rows]
        pool.add(tuple(map(tf.constant, items)), tf.constant(firsts, tf.int64) - 10)

    def window(first):
        return [column[np.newaxis, first : first + 2] for column in rows]

    for number in range(3):
        add(number)
    num_samples = 3 * blocks_per_add * length
    for first in range(num_samples):
        assert pool.keys_of(window(first)) == {first // length * length - 10}
    assert pool.keys_of(window(num_samples)) == set()
    several = [np.concatenate(pair) for pair in zip(window(0), window(2 * length), strict=True)]
    assert pool.keys_of(several) == {-10, 2 * length - 10}
    add(3)
    assert pool.keys_of(several) == {2 * length - 10}
