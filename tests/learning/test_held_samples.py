import numpy as np
import tensorflow as tf

from tfagents_system.learning.held_samples import held_source

# Rows 0 to 9; windows of two begin at rows 2 (three times) and 7.
ROWS = np.arange(10, dtype=np.float32)[:, np.newaxis]
STARTS = np.array([2, 2, 2, 7], np.int32)


def drawn(seed, first_step, num_steps, num_samples=1000):
    train_step = tf.Variable(first_step, dtype=tf.int64)
    source = held_source("held", [ROWS, 10 * ROWS], STARTS, 2, num_samples, seed, train_step)
    iterator = source.make_iterator()
    return [[column.numpy() for column in next(iterator).data] for _ in range(num_steps)]


def test_windows_are_drawn_by_their_weights():
    ((first, second),) = drawn(seed=1, first_step=0, num_steps=1)
    assert first.shape == (1000, 2, 1)
    np.testing.assert_array_equal(second, 10 * first)
    assert set(map(tuple, first[..., 0])) == {(2, 3), (7, 8)}
    share = (first[:, 0, 0] == 2).mean()
    assert abs(share - 3 / 4) < 4 * np.sqrt(3 / 4 * 1 / 4 / 1000)  # four standard errors


def test_the_draws_of_a_train_step_depend_on_it_and_the_seed_alone():
    through = drawn(seed=1, first_step=5, num_steps=4)
    resumed = drawn(seed=1, first_step=7, num_steps=2)
    np.testing.assert_array_equal(through[2:], resumed)
    assert not np.array_equal(through[0], through[1])
    assert not np.array_equal(through, drawn(seed=2, first_step=5, num_steps=4))
