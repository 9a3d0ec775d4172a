import numpy as np
import pytest
import tensorflow as tf
from recurrent_fakes import recurrent_critic
from tf_agents.specs import tensor_spec

from tfagents_system.networks.critic_networks import MlpCriticNetwork
from tfagents_system.networks.hidden_layers import NormalizedDense

OBSERVATION = tf.TensorSpec([2], tf.float32, "observation")
ACTION = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 5, "action")


def make(ctor, layers=(4, 3), observation_spec=OBSERVATION, **kwargs):
    network = ctor((observation_spec, ACTION), joint_fc_layer_params=layers, **kwargs)
    network.create_variables()
    rng = np.random.default_rng(0)
    for variable in network.variables:
        variable.assign(rng.normal(size=variable.shape))
    return network


def normal(*shape, seed=0):
    return tf.random.stateless_normal(shape, (0, seed))


def test_mlp_by_hand():
    network = make(MlpCriticNetwork, layers=(2,))
    weights = [[[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]], [0.0, 0.5], [[10.0], [100.0]], [7.0]]
    for variable, value in zip(network.variables, weights, strict=True):
        variable.assign(value)
    q_values, state = network((tf.constant([[1.0, 2.0], [1.0, 2.0]]), tf.constant([[3.0], [-1.0]])))
    # Actions are from -1 to 5, so that these are a = 1/3 and -1 when scaled.
    # Hidden: relu(x + 2 a), relu(y - a + 0.5): rows (5/3, 13/6), (0, 3.5).
    np.testing.assert_allclose(q_values, [10 * 5 / 3 + 100 * 13 / 6 + 7, 100 * 3.5 + 7], rtol=1e-6)
    assert state == ()


def test_hidden_layers_with_layer_normalization_by_hand():
    network = make(MlpCriticNetwork, layers=(2,), layer_norm=True)
    weights = [[[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]], [0.0, 0.5], [3.0, 4.0], [1.0, 2.0],
               [[10.0], [100.0]], [7.0]]  # fmt: skip
    for variable, value in zip(network.variables, weights, strict=True):
        variable.assign(value)
    q_values, _ = network((tf.constant([[1.0, 2.0]]), tf.constant([[2.0 + 3 * 3.0]])))
    # The action is a = 3 when scaled. Before the normalization: x + 2 a = 7 and y - a + 0.5 = -0.5;
    # their mean is 3.25, their variance 3.75 ** 2. After it 1 and -1, then 3 * 1 + 1 = 4 and
    # relu(4 * -1 + 2) = 0.
    np.testing.assert_allclose(q_values, [10 * 4 + 100 * 0 + 7], rtol=1e-5)


def test_dropout_leaves_out_its_share_of_the_units_in_each_call_anew():
    tf.random.set_seed(1)
    layer = NormalizedDense(400, dropout_rate=0.25)
    inputs = tf.ones([50, 1])
    layer(inputs)
    kernel, bias, gamma, beta = layer.variables
    for variable, value in ((kernel, 1.0), (bias, 0.0), (gamma, 1.0), (beta, 0.0)):
        variable.assign(tf.fill(variable.shape, value))
    # Kept units are 1 / (1 - 1/4), the others 0: normalized, they are above and below 0.
    one, other = (layer(inputs).numpy() > 0 for _ in range(2))
    assert np.mean(one) == pytest.approx(0.75, abs=5 * np.sqrt(0.25 * 0.75 / one.size))
    assert np.mean(one != other) == pytest.approx(2 * 0.25 * 0.75, abs=0.02)


def test_quantiles_have_an_axis_of_their_own():
    network = make(MlpCriticNetwork, num_quantiles=7)
    assert network((normal(5, 2), normal(5, 1)))[0].shape == [5, 7]
    assert network((normal(5, 6, 2), normal(5, 6, 1)))[0].shape == [5, 6, 7]


@pytest.mark.parametrize("ctor", [MlpCriticNetwork, recurrent_critic])
def test_shapes_for_steps_and_sequences(ctor):
    network = make(ctor)
    assert network((normal(5, 2), normal(5, 1)))[0].shape == [5]
    assert network((normal(5, 6, 2), normal(5, 6, 1)))[0].shape == [5, 6]


def test_a_recurrent_one_remembers_observations_but_not_actions():
    network = make(recurrent_critic)
    observations, actions = normal(1, 3, 2), normal(1, 3, 1, seed=1)
    change = tf.constant([[[1.0], [0.0], [0.0]]])  # of the first step only
    q_values, state = network((observations, actions))
    other_action, same_state = network((observations, actions + change))
    other_observation, _ = network((observations + change, actions))
    assert abs(other_action[0, 0] - q_values[0, 0]) > 1e-3
    np.testing.assert_array_equal(other_action[0, 1:], q_values[0, 1:])
    np.testing.assert_array_equal(same_state, state)
    assert np.abs(other_observation[0, 1:] - q_values[0, 1:]).max() > 1e-4


NESTED = {"a": tf.TensorSpec([2], tf.float32), "b": tf.TensorSpec([1], tf.float32)}


@pytest.mark.parametrize("combiner", [None, tf.keras.layers.Concatenate()])
@pytest.mark.parametrize("ctor", [MlpCriticNetwork, recurrent_critic])
def test_nested_observations(ctor, combiner):
    network = make(ctor, observation_spec=NESTED, preprocessing_combiner=combiner)
    assert network(({"a": normal(5, 2), "b": normal(5, 1)}, normal(5, 1)))[0].shape == [5]
