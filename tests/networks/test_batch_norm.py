"""Batch normalization against TensorFlow's, in training and by the running moments."""

import numpy as np
import pytest
import tensorflow as tf
from kernel_marks import needs_int16
from tf_agents.specs import tensor_spec

from tfagents_system.networks.batch_norm import BatchNorm, BatchNormLayers
from tfagents_system.networks.batch_renorm import RenormalizedLayers
from tfagents_system.networks.matmul import matmul_precision
from tfagents_system.networks.normalizing_networks import (
    NormalizingActorNetwork,
    NormalizingCriticNetwork,
)

EPSILON = 1e-3
OBSERVATION = tf.TensorSpec([2], tf.float32)
ACTION = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1)
SUPPORT = (-1.0, 0.5, 2.0)


def with_random_variables(network):
    network.create_variables()
    rng = np.random.default_rng(1)
    for variable in network.variables:
        variable.assign(rng.uniform(0.2, 1.0, variable.shape))
    return network


def by_tensorflow(layers, features, moments_of):
    """The same layers, one by one, as they stand in the paper."""

    def normalize(normalization, x):
        mean, variance = moments_of(normalization, x)
        return tf.nn.batch_normalization(
            x, mean, variance, normalization.beta, normalization.gamma, EPSILON
        )

    first, *others = layers.normalizations
    x = normalize(first, features)
    for layer, normalization in zip(layers.hidden_layers, others, strict=True):
        x = tf.nn.relu(normalize(normalization, x @ layer.kernel))
    return layers.output_layer(x)


def of_batch(_, features):
    return tf.nn.moments(features, [0])


def running(normalization, _):
    return normalization.mean, normalization.variance


@pytest.mark.parametrize("support", [(), SUPPORT])
def test_values_and_gradients_are_those_of_normalized_layers(support):
    critic = with_random_variables(
        NormalizingCriticNetwork((OBSERVATION, ACTION), (5, 4), BatchNormLayers, support=support)
    )
    rng = np.random.default_rng(2)
    inputs = tuple(tf.constant(rng.normal(size=(16, n)), tf.float32) for n in (2, 1))
    features, variables = tf.concat(inputs, axis=-1), critic.trainable_variables
    with tf.GradientTape() as tape:
        outputs, moments = critic.of_batch(inputs)
        loss = tf.reduce_sum(outputs**2)
    with tf.GradientTape() as reference:
        expected = by_tensorflow(critic.layers_of_value, features, of_batch)
        expected_loss = tf.reduce_sum(expected**2)
    np.testing.assert_allclose(np.reshape(outputs, expected.shape), expected, rtol=1e-4, atol=1e-5)
    assert [len(mean) for mean, _ in moments] == [3, 5, 4]
    for one, other in zip(
        tape.gradient(loss, variables), reference.gradient(expected_loss, variables), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-4)
    acting = by_tensorflow(critic.layers_of_value, features, running)
    if support:
        acting = tf.nn.softmax(acting) @ tf.constant(support)[:, tf.newaxis]
    np.testing.assert_allclose(critic(inputs)[0], acting[:, 0], rtol=1e-4, atol=1e-5)


