import numpy as np
import pytest
import tensorflow as tf

from tfagents_system.core.errors import ConfigError
from tfagents_system.networks.normalizer import LARGEST, Normalizer

VECTOR = tf.TensorSpec([1], tf.float32)
NEST = {
    "arm": tf.TensorSpec([2, 2], tf.float32),
    "camera": tf.TensorSpec([2, 3, 1], tf.uint8),
    "gear": tf.TensorSpec([], tf.int32),
    "speed": tf.TensorSpec([], tf.float32),
}


def learn(normalizer, observation, weights=None):
    """Updates by a minibatch as a train step does, and returns it normalized."""
    num = tf.nest.flatten(observation)[0].shape[0]
    statistics = normalizer.merged(observation, np.ones(num) if weights is None else weights)
    normalizer.update(statistics)
    return normalizer(observation)


def numbers(normalizer):
    return [value.numpy().tolist() for value in normalizer.statistics]


def test_statistics_by_hand():
    normalizer = Normalizer(VECTOR)
    assert numbers(normalizer) == [0, [0], [1]]
    np.testing.assert_allclose(normalizer(tf.constant([[0.5]])), [[0.5]])  # before any minibatch
    learn(normalizer, tf.constant([[1.0], [3.0]]))
    assert numbers(normalizer) == [2, [(1 + 3) / 2], [((1 - 2) ** 2 + (3 - 2) ** 2) / 2]]
    normalized = learn(normalizer, tf.constant([[6.0]]))
    mean = (1 + 3 + 6) / 3
    variance = ((1 - mean) ** 2 + (3 - mean) ** 2 + (6 - mean) ** 2) / 3
    np.testing.assert_allclose(numbers(normalizer)[1:], [[mean], [variance]], rtol=1e-12)
    np.testing.assert_allclose(normalized, [[(6 - mean) / variance**0.5]], rtol=1e-6)


def test_minibatches_of_any_size_give_the_moments_of_all_rows_also_far_from_zero():
    rows = np.random.default_rng(1).normal([0, 1e6], [1e-3, 10], (1000, 2)).astype(np.float32)
    normalizer = Normalizer(tf.TensorSpec([2], tf.float32))
    for part in np.split(rows, [1, 7, 300, 301, 900]):
        learn(normalizer, tf.constant(part))
    exact = rows.astype(np.float64)
    assert normalizer.count.numpy() == 1000
    np.testing.assert_allclose(normalizer.mean, exact.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(normalizer.variance, exact.var(axis=0), rtol=1e-9)


def test_lists_of_entities_stay_as_they_are_so_that_padding_stays_padding():
    blocks = tf.TensorSpec([3, 2], tf.float32, "blocks.entities")
    normalizer = Normalizer({"blocks": blocks, "speed": VECTOR})
    lists = tf.constant([[[7.0, 8], [0, 0], [0, 0]], [[7, 8], [7, 8], [0, 0]]])
    normalized = learn(normalizer, {"blocks": lists, "speed": tf.constant([[1.0], [3]])})
    np.testing.assert_array_equal(normalized["blocks"], lists)
    np.testing.assert_allclose(normalized["speed"], [[-1], [1]])
    with pytest.raises(ConfigError, match="no part .* a vector .* take entities as they are"):
        Normalizer(blocks)


def test_padding_does_not_count_and_padding_alone_changes_nothing():
    normalizer = Normalizer(VECTOR)
    learn(normalizer, tf.fill([2, 3, 1], 9.0), np.zeros([2, 3]))
    assert numbers(normalizer) == [0, [0], [1]]
    sequences = tf.constant([[[1.0], [3.0], [99.0]], [[5.0], [99.0], [99.0]]])
    learn(normalizer, sequences, [[1, 1, 0], [1, 0, 0]])
    np.testing.assert_allclose(numbers(normalizer)[1:], [[3], [(4 + 0 + 4) / 3]])


def test_what_never_changed_becomes_zero_and_large_numbers_are_clipped():
    normalizer = Normalizer(VECTOR)
    constant = tf.fill([4, 1], 1e3 / 7)
    np.testing.assert_array_equal(learn(normalizer, constant), np.zeros([4, 1]))
    other = normalizer(tf.constant([[1e3], [-1e3]]))
    np.testing.assert_array_equal(other, [[LARGEST], [-LARGEST]])


def test_images_and_integers_stay_as_they_are():
    rng = np.random.default_rng(1)
    observation = {
        "arm": tf.constant(rng.normal(3, 2, (5, 2, 2)), tf.float32),
        "camera": tf.constant(rng.integers(256, size=(5, 2, 3, 1)), tf.uint8),
        "gear": tf.constant(rng.integers(9, size=5), tf.int32),
        "speed": tf.constant(rng.normal(-7, 0.1, 5), tf.float32),
    }
    normalizer = Normalizer(NEST)
    normalized = learn(normalizer, observation)
    assert (
        normalized["camera"] is observation["camera"] and normalized["gear"] is observation["gear"]
    )
    for name in ("arm", "speed"):
        raw = observation[name].numpy()
        expected = (raw - raw.mean(axis=0)) / raw.std(axis=0)
        np.testing.assert_allclose(normalized[name], expected, rtol=1e-4, atol=1e-4)
    # NumPy has all parts in one row.
    row = np.concatenate([observation[name][0].numpy().ravel() for name in sorted(NEST)])
    arrays = normalizer.arrays(normalizer.mean.numpy(), normalizer.variance.numpy())
    mean, scale, low, high = arrays.values()
    joined = np.concatenate([normalized[name][0].numpy().ravel() for name in sorted(NEST)])
    np.testing.assert_allclose(np.clip((row - mean) * scale, low, high), joined, rtol=1e-6)
    assert {value.dtype.name for value in arrays.values()} == {"float32"}


def test_an_observation_without_numbers_to_normalize_is_refused():
    with pytest.raises(
        ConfigError,
        match="no part of the observation is a vector of floating point numbers: it is Ten",
    ):
        Normalizer(NEST["camera"])
