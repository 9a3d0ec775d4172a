import math
import unittest.mock

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

from tfagents_system.networks.actor_networks import MlpActorNetwork
from tfagents_system.networks.critic_networks import MlpCriticNetwork
from tfagents_system.networks.goal_conditioning import GoalConditionedDense, GoalReader
from tfagents_system.networks.hidden_layers import dense_layers, through
from tfagents_system.networks.summarizers import RecurrentSummarizer

TARGET = tf.TensorSpec([2], tf.float32, "target.goal_signal")
PLACE = tensor_spec.BoundedTensorSpec([], tf.int64, 3, 5, "category_of_place.goal_signal")
SPEED = tf.TensorSpec([2], tf.float32, "speed")
SPEC = {"place": PLACE, "speed": SPEED, "target": TARGET}
ACTION = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1)


def observation(target=(0.5, -1.0)):
    return {
        "place": tf.constant([4], tf.int64),
        "speed": tf.constant([[7.0, 8]]),
        "target": tf.constant([target]),
    }


def test_goals_are_read_as_one_vector():
    reader = GoalReader(SPEC)
    assert reader.num_inputs == 3 + 2
    np.testing.assert_array_equal(reader(observation()), [[0, 1, 0, 0.5, -1]])
    sequence = tf.nest.map_structure(lambda leaf: leaf[tf.newaxis], observation())
    np.testing.assert_array_equal(reader(sequence), [[[0, 1, 0, 0.5, -1]]])
    without = GoalReader(SPEED)
    assert without.num_inputs == 0 and without(tf.ones([1, 2])) is None


def test_a_generated_layer_by_hand():
    layer = GoalConditionedDense(2)
    x, goals = np.float32([[1, 2, -3], [0.5, 0, 1]]), np.float32([[1.0], [-2]])
    layer(x, goals)
    rng = np.random.default_rng(1)
    for variable in layer.variables:
        variable.assign(rng.normal(size=variable.shape))
    first, second = ([v.numpy() for v in own.variables] for own in layer.goal_layers)
    kernel, bias = (v.numpy() for v in layer.generator.variables)
    for row in (0, 1):
        code = goals[row]
        for weights, offset in (first, second):
            code = code @ weights + offset
            code = code / (1 + np.exp(-code))  # swish
        mean = (code[0] + code[1]) / 2
        variance = ((code[0] - mean) ** 2 + (code[1] - mean) ** 2) / 2
        code = (code - mean) / math.sqrt(variance + 1e-5)
        generated = (code @ kernel + bias).reshape(3, 2)
        expected = np.maximum(x[row] @ generated + layer.bias.numpy(), 0)
        np.testing.assert_allclose(layer(x, goals)[row], expected, rtol=1e-4, atol=1e-5)
    in_sequences = layer(x[:, np.newaxis], goals[:, np.newaxis])
    np.testing.assert_allclose(in_sequences[:, 0], layer(x, goals), rtol=1e-5)


@pytest.mark.parametrize("num_goals", [1, 2, 6])
def test_rows_that_share_goals_have_the_outputs_and_gradients_of_each_alone(num_goals):
    layer = GoalConditionedDense(4)
    rng = np.random.default_rng(3)
    x = tf.constant(rng.normal(size=[6, 3]), tf.float32)
    goals = tf.constant(rng.normal(size=[num_goals, 2])[np.arange(6) % num_goals], tf.float32)
    layer(x, goals)

    def outputs_and_gradients(call):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = call()
            loss = tf.reduce_sum(outputs**2)
        return outputs, *tape.gradient(loss, [x, *layer.trainable_variables])

    together = outputs_and_gradients(tf.function(lambda: layer(x, goals)))
    alone = outputs_and_gradients(
        lambda: tf.concat([layer(x[i : i + 1], goals[i : i + 1]) for i in range(6)], axis=0)
    )
    for ours, expected in zip(together, alone, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)
    with unittest.mock.patch.object(layer, "_kernels", wraps=layer._kernels) as kernels:
        layer(x, goals)
    ((generated,), _) = kernels.call_args
    assert len(generated) == num_goals


def test_initial_weights_are_those_of_ml_agents():
    layer = GoalConditionedDense(32)
    layer(tf.ones([1, 16]), tf.ones([1, 4]))
    bound = math.sqrt(1 / (32 * 16))
    kernel = layer.generator.kernel.numpy()
    assert kernel.shape == (32, 16 * 32)
    assert 0.95 * bound < np.abs(kernel).max() <= bound
    np.testing.assert_allclose(kernel.std(), bound / math.sqrt(3), rtol=0.05)
    for variable in (layer.generator.bias, layer.bias, *(own.bias for own in layer.goal_layers)):
        np.testing.assert_array_equal(variable, np.zeros(variable.shape))


@pytest.mark.parametrize("layer_norm", [False, True])
def test_only_the_last_hidden_layer_is_generated(layer_norm):
    tf.keras.utils.set_random_seed(1)  # of some draws, no unit is active
    layers = dense_layers([5, 4], layer_norm, is_conditioned=True)
    x, goals = tf.ones([2, 3]), tf.constant([[1.0], [-1]])
    outputs = through(layers, x, goals)
    assert outputs.shape == [2, 4]
    assert np.abs(outputs[0] - outputs[1]).max() > 0
    assert [len(layer.variables) for layer in layers] == (
        [2 + 2, 3 * 2 + 1 + 2] if layer_norm else [2, 3 * 2 + 1]
    )


def test_goals_enter_the_first_layer_too():
    actor = MlpActorNetwork(SPEC, ACTION, (5, 4))
    actor.create_variables()
    first, last = actor.hidden_layers
    assert first.kernel.shape == [3 + 2 + 2, 5]
    assert type(last) is GoalConditionedDense
    critic = MlpCriticNetwork((SPEC, ACTION), (5, 4))
    critic.create_variables()
    assert critic.hidden_layers[0].kernel.shape == [3 + 2 + 2 + 1, 5]
    assert type(critic.hidden_layers[1]) is GoalConditionedDense
    plain = MlpActorNetwork({"speed": SPEED}, ACTION, (5, 4))
    assert GoalConditionedDense not in map(type, plain.hidden_layers)


def test_a_summarizer_passes_goals_on_beside_its_features():
    summarizer = RecurrentSummarizer(SPEC, units=3)
    features, _ = summarizer(observation())
    assert features["features"].shape == [1, 3]
    np.testing.assert_array_equal(features["goals"], [[0, 1, 0, 0.5, -1]])
    actor = MlpActorNetwork(summarizer.features_spec, ACTION, (5, 4))
    actor.create_variables()
    assert actor.hidden_layers[0].kernel.shape == [3 + 5, 5]
    assert type(actor.hidden_layers[1]) is GoalConditionedDense
