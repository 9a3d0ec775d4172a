"""Adversarial imitation: losses against numbers computed by hand, and data that are told apart."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

from tfagents_system.core.settings.reward_signals import GailSettings
from tfagents_system.data.transition import Transition
from tfagents_system.networks.action_heads import action_head
from tfagents_system.rewards.encoder import SignalEncoder
from tfagents_system.rewards.gail import Gail

OBSERVATION = {
    "goal": tf.TensorSpec([1], tf.float32),
    "place": tf.TensorSpec([2], tf.float32),
}
ACTION = tensor_spec.BoundedTensorSpec([], tf.int64, 0, 1, "action")
GOALS, PLACES = np.float32([[0.5], [-1.0], [3.0]]), np.float32([[1, 2], [0, -1], [5, 5]])
ACTIONS, DISCOUNTS = np.int64([0, 1, 0]), np.float32([1, 0, 1])
STEP_TYPES = np.float32([1, 1, 2])  # the last row is padding


def transition(offset=0.0):
    zeros = np.zeros(3, np.float32)
    observation = {"goal": GOALS + np.float32(offset), "place": PLACES + np.float32(offset)}
    rows = Transition(STEP_TYPES, observation, ACTIONS, zeros, DISCOUNTS, observation)
    return tf.nest.map_structure(tf.constant, rows)


def make_gail(expert, spec=OBSERVATION, units=4, num_own=3, **settings):
    encoder = SignalEncoder(spec, units, "simple", None, "gail_encoder", num_layers=0)
    settings = GailSettings(encoding_size=units, **settings)
    signal = Gail(settings, encoder, action_head(ACTION), num_own)
    signal.imitate(lambda count: expert)
    return signal


def estimate(signal, x):
    """D in NumPy, float64."""
    for layer in [*signal.hidden_layers, signal.last_layer]:
        kernel, bias = (variable.numpy().astype(np.float64) for variable in layer.variables)
        x = x @ kernel + bias
        x = x / (1 + np.exp(-x)) if layer is not signal.last_layer else 1 / (1 + np.exp(-x))
    return x[..., 0]


@pytest.mark.parametrize("use_actions", [False, True])
def test_losses_and_rewards_by_hand(use_actions):
    batch = transition()
    signal = make_gail(expert=batch, use_actions=use_actions)  # so nothing lies between both
    x = np.concatenate([GOALS, PLACES], axis=1).astype(np.float64)
    if use_actions:
        x = np.concatenate([x, [[1, 0], [0, 1], [1, 0]], 1 - DISCOUNTS[:, np.newaxis]], axis=1)
    found = estimate(signal, x)
    np.testing.assert_allclose(signal.judged(batch), -np.log(1 - found), rtol=1e-4)
    small = 1e-6
    by_input = [
        (estimate(signal, x + small * unit) - estimate(signal, x - small * unit)) / (2 * small)
        for unit in np.eye(x.shape[1])
    ]
    norms = np.sqrt(np.square(by_input).sum(axis=0) + 1e-7)
    penalty = np.mean((norms[:2] - 1) ** 2)
    cross_entropy = -np.mean((np.log(found) + np.log(1 - found))[:2])
    loss, parts = signal.losses(batch)
    np.testing.assert_allclose(parts["gradient_penalty"], penalty, rtol=1e-3)
    np.testing.assert_allclose(parts["loss"], cross_entropy, rtol=1e-4)
    np.testing.assert_allclose(loss, cross_entropy + 10 * penalty, rtol=1e-3)
    np.testing.assert_allclose(parts["expert_estimate"], found[:2].mean(), rtol=1e-4)


def test_demonstrations_in_the_minibatch_do_not_count_as_the_policy_s():
    own, expert = transition(offset=1.0), transition()
    both = tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), own, expert)
    signal = make_gail(expert)
    (_, found), (_, expected) = signal.losses(both), signal.losses(own)
    for name in ("loss", "policy_estimate", "expert_estimate"):
        np.testing.assert_array_equal(found[name], expected[name])
    assert signal.judged(both).shape == [6]


def test_the_penalty_is_over_images_too():
    spec = {
        "image": tf.TensorSpec([20, 20, 1], tf.uint8),
        "place": tf.TensorSpec([2], tf.float32),
    }
    zeros = tf.zeros([3])
    observation = {"image": tf.fill([3, 20, 20, 1], tf.constant(51, tf.uint8)),
                   "place": tf.zeros([3, 2])}  # fmt: skip
    batch = Transition(zeros + 1, observation, tf.constant(ACTIONS), zeros, zeros, observation)
    signal = make_gail(batch, spec)
    image = tf.fill([3, 20, 20, 1], 51 / 255)
    with tf.GradientTape() as tape:
        inputs = {"image": image, "place": observation["place"]}
        tape.watch(inputs)
        d = signal._discriminate((inputs, tf.zeros([3, 0]))).estimate
    of_image, of_place = tf.nest.flatten(tape.gradient(d, inputs))
    norms = tf.sqrt(
        tf.reduce_sum(of_image**2, axis=[1, 2, 3]) + tf.reduce_sum(of_place**2, axis=1) + 1e-7
    )
    assert float(tf.reduce_max(abs(of_image))) > 0
    _, parts = signal.losses(batch)
    np.testing.assert_allclose(
        parts["gradient_penalty"], tf.reduce_mean((norms - 1) ** 2), rtol=1e-4
    )


def test_the_bottleneck_by_hand():
    expert, policy = transition(), transition(offset=1.0)
    signal = make_gail(expert, use_vail=True)
    signal.deviation.assign(np.full(128, 0.5, np.float32))
    means = []
    for batch in (expert, policy):
        (observation, others) = signal._inputs(batch)
        means.append(signal._discriminate((observation, others)).code.numpy())
    terms = 1 + np.log(0.25) - 0.5 * means[0] ** 2 - 0.5 * means[1] ** 2 - 0.25
    information = np.mean(-terms[:2].sum(axis=1))
    signal.beta.assign(2.0)
    loss, parts = signal.losses(policy)
    np.testing.assert_allclose(parts["information"], information, rtol=1e-4)
    expected = parts["loss"] + 10 * parts["gradient_penalty"] + 2 * (information - 0.5)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    signal.train(policy)
    np.testing.assert_allclose(signal.beta, 2 + 5e-4 * (information - 0.5), rtol=1e-5)
    signal.beta.assign(0.0)
    signal.deviation.assign(tf.ones([128]))
    for variable in signal.code_layer.variables:
        variable.assign(tf.zeros_like(variable))  # so the code has no information
    signal.train(policy)
    np.testing.assert_allclose(signal.beta, 1e-7)


def told_apart(**settings):
    """The noiseless estimates of expert and policy after training on data that lie apart."""
    rng = np.random.default_rng(1)

    def batch(center):
        places = (center + 0.1 * rng.standard_normal([16, 2])).astype(np.float32)
        observation = {"goal": tf.zeros([16, 1]), "place": tf.constant(places)}
        actions = tf.constant(rng.integers(0, 2, 16))
        ones = tf.ones([16])
        return Transition(ones, observation, actions, 0 * ones, ones, observation)

    expert, policy = batch(3.0), batch(-3.0)
    signal = make_gail(expert, units=16, num_own=16, learning_rate=0.005, **settings)
    np.testing.assert_array_equal(signal.reward(policy), np.zeros(16))
    if settings.get("use_vail"):
        signal.beta.assign(0.2)  # where its steps of 5e-4 lead in the end
    train = tf.function(signal.train)
    for _ in range(300):
        metrics = train(policy)
    rewards = (tf.reduce_mean(signal.reward(batch)) for batch in (expert, policy))
    return [1 - np.exp(-float(reward)) for reward in rewards], metrics


@pytest.mark.parametrize("use_actions", [False, True])
def test_data_that_lie_apart_are_told_apart(use_actions):
    (of_expert, of_policy), metrics = told_apart(use_actions=use_actions)
    assert of_expert > 0.8 and float(metrics["expert_estimate"]) > 0.8
    assert of_policy < 0.2 and float(metrics["policy_estimate"]) < 0.2


def test_a_bottleneck_knows_less_of_data_that_lie_apart():
    (of_expert, of_policy), metrics = told_apart(use_vail=True)
    assert 0.55 < of_expert < 0.8
    assert 0.2 < of_policy < 0.45
    assert float(metrics["information"]) < 1.0


def test_sequences_and_their_padding():
    batch = transition()
    signal = make_gail(batch)
    loss, parts = signal.losses(batch)
    sequences = tf.nest.map_structure(lambda leaf: tf.stack([leaf, leaf]), batch)
    signal.imitate(lambda count: sequences)
    _, of_sequences = signal.losses(sequences)
    for name, value in parts.items():
        np.testing.assert_allclose(of_sequences[name], value, rtol=1e-5)
    assert signal.judged(sequences).shape == [2, 3]


@pytest.mark.parametrize("use_vail", [False, True])
def test_padding_counts_nowhere(use_vail):
    batch = transition()
    signal = make_gail(batch, use_vail=use_vail)
    if use_vail:
        signal.deviation.assign(tf.zeros([128]))  # no noise
    step_type = tf.constant([[1.0, 1.0, 2.0], [1.0, 2.0, 2.0]])[:, : batch.step_type.shape[0]]
    sequences = tf.nest.map_structure(lambda leaf: tf.stack([leaf, leaf]), batch)
    sequences = sequences._replace(step_type=step_type)
    signal.imitate(lambda count: sequences)
    tf.random.set_seed(1)
    _, expected = signal.losses(sequences)
    far = tf.nest.map_structure(
        lambda leaf: tf.where(
            tf.reshape(step_type == 2.0, [*step_type.shape, *[1] * (leaf.shape.rank - 2)]),
            tf.cast(7, leaf.dtype), leaf,
        ),
        sequences.observation,
    )  # fmt: skip
    other = sequences._replace(observation=far)
    signal.imitate(lambda count: other)
    tf.random.set_seed(1)
    _, parts = signal.losses(other)
    for name, value in expected.items():
        np.testing.assert_allclose(parts[name], value, rtol=1e-5, err_msg=name)
