"""Recurrent layers against their cells computed by hand, one step at a time."""

import numpy as np
import pytest
import tensorflow as tf

from tfagents_system.networks.summarizers import RecurrentSummarizer
from tfagents_system.policies.numpy_layers import read_layers, run_layers, zero_states

OBSERVATION = tf.TensorSpec([2], tf.float32, "observation")
UNITS, FIRST, MID = 3, 0, 1
FEATURES = np.random.default_rng(1).normal(size=(2, 4, 2)).astype(np.float32)  # [B, T, n]
KINDS = ["lstm", "gru", "rnn"]


def make(rnn_type, num_layers=1, seed=0, **kwargs):
    network = RecurrentSummarizer(OBSERVATION, rnn_type, UNITS, num_layers, **kwargs)
    network.create_variables()
    rng = np.random.default_rng(seed)
    for variable in network.variables:
        variable.assign(rng.normal(size=variable.shape))
    return network


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step_by_hand(rnn_type, cell, x, state):
    """Returns the next state, the output first, in float64."""
    w, u, b = (np.float64(v) for v in (cell.kernel, cell.recurrent_kernel, cell.bias))
    h = state[0]
    if rnn_type == "rnn":
        return [np.tanh(x @ w + h @ u + b)]
    if rnn_type == "gru":
        (wz, wr, wn), (uz, ur, un), (bz, br, bn) = (np.split(m, 3, axis=-1) for m in (w, u, b))
        z, r = sigmoid(x @ wz + h @ uz + bz), sigmoid(x @ wr + h @ ur + br)
        return [z * h + (1 - z) * np.tanh(x @ wn + (r * h) @ un + bn)]
    i, f, g, o = np.split(x @ w + h @ u + b, 4, axis=-1)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(c), c]


def sequence_by_hand(network, features, states):
    """Returns outputs [B, T, units] and the last states of all layers."""
    outputs = []
    for t in range(features.shape[1]):
        x = features[:, t]
        for layer, cell in enumerate(network.cells):
            states[layer] = step_by_hand(network.rnn_type, cell, x, states[layer])
            x = states[layer][0]
        outputs.append(x)
    return np.stack(outputs, axis=1), [part for state in states for part in state]


def zeros_for(network):
    num_parts = 2 if network.rnn_type == "lstm" else 1
    return [[np.zeros((2, UNITS))] * num_parts for _ in network.cells]


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("rnn_type", KINDS)
def test_a_sequence_equals_the_cells_unrolled_by_hand(rnn_type, num_layers):
    network = make(rnn_type, num_layers)
    run = tf.function(network, autograph=False)
    outputs, last = run(tf.constant(FEATURES), step_type=tf.constant([[FIRST] + [MID] * 3] * 2))
    expected, states = sequence_by_hand(network, FEATURES, zeros_for(network))
    np.testing.assert_allclose(outputs, expected, atol=1e-6)
    np.testing.assert_allclose(last, states, atol=1e-6)
    assert [spec.shape.as_list() for spec in network.state_spec] == [[UNITS]] * len(states)
    assert network.features_spec.shape == outputs.shape[2:]


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("rnn_type", KINDS)
def test_single_steps_with_the_state_passed_on_equal_the_sequence(rnn_type, num_layers):
    network = make(rnn_type, num_layers)
    sequence, last = network(tf.constant(FEATURES))
    state = ()
    for t in range(4):
        output, state = network(tf.constant(FEATURES[:, t]), tf.constant([MID, MID]), state)
        np.testing.assert_allclose(output, sequence[:, t], atol=1e-6)
    np.testing.assert_allclose(state, last, atol=1e-6)


@pytest.mark.parametrize("is_sequence", [False, True])
@pytest.mark.parametrize("rnn_type", KINDS)
def test_a_given_state_is_dropped_at_a_first_step_of_that_row_only(rnn_type, is_sequence):
    network = make(rnn_type)
    state = [tf.ones([2, UNITS]) for _ in network.state_spec]
    features, step_type = tf.constant(FEATURES[:, 0]), tf.constant([FIRST, MID])
    if is_sequence:
        features, step_type = features[:, tf.newaxis], step_type[:, tf.newaxis]
    output, _ = network(features, step_type, state)
    for row, value in enumerate([0.0, 1.0]):
        start = [np.full(UNITS, value) for _ in state]
        expected = step_by_hand(rnn_type, network.cells[0], FEATURES[row, 0], start)[0]
        np.testing.assert_allclose(tf.reshape(output[row], [UNITS]), expected, atol=1e-6)


@pytest.mark.parametrize("rnn_type", KINDS)
def test_gradients_of_a_sequence_equal_those_of_its_steps(rnn_type):
    network = make(rnn_type, num_layers=2)
    gradients = []
    for is_sequence in (True, False):
        with tf.GradientTape() as tape:
            if is_sequence:
                outputs, _ = network(tf.constant(FEATURES))
            else:
                steps, state = [], ()
                for t in range(4):
                    output, state = network(tf.constant(FEATURES[:, t]), None, state)
                    steps.append(output)
                outputs = tf.stack(steps, axis=1)
            loss = tf.reduce_sum(outputs**2 * tf.constant([1.0, -2.0, 3.0]))
        gradients.append(tape.gradient(loss, network.trainable_variables))
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        assert np.abs(one).max() > 1e-3


@pytest.mark.parametrize("rnn_type", KINDS)
def test_no_gradient_flows_through_a_burn_in_but_that_at_the_begin_of_an_episode(rnn_type):
    step_type = tf.constant([[FIRST] + [MID] * 3, [MID] * 4])
    outputs, gradients = [], []
    for burn_in_len in (0, 3):
        network = make(rnn_type, num_layers=2, burn_in_len=burn_in_len)
        features = tf.constant(FEATURES)
        with tf.GradientTape() as tape:
            tape.watch(features)
            sequence, last = network(features, step_type)
            loss = tf.reduce_sum(sequence[:, 3:] ** 2)
        outputs.append([sequence, *last])
        gradients.append(tape.gradient(loss, features).numpy())
    for one, other in zip(*outputs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    through, stopped = gradients
    np.testing.assert_allclose(stopped[0], through[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(stopped[1, 3], through[1, 3], rtol=1e-4, atol=1e-6)
    assert np.abs(through[1, :3]).max() > 1e-3
    assert not stopped[1, :3].any()


@pytest.mark.parametrize("rnn_type", KINDS)
def test_numpy_steps_equal_the_network_with_the_state_carried(rnn_type):
    network = make(rnn_type, num_layers=2)
    arrays = {
        f"{rnn_type}_{part}_{layer}": getattr(cell, part).numpy()
        for layer, cell in enumerate(network.cells)
        for part in ("kernel", "recurrent_kernel", "bias")
    }
    layers = read_layers(arrays)
    expected, _ = network(tf.constant(FEATURES))
    states = zero_states(layers)
    for t in range(4):
        output, states = run_layers(layers, FEATURES[0, t], states)
        assert output.dtype == np.float32
        np.testing.assert_allclose(output, expected[0, t], atol=1e-6)


def test_no_layers_leave_the_input_as_it_is():
    assert read_layers({"hidden_kernel_0": np.zeros((2, 2))}) == []
    assert run_layers([], 5.0, zero_states([])) == (5.0, [])
