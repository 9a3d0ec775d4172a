"""Layer normalization with ReLU, compiled and not, against NumPy and Keras."""

import numpy as np
import pytest
import tensorflow as tf
from kernel_marks import needs_int16

from tfagents_system.networks.layer_norm import EPSILON, LayerNormRelu
from tfagents_system.networks.matmul import matmul_precision


@pytest.fixture(params=["float32", pytest.param("int16", marks=needs_int16)])
def arithmetic(request):
    return request.param


def layer_with(gamma, beta):
    layer = LayerNormRelu()
    layer.build([None, len(gamma)])
    layer.set_weights([np.float32(gamma), np.float32(beta)])
    return layer


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_by_hand(arithmetic):
    layer = layer_with([1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.5, -1.0])
    with matmul_precision(arithmetic, arithmetic):
        outputs = layer(tf.constant([[5.0, 1.0, 5.0, 1.0]]))
    # Mean 3 and deviation 2, so normalized 1, -1, 1, -1.
    expected = [1 * 1 + 0, 0, 3 * 1 + 0.5, 0]  # ReLU of 2 * -1 + 1 and of 4 * -1 - 1
    np.testing.assert_allclose(outputs, [expected], rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (3, 16), (5, 31), (2, 3, 40), (7, 256)])
def test_values_and_gradients_of_any_size_are_those_of_keras(arithmetic, shape):
    gamma, beta = numbers(shape[-1], seed=1), numbers(shape[-1], seed=2)
    layer, x = layer_with(gamma, beta), tf.constant(3 * numbers(*shape) + 2)
    keras = tf.keras.layers.LayerNormalization(epsilon=EPSILON)
    keras.build(x.shape)
    keras.set_weights([gamma, beta])
    upstream = numbers(*shape, seed=3)
    with matmul_precision(arithmetic, arithmetic), tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x)
    got = tape.gradient(outputs, [x, *layer.weights], upstream)
    with tf.GradientTape() as tape:
        tape.watch(x)
        expected = tf.nn.relu(keras(x))
    wanted = tape.gradient(expected, [x, *keras.weights], upstream)
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("compiles", [True, False])
def test_second_derivatives_are_those_of_keras(arithmetic, compiles):
    def penalty(norm, x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(norm(x) ** 3)
            gradients = inner.gradient(loss, [x, *layer.weights])
            value = sum(tf.reduce_sum(g**2) for g in gradients)
        return outer.gradient(value, [x, *layer.weights])

    layer, x = layer_with(numbers(12, seed=1), numbers(12, seed=2)), tf.constant(numbers(4, 12))

    def plain(x):
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.math.reduce_variance(x, axis=-1, keepdims=True)
        return tf.nn.relu((x - mean) / tf.sqrt(variance + EPSILON) * layer.gamma + layer.beta)

    call = tf.function(penalty) if compiles else penalty
    with matmul_precision(arithmetic, arithmetic):
        got = call(layer, x)
    for one, other in zip(got, penalty(plain, x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * np.abs(other).max())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_so_in_its_row(arithmetic, bad):
    layer = layer_with([1.0, 1.0], [0.0, 0.0])
    with matmul_precision(arithmetic, arithmetic):
        outputs = layer(tf.constant([[bad, 0.0], [1.0, 3.0]]))
    assert np.isnan(outputs[0]).all()
    np.testing.assert_allclose(outputs[1], [0, 1], rtol=1e-4)
