"""Curiosity and random network distillation, against numbers computed by hand."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

from tfagents_system.core.settings.reward_signals import CuriositySettings, RndSettings
from tfagents_system.data.transition import Transition
from tfagents_system.networks.action_heads import action_head
from tfagents_system.rewards.curiosity import Curiosity
from tfagents_system.rewards.encoder import SignalEncoder
from tfagents_system.rewards.rnd import Rnd

OBSERVATION = tf.TensorSpec([2], tf.float32, "observation")
BOX = tensor_spec.BoundedTensorSpec([1], tf.float32, -2.0, 2.0, "action")
BRANCHES = tensor_spec.BoundedTensorSpec([2], tf.int64, [0, 1], [1, 3], "action")
STATES = np.float32([[0.5, -1.0], [2.0, 0.25], [1.0, 1.0]])
NEXT_STATES = np.float32([[1.0, 0.0], [-0.5, 0.75], [9.0, 9.0]])
PADDING = np.float32([1, 1, 2])  # the last row is none
ACTIONS = {
    "box": (BOX, np.float32([[1.0], [-2.0], [0.0]])),
    "branches": (BRANCHES, np.int64([[1, 3], [0, 1], [0, 2]])),
}


def transition(action):
    zeros = np.zeros(3, np.float32)
    rows = Transition(PADDING, STATES, action, zeros, zeros, NEXT_STATES)
    return tf.nest.map_structure(tf.constant, rows)


def encoder(name, units=3):
    return SignalEncoder(OBSERVATION, units, "simple", None, name)


def swish(x):
    return x / (1 + np.exp(-x))


def through(layers, x):
    """Dense layers in NumPy; all but the last linear one of a model have swish."""
    for layer in layers:
        kernel, bias = (variable.numpy() for variable in layer.variables)
        x = x @ kernel + bias
        if layer.activation.__name__ == "swish":
            x = swish(x)
    return x


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.mark.parametrize("kind", ACTIONS)
def test_curiosity_by_hand(kind):
    spec, action = ACTIONS[kind]
    settings = CuriositySettings(strength=0.01, encoding_size=3)
    signal = Curiosity(settings, encoder("phi"), action_head(spec))
    phi, next_phi = (through(signal.encoder.vector_layers[1:], s) for s in (STATES, NEXT_STATES))
    if kind == "box":
        vector = action / 2  # scaled to [-1, 1]
    else:  # 2 and 3 integers, which begin at 0 and 1
        vector = np.float32([[0, 1, 0, 0, 1], [1, 0, 1, 0, 0], [1, 0, 0, 1, 0]])
    predicted = through(signal.forward_model, np.concatenate([phi, vector], axis=1))
    errors = 0.5 * ((predicted - next_phi) ** 2).sum(-1)
    guessed = through(signal.inverse_model, np.concatenate([phi, next_phi], axis=1))
    if kind == "box":
        of_actions = ((guessed - vector) ** 2).sum(-1)
    else:
        log_probs = np.concatenate([log_softmax(guessed[:, :2]), log_softmax(guessed[:, 2:])], 1)
        of_actions = -(vector * log_probs).sum(-1)
    batch = transition(action)
    np.testing.assert_allclose(signal.judged(batch), np.minimum(errors, 1 / 0.01), rtol=1e-4)
    loss, parts = signal.losses(batch)
    forward, inverse = errors[:2].mean(), of_actions[:2].mean()
    np.testing.assert_allclose(parts["forward_loss"], forward, rtol=1e-4)
    np.testing.assert_allclose(parts["inverse_loss"], inverse, rtol=1e-4)
    np.testing.assert_allclose(loss, 10 * (0.2 * forward + 0.8 * inverse), rtol=1e-4)


def test_scaled_curiosity_is_at_most_1():
    signal = Curiosity(CuriositySettings(strength=4.0), encoder("phi", 8), action_head(BOX))
    batch = transition(ACTIONS["box"][1])
    far = batch._replace(next_observation=1e3 * batch.next_observation)
    signal.train(far)
    reward = signal.reward(far)
    np.testing.assert_allclose(signal.strength * reward, 1)
    assert (signal.strength * signal.reward(batch)).numpy().max() <= 1


def test_random_network_distillation_by_hand():
    signal = Rnd(RndSettings(encoding_size=3), encoder("predictor"), encoder("target"))
    predicted, wanted = (
        through(network.vector_layers[1:], NEXT_STATES)
        for network in (signal.predictor, signal.target)
    )
    expected = ((predicted - wanted) ** 2).sum(-1)
    batch = transition(ACTIONS["box"][1])
    np.testing.assert_allclose(signal.judged(batch), expected, rtol=1e-4)
    loss, parts = signal.losses(batch)
    np.testing.assert_allclose(loss, expected[:2].mean(), rtol=1e-4)
    assert parts == {"loss": loss}


def make_curiosity():
    return Curiosity(CuriositySettings(learning_rate=0.01), encoder("phi"), action_head(BOX))


def make_rnd():
    return Rnd(RndSettings(learning_rate=0.01), encoder("predictor"), encoder("target"))


@pytest.mark.parametrize("make_signal", [make_curiosity, make_rnd])
def test_nothing_is_paid_before_the_first_update_and_what_is_known_pays_less(make_signal):
    signal, batch = make_signal(), transition(ACTIONS["box"][1])
    np.testing.assert_array_equal(signal.reward(batch), [0, 0, 0])
    train = tf.function(signal.train)
    train(batch)
    first = signal.reward(batch)
    assert (first.numpy() > 0).all()
    for _ in range(200):
        train(batch)
    assert (signal.reward(batch).numpy()[:2] < 0.1 * first.numpy()[:2]).all()


def test_a_random_network_stays_as_it_is():
    signal, batch = make_rnd(), transition(ACTIONS["box"][1])
    before = [variable.numpy() for variable in signal.target.variables]
    signal.train(batch)
    for variable, value in zip(signal.target.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_an_encoder_has_features_of_each_image_and_of_all_other_parts():
    spec = {
        "camera": tf.TensorSpec([24, 24, 3], tf.uint8),
        "joints": tf.TensorSpec([2], tf.float32),
        "side": tf.TensorSpec([30, 20, 1], tf.uint8),
        "weight": tf.TensorSpec([], tf.float32),
    }
    parts = SignalEncoder(spec, 5, "simple", None, "parts")
    assert parts.num_features == 3 * 5
    for outer in ([2], [2, 4]):
        observation = {name: tf.ones([*outer, *s.shape], s.dtype) for name, s in spec.items()}
        assert parts(observation).shape == [*outer, 15]
    names = {variable.name for variable in parts.variables}
    assert {"parts_0/kernel:0", "parts_1/kernel:0", "parts_image_1/kernel:0"} <= names