def test_an_actor_acts_by_the_running_moments_and_is_trained_by_those_of_the_batch():
    actor = with_random_variables(
        NormalizingActorNetwork(OBSERVATION, ACTION, (5, 4), BatchNormLayers)
    )
    observations = tf.constant(np.random.default_rng(1).normal(size=(16, 2)), tf.float32)
    in_training, moments = actor.of_batch(observations)
    acting, _ = actor(observations)
    assert [len(mean) for mean, _ in moments] == [2, 5, 4]
    for distribution, moments_of in ((in_training, of_batch), (acting, running)):
        outputs = by_tensorflow(actor.layers_of_head, observations, moments_of)
        parameters = distribution.parameters
        np.testing.assert_allclose(parameters["loc"], outputs[:, :1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            parameters["log_std"], np.minimum(outputs[:, 1:], 2), rtol=1e-4, atol=1e-5
        )


@pytest.fixture(params=["float32", pytest.param("int16", marks=needs_int16)])
def arithmetic(request):
    return request.param


def normalization_with(gamma, beta):
    layer = BatchNorm()
    layer.build([None, len(gamma)])
    layer.gamma.assign(gamma)
    layer.beta.assign(beta)
    return layer


def test_relu_by_hand(arithmetic):
    layer = normalization_with([2.0, 3.0], [0.5, -1.0])
    with matmul_precision(arithmetic, arithmetic):
        outputs, (mean, variance) = layer.relu_of_batch(tf.constant([[7.0, 30.0], [1.0, 10.0]]))
    np.testing.assert_allclose(mean, [(7 + 1) / 2, (30 + 10) / 2])
    np.testing.assert_allclose(variance, [3**2, 10**2])
    scales = 2 / np.sqrt(3**2 + EPSILON), 3 / np.sqrt(10**2 + EPSILON)
    upper = [scales[0] * 3 + 0.5, scales[1] * 10 - 1]
    np.testing.assert_allclose(outputs, [upper, [0, 0]], rtol=1e-6)  # ReLU of negative numbers


@pytest.mark.parametrize("shape", [(1, 1), (3, 16), (5, 31), (512, 65), (7, 256)])
def test_relu_and_its_gradients_of_any_size_are_those_of_tensorflow(arithmetic, shape):
    rng = np.random.default_rng(1)
    gamma, beta, upstream = (
        rng.normal(size=size).astype(np.float32) for size in (shape[1], shape[1], shape)
    )
    x = tf.constant(3 * rng.normal(size=shape) + 2, tf.float32)
    layer = normalization_with(gamma, beta)
    sources = [x, layer.gamma, layer.beta]
    with matmul_precision(arithmetic, arithmetic), tf.GradientTape() as tape:
        tape.watch(x)
        outputs, moments = layer.relu_of_batch(x)
    with tf.GradientTape() as reference:
        reference.watch(x)
        wanted_moments = tf.nn.moments(x, [0])
        wanted = tf.nn.relu(
            tf.nn.batch_normalization(x, *wanted_moments, layer.beta, layer.gamma, EPSILON)
        )
    for one, other in zip((outputs, *moments), (wanted, *wanted_moments), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    for one, other in zip(
        tape.gradient(outputs, sources, upstream),
        reference.gradient(wanted, sources, upstream),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * np.sqrt(shape[0]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_so_in_its_column(arithmetic, bad):
    layer = normalization_with([1.0, 1.0], [0.0, 0.0])
    with matmul_precision(arithmetic, arithmetic):
        outputs, _ = layer.relu_of_batch(tf.constant([[bad, 0.0], [1.0, 2.0]]))
    assert np.isnan(outputs[:, 0]).all()
    np.testing.assert_allclose(outputs[:, 1], [0, 1], atol=1e-3)


def test_hidden_layers_have_no_bias():
    critic = with_random_variables(
        NormalizingCriticNetwork((OBSERVATION, ACTION), (5,), BatchNormLayers)
    )
    shapes = sorted(tuple(variable.shape) for variable in critic.trainable_variables)
    # scale and offset of 3 inputs and of 5 units, two kernels, the bias of the output
    assert shapes == sorted([(3,), (3,), (5,), (5,), (3, 5), (5, 1), (1,)])


def test_running_moments_move_by_a_hundredth():
    layer = BatchNorm()
    layer.build([None, 1])
    layer.mean.assign([1.0])
    layer.variance.assign([2.0])
    layer.update((tf.constant([3.0]), tf.constant([6.0])))
    np.testing.assert_allclose(layer.mean, [1 + 0.01 * (3 - 1)], rtol=1e-6)
    np.testing.assert_allclose(layer.variance, [2 + 0.01 * (6 - 2)], rtol=1e-6)


@pytest.mark.parametrize("layers_class", [BatchNormLayers, RenormalizedLayers])
def test_layers_of_one_size_begin_with_different_kernels(layers_class):
    layers = layers_class((8, 8), tf.keras.layers.Dense(8))
    layers.build([None, 8])
    first, second, last = (kernel.numpy() for kernel in layers.kernels)
    for one, other in ((first, second), (second, last), (first, last)):
        assert np.abs(one - other).max() > 0.1
