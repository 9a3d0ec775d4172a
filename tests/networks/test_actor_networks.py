import numpy as np
import pytest
import tensorflow as tf
from recurrent_fakes import recurrent_actor
from tf_agents.specs import tensor_spec

from tfagents_system.networks.actor_networks import MlpActorNetwork

OBSERVATION = tf.TensorSpec([2], tf.float32, "observation")
ACTION = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 5, "action")
FIRST, MID = 0, 1


def make(ctor, fc_layer_params=(4,), observation_spec=OBSERVATION, **kwargs):
    network = ctor(observation_spec, ACTION, fc_layer_params=fc_layer_params, **kwargs)
    network.create_variables()
    rng = np.random.default_rng(0)
    for variable in network.variables:
        variable.assign(rng.normal(size=variable.shape))
    return network


def parameters(distribution):
    return distribution.parameters["loc"].numpy(), distribution.parameters["log_std"].numpy()


def test_mlp_by_hand():
    network = make(MlpActorNetwork, fc_layer_params=(2,))
    hidden_kernel, hidden_bias = [[1.0, -1.0], [0.0, 2.0]], [0.5, 0.0]
    head_kernel, head_bias = [[2.0, 0.1], [3.0, 0.2]], [1.0, -1.0]
    weights = [hidden_kernel, hidden_bias, head_kernel, head_bias]
    for variable, value in zip(network.variables, weights, strict=True):
        variable.assign(value)
    distribution, state = network(tf.constant([[1.0, 1.0], [3.0, 1.0]]))
    # Hidden: relu(x + 0.5), relu(-x + 2 y): rows (1.5, 1), (3.5, 0).
    loc, log_std = parameters(distribution)
    np.testing.assert_allclose(loc, [[2 * 1.5 + 3 * 1 + 1], [2 * 3.5 + 3 * 0 + 1]], rtol=1e-6)
    np.testing.assert_allclose(log_std, [[0.1 * 1.5 + 0.2 * 1 - 1], [0.1 * 3.5 - 1]], rtol=1e-5)
    np.testing.assert_allclose(distribution.mode(), 2 + 3 * np.tanh(loc), rtol=1e-6)
    assert state == ()


@pytest.mark.parametrize(("bias", "log_std"), [(-50.0, -20.0), (50.0, 2.0)])
def test_log_std_stays_in_its_range(bias, log_std):
    network = make(MlpActorNetwork, fc_layer_params=())
    network.variables[1].assign([0.0, bias])
    distribution, _ = network(tf.zeros([1, 2]))
    np.testing.assert_array_equal(distribution.parameters["log_std"], [[log_std]])


@pytest.mark.parametrize("ctor", [MlpActorNetwork, recurrent_actor])
def test_samples_stay_in_the_bounds(ctor):
    network = make(ctor)
    observation = tf.random.stateless_normal([100, 2], (0, 1)) * 10
    actions = network(observation)[0].sample(10, seed=(2, 3)).numpy()
    assert -1 <= actions.min() < 0
    assert 4 < actions.max() <= 5


def test_recurrent_action_depends_on_earlier_observations():
    network = make(recurrent_actor)
    observations = tf.random.stateless_normal([1, 2, 2], (0, 1))
    changed = tf.concat([observations[:, :1] + 1, observations[:, 1:]], axis=1)
    before, after = (parameters(network(x)[0])[0][0, 1] for x in (observations, changed))
    assert np.abs(before - after).max() > 1e-3


NESTED = {"a": tf.TensorSpec([2], tf.float32), "b": tf.TensorSpec([1], tf.float32)}


@pytest.mark.parametrize("combiner", [None, tf.keras.layers.Concatenate()])
@pytest.mark.parametrize("ctor", [MlpActorNetwork, recurrent_actor])
def test_nested_observations(ctor, combiner):
    network = make(ctor, observation_spec=NESTED, preprocessing_combiner=combiner)
    distribution, _ = network({"a": tf.zeros([5, 2]), "b": tf.zeros([5, 1])})
    assert distribution.mode().shape == [5, 1]


@pytest.mark.parametrize("ctor", [MlpActorNetwork, recurrent_actor])
def test_copy_has_variables_of_its_own(ctor):
    network = make(ctor)
    copy = network.copy(name="copy")
    copy.create_variables()
    assert [v.shape for v in copy.variables] == [v.shape for v in network.variables]
    assert not {v.ref() for v in copy.variables} & {v.ref() for v in network.variables}
