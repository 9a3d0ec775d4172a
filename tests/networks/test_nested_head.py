"""Actions of several kinds at once: values and log-probabilities by hand, and in NumPy."""

import math

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.networks.action_heads import action_head
from tfagents_system.policies.numpy_layers import greedy_action

ARM = tensor_spec.BoundedTensorSpec([2], tf.float32, [-1, 0], [1, 4], "arm")
GRIP = tensor_spec.BoundedTensorSpec([], tf.int64, 1, 2, "grip")
TOOLS = tensor_spec.BoundedTensorSpec([2], tf.int32, [0, 0], [2, 1], "tools")
SPEC = {"grip": GRIP, "arm": ARM, "tools": TOOLS}  # sorted by names: arm, grip, tools
BOXES = (ARM, tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1, "wheel"))
OUTPUTS = np.float32([[0.3, -0.2, 0.5, -1.0] + [0.2, 1.0] + [0.1, 0.2, -0.4] + [0.7, 0.0]])


def log_softmax(logits):
    return logits - math.log(np.exp(logits).sum())


LOG_PROBS = [log_softmax(OUTPUTS[0, a:b]) for a, b in ((4, 6), (6, 9), (9, 11))]


def distribution_of(spec, outputs=OUTPUTS):
    return action_head(spec).output_layer(is_deterministic=False).of(tf.constant(outputs))


def test_parts_are_the_boxes_and_each_branch():
    head = action_head(SPEC)
    assert head.num_values == 2 + 3 + 2
    np.testing.assert_allclose(head.part_weights, [1, 1 / 3, 1 / 3, 1 / 3])
    of_branches = [0.2 * math.log(n) / 3 for n in (2, 3, 2)]
    np.testing.assert_allclose(head.default_target_entropy, [-2, *of_branches], rtol=1e-6)
    both = action_head(BOXES)
    assert (both.num_values, both.part_weights, both.default_target_entropy) == (1, 1, -(2 + 1))
    choices = action_head({"grip": GRIP, "tools": TOOLS})
    np.testing.assert_allclose(choices.part_weights, [1 / 3] * 3)
    assert action_head({"grip": GRIP}).part_weights == 1  # a single part, as without the dict


def test_temperatures_of_both_kinds_are_metrics_where_there_are_both():
    alpha = tf.constant([0.5, 0.1, 0.2, 0.6])  # of the boxes, and of three branches
    metrics = {name: float(value) for name, value in action_head(SPEC).alpha_metrics(alpha).items()}
    assert metrics == pytest.approx({
        "alpha": (0.5 + 0.1 + 0.2 + 0.6) / 4,
        "continuous_alpha": 0.5,
        "discrete_alpha": (0.1 + 0.2 + 0.6) / 3,
    })  # fmt: skip
    assert set(action_head(BOXES).alpha_metrics(tf.constant(0.5))) == {"alpha"}


