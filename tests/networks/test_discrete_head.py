"""Discrete actions: values, log-probabilities and samples by hand, in TensorFlow and NumPy."""

import math

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.networks.action_heads import action_head
from tfagents_system.policies.numpy_layers import greedy_action

ONE = tensor_spec.BoundedTensorSpec([], tf.int64, -1, 1, "action")  # -1, 0 or 1
TWO = tensor_spec.BoundedTensorSpec([2], tf.int32, [0, 5], [1, 7], "action")
LOGITS = np.log([[0.2, 0.8, 0.5, 0.25, 0.25]]).astype(np.float32)  # branches of 2 and of 3


def distribution_of(spec, logits):
    return action_head(spec).output_layer(is_deterministic=False).of(tf.constant(logits))


def test_target_entropy_is_a_fifth_of_the_largest():
    spec = tensor_spec.BoundedTensorSpec([4], tf.int32, 0, [2, 2, 2, 1])
    of_branches = [0.2 * math.log(n) for n in (3, 3, 3, 2)]
    np.testing.assert_allclose(of_branches, [0.219722, 0.219722, 0.219722, 0.138629], atol=1e-6)
    head = action_head(spec)
    # Each branch has its own, and counts by a quarter, as its log-probabilities do.
    np.testing.assert_allclose(head.default_target_entropy, np.divide(of_branches, 4), rtol=1e-6)
    np.testing.assert_allclose(head.part_weights, [1 / 4] * 4)
    assert head.num_values == 3 + 3 + 3 + 2


def test_value_of_an_action_is_the_mean_of_its_branches():
    values = tf.constant([[1.0, 2.0, 10.0, 20.0, 30.0], [1.0, 2.0, 10.0, 20.0, 30.0]])
    taken = action_head(TWO).taken(values, tf.constant([[1, 5], [0, 7]]))
    np.testing.assert_allclose(taken, [(2 + 10) / 2, (1 + 30) / 2])
    taken = action_head(ONE).taken(values[:, :3], tf.constant([-1, 1], tf.int64))
    np.testing.assert_allclose(taken, [1, 10])


def test_expectation_is_exact_and_its_gradient_reaches_the_logits():
    head = action_head(TWO)
    q_values = tf.constant([[1.0, 2.0, 10.0, 20.0, 30.0]])
    with tf.GradientTape() as tape:
        logits = tf.Variable(LOGITS)
        distribution = head.output_layer(is_deterministic=False).of(logits)
        q_value, log_prob = head.expectation(distribution, lambda _: q_values)
    first, second = 0.2 * 1 + 0.8 * 2, 0.5 * 10 + 0.25 * 20 + 0.25 * 30
    np.testing.assert_allclose(q_value, [(first + second) / 2], rtol=1e-6)
    entropies = [-sum(p * math.log(p) for p in ps) for ps in ((0.2, 0.8), (0.5, 0.25, 0.25))]
    np.testing.assert_allclose(log_prob, [np.divide(entropies, -2)], rtol=1e-6)
    # d/dz_a sum_b p_b q_b = p_a (q_a - mean)
    expected = [0.2 * (1 - first), 0.8 * (2 - first)]
    expected += [0.5 * (10 - second), 0.25 * (20 - second), 0.25 * (30 - second)]
    np.testing.assert_allclose(tape.gradient(q_value, logits), [np.divide(expected, 2)], rtol=1e-5)


def test_critics_do_not_see_actions():
    assert action_head(TWO).critic_inputs(tf.zeros([3, 4, 2], tf.int32)).shape == [3, 4, 0]
    assert action_head(ONE).critic_inputs(tf.zeros([3], tf.int64)).shape == [3, 0]


@pytest.mark.parametrize(("spec", "logits"), [(TWO, LOGITS), (ONE, LOGITS[:, 2:])])
def test_samples_have_the_probabilities_and_log_probabilities_of_the_logits(spec, logits):
    head, num = action_head(spec), 4000
    tf.random.set_seed(1)
    distribution = distribution_of(spec, np.repeat(logits, num, axis=0))
    actions, log_prob = head.sample(distribution)
    assert (actions.dtype, actions.shape) == (spec.dtype, [num, *spec.shape])
    numpy_head = head.output_layer(is_deterministic=False).numpy_head()
    noise = np.random.default_rng(1).normal(size=(num, head.num_branches)).astype(np.float32)
    drawn = np.stack([numpy_head.sample(logits[0], one) for one in noise])
    assert drawn.dtype == spec.dtype.as_numpy_dtype
    probabilities = [np.exp(b) for b in np.split(logits[0], np.cumsum(head.sizes)[:-1])]
    for some in (actions.numpy(), drawn):
        numbers = some.reshape(num, -1) - head.start
        for branch, expected in enumerate(probabilities):
            shares = np.bincount(numbers[:, branch], minlength=len(expected)) / num
            np.testing.assert_allclose(shares, expected, atol=4 * 0.5 / math.sqrt(num))
    numbers = actions.numpy().reshape(num, -1) - head.start
    of_branches = [np.log(p)[numbers[:, k]] for k, p in enumerate(probabilities)]
    np.testing.assert_allclose(
        np.reshape(log_prob, [num, -1]).sum(axis=1), np.mean(of_branches, axis=0), rtol=1e-5
    )


@pytest.mark.parametrize(("spec", "size", "best"), [(TWO, 5, [1, 5]), (ONE, 3, 0)])
def test_greedy_action_is_the_most_probable_one_everywhere(spec, size, best):
    logits = np.float32([0.1, 0.9, 3.0, 2.0, -1.0])[:size] if size == 5 else np.float32([1, 2, 0])
    head = action_head(spec)
    layer = head.output_layer(is_deterministic=False)
    assert layer.of(tf.constant(logits[np.newaxis])).mode().numpy()[0].tolist() == best
    numpy_head = layer.numpy_head()
    assert numpy_head.greedy(logits).tolist() == best
    kernel, bias = np.eye(size, dtype=np.float32), np.zeros(size, np.float32)
    action = greedy_action(numpy_head.arrays(kernel, bias), logits)
    assert (action.tolist(), action.dtype) == (best, spec.dtype.as_numpy_dtype)


def test_no_deterministic_actor_has_discrete_actions():
    with pytest.raises(ConfigError, match="deterministic actor has no discrete actions"):
        action_head(ONE).output_layer(is_deterministic=True)
