"""Batch renormalization against numbers by hand, and against TensorFlow's normalization."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

from tfagents_system.networks.batch_renorm import BatchRenorm, RenormalizedLayers
from tfagents_system.networks.normalizing_networks import (
    NormalizingActorNetwork,
    NormalizingCriticNetwork,
)

EPSILON = 1e-3
OBSERVATION = tf.TensorSpec([2], tf.float32)
ACTION = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1)
COLD, WARM = (tf.Variable(step, dtype=tf.int64) for step in (99_999, 100_000))
BATCH = np.float32([[1.0], [3.0], [8.0]])
MEAN, VARIANCE = (1 + 3 + 8) / 3, ((1 - 4) ** 2 + (3 - 4) ** 2 + (8 - 4) ** 2) / 3


def layer_with(gamma=2.0, beta=0.5, mean=0.0, variance=1.0):
    layer = BatchRenorm()
    layer.build([None, 1])
    for variable, value in zip(layer.variables, (gamma, beta, mean, variance), strict=True):
        variable.assign([value])
    return layer


def normalized(linear_map):
    scale, offset = linear_map
    return BATCH * scale + offset


def test_before_the_warm_up_has_ended_a_batch_is_normalized_by_its_own_moments():
    linear_map, (mean, variance) = layer_with(mean=7.0, variance=9.0).of_batch(BATCH, COLD)
    np.testing.assert_allclose([mean[0], variance[0]], [MEAN, VARIANCE], rtol=1e-6)
    expected = 2.0 * (BATCH - MEAN) / np.sqrt(VARIANCE + EPSILON) + 0.5
    np.testing.assert_allclose(normalized(linear_map), expected, rtol=1e-5)


def test_after_it_as_the_running_moments_would_as_far_as_they_are_near():
    layer = layer_with(mean=3.0, variance=9.0)
    linear_map, _ = layer.of_batch(BATCH, WARM)
    np.testing.assert_allclose(normalized(linear_map), normalized(layer.of_running()), rtol=1e-5)
    expected = 2.0 * (BATCH - 3.0) / np.sqrt(9.0 + EPSILON) + 0.5
    np.testing.assert_allclose(normalized(linear_map), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "mean, variance, r, d",
    [(MEAN, 1e-3, 3.0, 0.0), (MEAN, 1e4, 1 / 3, 0.0), (-100.0, VARIANCE, 1.0, 5.0),
     (100.0, VARIANCE, 1.0, -5.0)],
)  # fmt: skip
def test_the_correction_is_clipped(mean, variance, r, d):
    linear_map, _ = layer_with(mean=mean, variance=variance).of_batch(BATCH, WARM)
    own = (BATCH - MEAN) / np.sqrt(VARIANCE + EPSILON)
    np.testing.assert_allclose(normalized(linear_map), 2.0 * (own * r + d) + 0.5, rtol=1e-4)


def test_running_moments_move_by_a_hundredth():
    layer = layer_with(mean=1.0, variance=2.0)
    layer.update((tf.constant([3.0]), tf.constant([6.0])))
    np.testing.assert_allclose(layer.mean, [1 + 0.01 * (3 - 1)], rtol=1e-6)
    np.testing.assert_allclose(layer.variance, [2 + 0.01 * (6 - 2)], rtol=1e-6)
    assert [v.name for v in layer.trainable_variables] == ["gamma:0", "beta:0"]


def critic_and_batch():
    critic = NormalizingCriticNetwork((OBSERVATION, ACTION), (5, 4), RenormalizedLayers)
    critic.create_variables()
    rng = np.random.default_rng(1)
    for variable in critic.variables:
        variable.assign(rng.uniform(0.2, 1.0, variable.shape))
    observation, action = rng.normal(size=(16, 2)), rng.uniform(-1, 1, size=(16, 1))
    return critic, (tf.constant(observation, tf.float32), tf.constant(action, tf.float32))


def by_tensorflow(layers, features, moments_of):
    """The same layers, one by one, as they stand in the paper."""

    def normalize(normalization, x):
        mean, variance = moments_of(normalization, x)
        return tf.nn.batch_normalization(
            x, mean, variance, normalization.beta, normalization.gamma, EPSILON
        )

    x = normalize(layers.normalizations[0], features)
    for layer, normalization in zip(layers.hidden_layers, layers.normalizations[1:], strict=True):
        x = normalize(normalization, tf.nn.relu(x @ layer.kernel + layer.bias))
    return layers.output_layer(x)


def q_by_tensorflow(critic, inputs, moments_of):
    values = by_tensorflow(critic.layers_of_value, tf.concat(inputs, axis=-1), moments_of)
    return tf.squeeze(values, axis=-1)


def of_batch(_, features):
    return tf.nn.moments(features, [0])


def running(normalization, _):
    return normalization.mean, normalization.variance


def test_values_and_gradients_are_those_of_normalized_layers():
    critic, inputs = critic_and_batch()
    variables = critic.trainable_variables
    with tf.GradientTape() as tape:
        q_values, moments = critic.of_batch(inputs, COLD)
        loss = tf.reduce_sum(q_values**2)
    with tf.GradientTape() as reference:
        expected = q_by_tensorflow(critic, inputs, of_batch)
        expected_loss = tf.reduce_sum(expected**2)
    np.testing.assert_allclose(q_values, expected, rtol=1e-4)
    assert [len(mean) for mean, _ in moments] == [3, 5, 4]
    for one, other in zip(
        tape.gradient(loss, variables), reference.gradient(expected_loss, variables), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_an_action_alone_is_judged_by_the_running_moments():
    critic, inputs = critic_and_batch()
    q_values, _ = critic(inputs)
    np.testing.assert_allclose(q_values, q_by_tensorflow(critic, inputs, running), rtol=1e-4)
    one = tf.nest.map_structure(lambda x: x[3:4], inputs)
    np.testing.assert_allclose(critic(one)[0], q_values[3:4], rtol=1e-4)


def test_an_actor_acts_by_the_running_moments_and_is_trained_by_those_of_the_batch():
    actor = NormalizingActorNetwork(OBSERVATION, ACTION, (5, 4), RenormalizedLayers)
    actor.create_variables()
    rng = np.random.default_rng(1)
    for variable in actor.variables:
        variable.assign(rng.uniform(0.2, 1.0, variable.shape))
    observations = tf.constant(rng.normal(size=(16, 2)), tf.float32)
    in_training, moments = actor.of_batch(observations, COLD)
    acting, _ = actor(observations)
    assert [len(mean) for mean, _ in moments] == [2, 5, 4]
    for distribution, moments_of in ((in_training, of_batch), (acting, running)):
        projected = by_tensorflow(actor.layers_of_head, observations, moments_of)
        parameters = distribution.parameters
        np.testing.assert_allclose(parameters["loc"], projected[:, :1], rtol=1e-4)
        np.testing.assert_allclose(
            parameters["log_std"], np.minimum(projected[:, 1:], 2), rtol=1e-4
        )
    before = [variable.numpy() for variable in actor.variables]
    actor.update_moments(actor.layers_of_head.running_moments())
    for variable, expected in zip(actor.variables, before, strict=True):
        np.testing.assert_array_equal(variable, expected)


def test_a_feature_that_never_changes_gives_finite_gradients():
    constant = tf.ones([4, 1])
    with tf.GradientTape() as tape:
        tape.watch(constant)
        scale, offset = layer_with().of_batch(constant, COLD)[0]
        loss = tf.reduce_sum((constant * scale + offset) ** 2)
    assert np.isfinite(tape.gradient(loss, constant)).all()


def test_initial_weights_are_of_the_size_that_the_authors_have():
    tf.keras.utils.set_random_seed(1)
    action = tensor_spec.BoundedTensorSpec([4], tf.float32, -1, 1)
    specs = tf.TensorSpec([12], tf.float32), action
    critic = NormalizingCriticNetwork(specs, (512, 512), RenormalizedLayers)
    critic.create_variables()
    layers = [*critic.layers_of_value.hidden_layers, critic.layers_of_value.output_layer]
    for layer, num_inputs in zip(layers, (12 + 4, 512, 512), strict=True):
        # LeCun et al. 1998, Efficient BackProp, equation 16
        np.testing.assert_allclose(np.std(layer.kernel), num_inputs**-0.5, rtol=0.1)