def test_value_is_exact_over_integers_given_the_actions_of_the_boxes():
    head, of_integers = action_head(SPEC), np.float32([1, 2, 10, 20, 30, 5, 7])
    seen = []

    def judge(actions):
        seen.append(actions)
        return tf.reduce_sum(actions["arm"], axis=-1, keepdims=True) * of_integers

    with tf.GradientTape() as tape:
        outputs = tf.Variable(OUTPUTS)
        value, log_prob = head.expectation(
            head.output_layer(is_deterministic=False).of(outputs), judge
        )
    (actions,) = seen
    tf.nest.assert_same_structure(actions, SPEC)
    total = float(tf.reduce_sum(actions["arm"]))
    of_branches = [1, 2], [10, 20, 30], [5, 7]
    means = [np.exp(lp) @ q for lp, q in zip(LOG_PROBS, of_branches, strict=True)]
    np.testing.assert_allclose(value, [total * sum(means) / 3], rtol=1e-5)
    of_arm = action_head(ARM)
    scaled = (actions["arm"][0] - of_arm.center) / of_arm.magnitude
    u = np.arctanh(scaled)
    of_arm = sum(
        -0.5 * ((u_i - loc) / math.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
        - math.log(1 - math.tanh(u_i) ** 2)
        for u_i, loc, log_std in zip(u, (0.3, -0.2), (0.5, -1.0), strict=True)
    )  # fmt: skip
    entropies = [-np.exp(lp) @ lp for lp in LOG_PROBS]
    np.testing.assert_allclose(log_prob, [[of_arm, *np.divide(entropies, -3)]], rtol=1e-3)
    # The arm's gradient is that of its action; a logit's p_a (q_a - mean) / 3 of its branch.
    gradient = tape.gradient(value, outputs).numpy()[0]
    by_loc = (1 - np.tanh(u) ** 2) * [1, 2] * sum(means) / 3
    np.testing.assert_allclose(gradient[:2], by_loc, rtol=1e-3)
    by_grip = np.exp(LOG_PROBS[0]) * ([1, 2] - means[0]) * total / 3
    np.testing.assert_allclose(gradient[4:6], by_grip, rtol=1e-4)


def test_value_of_an_action_and_inputs_of_critics():
    head = action_head(SPEC)
    action = {"arm": tf.constant([[0.5, 3.0]]), "grip": tf.constant([2], tf.int64),
              "tools": tf.constant([[2, 0]])}  # fmt: skip
    np.testing.assert_allclose(head.critic_inputs(action), [[0.5, (3 - 2) / 2]])
    values = tf.constant([[1.0, 2.0, 10.0, 20.0, 30.0, 5.0, 7.0]])
    np.testing.assert_allclose(head.taken(values, action), [(2 + 30 + 5) / 3])
    boxes = action_head(BOXES)
    pair = (tf.constant([[0.5, 3.0]]), tf.constant([[-0.25]]))
    np.testing.assert_allclose(boxes.critic_inputs(pair), [[0.5, (3 - 2) / 2, -0.25]])
    np.testing.assert_allclose(boxes.taken(tf.constant([4.0]), pair), [4])


def test_log_probabilities_of_samples_are_those_of_the_parts():
    head = action_head(SPEC)
    tf.random.set_seed(1)
    actions, log_prob = head.sample(distribution_of(SPEC, np.repeat(OUTPUTS, 5, axis=0)))
    assert log_prob.shape == [5, 4]
    for row in range(5):
        chosen = [int(actions["grip"][row]) - 1, *actions["tools"][row].numpy()]
        expected = [lp[number] / 3 for lp, number in zip(LOG_PROBS, chosen, strict=True)]
        np.testing.assert_allclose(log_prob[row, 1:], expected, rtol=1e-5)
    actions, log_prob = action_head(BOXES).sample(distribution_of(BOXES, OUTPUTS[:, :6]))
    assert log_prob.shape == [1]


def test_numpy_acts_as_tensorflow():
    layer = action_head(SPEC).output_layer(is_deterministic=False)
    numpy_head = layer.numpy_head()
    greedy = tf.nest.map_structure(lambda d: d.mode()[0].numpy(), distribution_of(SPEC))
    found = numpy_head.greedy(OUTPUTS[0])
    np.testing.assert_allclose(found["arm"], greedy["arm"], rtol=1e-5)
    assert (found["grip"], found["tools"].tolist()) == (2, [1, 0])
    assert (greedy["grip"], greedy["tools"].tolist()) == (2, [1, 0])
    assert {name: value.dtype for name, value in found.items()} == {
        name: spec.dtype.as_numpy_dtype for name, spec in SPEC.items()
    }
    kernel, bias = np.eye(11, dtype=np.float32), np.zeros(11, np.float32)
    exported = greedy_action(numpy_head.arrays(kernel, bias), OUTPUTS[0])
    np.testing.assert_allclose(exported["arm"], greedy["arm"], rtol=1e-5)
    assert (exported["grip"], exported["tools"].tolist()) == (2, [1, 0])


def test_the_last_noises_choose_the_integers():
    numpy_head = action_head(SPEC).output_layer(is_deterministic=False).numpy_head()
    assert (numpy_head.num_noises, numpy_head.num_choices) == (2 + 3, 3)
    noise = np.float32([0.4, -0.6, 9, -9, 9])  # the last and first of each branch
    action = numpy_head.sample(OUTPUTS[0], noise)
    pre_tanh = np.float32([0.3 + math.exp(0.5) * 0.4, -0.2 - math.exp(-1) * 0.6])
    np.testing.assert_allclose(action["arm"], [0, 2] + np.tanh(pre_tanh) * [1, 2], rtol=1e-5)
    assert (action["grip"], action["tools"].tolist()) == (2, [0, 1])


MASK = np.int8([0, 1, 1, 0, 0, 1, 0])  # of grip, and both tools


def test_a_forbidden_integer_has_no_probability_and_is_never_drawn():
    head, num = action_head(SPEC), 10_000
    tf.random.set_seed(1)
    mask = tf.constant(np.repeat(MASK[np.newaxis], num, axis=0))
    masked = head.masked(distribution_of(SPEC, np.repeat(OUTPUTS, num, axis=0)), mask)
    assert tf.exp(masked["grip"].log_probs())[0].numpy().tolist() == [0, 1]
    actions = tf.nest.map_structure(lambda d: d.sample().numpy(), masked)
    assert set(actions["grip"]) == {2} and set(map(tuple, actions["tools"])) == {(0, 0)}
    numpy_head = head.output_layer(is_deterministic=False).numpy_head()
    outputs = numpy_head.masked(OUTPUTS[0], MASK)
    np.testing.assert_array_equal(outputs[:4], OUTPUTS[0, :4])
    noise = np.random.default_rng(1).normal(size=(num, 5)).astype(np.float32)
    noise[0, 2:], noise[1, 2:] = 40, -40  # whose distribution function is exactly 1, and 0
    for one in noise:
        action = numpy_head.sample(outputs, one)
        assert (action["grip"], action["tools"].tolist()) == (2, [0, 0])
    assert numpy_head.greedy(outputs)["tools"].tolist() == [0, 0]


def test_gradients_are_finite_with_all_but_one_integer_forbidden():
    head, of_integers = action_head(SPEC), tf.constant([[1.0, 2, 10, 20, 30, 5, 7]])
    with tf.GradientTape() as tape:
        outputs = tf.Variable(OUTPUTS)
        distribution = head.output_layer(is_deterministic=False).of(outputs)
        masked = head.masked(distribution, tf.constant(MASK[np.newaxis]))
        value, log_prob = head.expectation(masked, lambda _: of_integers)
        loss = value - tf.reduce_sum(log_prob)
    np.testing.assert_allclose(value, [(2 + 10 + 5) / 3], rtol=1e-6)
    np.testing.assert_allclose(log_prob[0, 1:], [0, 0, 0], atol=1e-6)
    gradient = tape.gradient(loss, outputs).numpy()[0]
    assert np.isfinite(gradient).all() and (gradient[4:] == 0).all() and gradient[:4].any()


def test_no_deterministic_actor_has_a_discrete_leaf():
    with pytest.raises(ConfigError, match="deterministic actor has no discrete actions"):
        action_head(SPEC).output_layer(is_deterministic=True)
