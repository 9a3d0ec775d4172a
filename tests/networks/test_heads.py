import math

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.networks.action_heads import action_head
from tfagents_system.networks.box_head import LOG_STD_RANGE


def action_spec(low, high, shape=(2,), dtype=tf.float32):
    return tensor_spec.BoundedTensorSpec(shape, dtype, low, high, "action")


def test_center_and_magnitude_of_asymmetric_bounds():
    head = action_head(action_spec([-1, 2], [3, 3]))
    np.testing.assert_array_equal(head.center, [(3 - 1) / 2, (3 + 2) / 2])
    np.testing.assert_array_equal(head.magnitude, [(3 + 1) / 2, (3 - 2) / 2])
    assert (head.center.dtype, head.magnitude.dtype) == (np.float32, np.float32)


def test_scalar_bounds_hold_for_every_dimension():
    head = action_head(action_spec(-2, 4, shape=(3,)))
    assert (head.center.tolist(), head.magnitude.tolist()) == ([1, 1, 1], [3, 3, 3])
    assert head.default_target_entropy == -3


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (action_spec(0, 0, shape=(), dtype=tf.int64), r"is discrete, int64 \[\] from 0 to 0\."),
        (action_spec(0, 3, (2, 2), dtype=tf.int32), r"is discrete, int32 \[2, 2\] from 0 to 3\."),
        (action_spec(0, 2**31, (), tf.int64), r"is discrete, int64 \[\] from 0 to 2147483648\."),
        (tf.TensorSpec([], tf.int32), r"is discrete, int32 \[\] without bounds\."),
        (tf.TensorSpec([2], tf.float32), r"is float32 \[2\] without bounds\."),
        (action_spec(0, 1, shape=()), r"is float32 \[\] from 0\.0 to 1\.0\."),
        (action_spec(0, 1, shape=(2, 2)), r"is float32 \[2, 2\] from 0\.0 to 1\.0\."),
        ({}, r"is a nest, \{\}\."),
        ({"arm": action_spec(0, 0)}, r"is float32 \[2\] from 0\.0 to 0\.0\."),
        (action_spec([0, 1], [1, 1]), r"from \[0\.0, 1\.0\] to \[1\.0, 1\.0\]\."),
        (action_spec([0, -np.inf], [1, 1]), r"from \[0\.0, -inf\] to \[1\.0, 1\.0\]\."),
        (action_spec(tf.float32.min, tf.float32.max), r"from -3\.4\S+ to 3\.4\S+\."),
    ],
)
def test_action_that_sac_cannot_use_is_named_with_what_is_allowed(spec, message):
    allowed = r" Expected a Box: one floating point vector with finite bounds"
    with pytest.raises(ConfigError, match=message + allowed):
        action_head(spec)


@pytest.mark.parametrize("dtype", [tf.float16, tf.float64])
def test_an_action_of_another_precision_is_refused(dtype):
    arm = action_spec(-1, 1, dtype=dtype)
    for spec in (arm, {"arm": arm, "grip": action_spec(0, 1)}):
        with pytest.raises(ConfigError, match=rf"{dtype.name} \[2\]; expected float32"):
            action_head(spec)


def test_critics_take_actions_scaled_to_the_unit_box():
    action = tf.constant([[-1.0, 3.0], [1.0, 2.5]])
    scaled = action_head(action_spec([-1, 2], [3, 3])).critic_inputs(action)
    np.testing.assert_allclose(scaled, [[-1, 1], [(1 - 1) / 2, (2.5 - 2.5) / 0.5]])
    assert action_head(action_spec(-1, 1)).critic_inputs(action) is action


def test_log_probability_is_that_of_the_action_scaled_to_the_unit_box():
    outputs = tf.constant([[0.3, -0.2, 0.5, -1.0]])
    log_probs = []
    for low, high in ((-1, 1), ([-1, 2], [3, 2.5])):
        head = action_head(action_spec(low, high))
        tf.random.set_seed(1)
        actions, log_prob = head.sample(head.output_layer(is_deterministic=False).of(outputs))
        assert (head.low <= actions).numpy().all() and (actions <= head.high).numpy().all()
        log_probs.append(log_prob)
    np.testing.assert_allclose(log_probs[0], log_probs[1], rtol=1e-5)
    scaled = (actions - head.center) / head.magnitude
    u = np.arctanh(scaled)[0]
    expected = sum(
        -0.5 * ((u_i - loc) / math.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
        - math.log(1 - math.tanh(u_i) ** 2)
        for u_i, loc, log_std in zip(u, (0.3, -0.2), (0.5, -1.0), strict=True)
    )  # fmt: skip
    np.testing.assert_allclose(log_probs[1], [expected], rtol=1e-3)


def test_expectation_is_what_the_judge_gives_for_an_action_of_the_actor():
    tf.random.set_seed(1)
    head = action_head(action_spec(-1, 1))
    outputs = tf.constant([[0.3, -0.2, 0.5, -1.0]])
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        distribution = head.output_layer(is_deterministic=False).of(outputs)
        actions, log_prob = head.expectation(distribution, lambda actions: actions)
        value = tf.reduce_sum(3 * actions)
    assert (actions.shape, log_prob.shape) == ([1, 2], [1])
    u = np.arctanh(actions)
    by_loc, by_log_std = 3 * (1 - np.tanh(u) ** 2), 3 * (1 - np.tanh(u) ** 2) * (u - [0.3, -0.2])
    expected = np.concatenate([by_loc, by_log_std], axis=1)
    np.testing.assert_allclose(tape.gradient(value, outputs), expected, rtol=1e-4)


@pytest.mark.parametrize("is_deterministic", [False, True])
def test_numpy_head_does_what_the_layer_does(is_deterministic):
    head = action_head(action_spec([-1, 2], [3, 3]))
    layer, rng = head.output_layer(is_deterministic), np.random.default_rng(1)
    features = rng.normal(size=5).astype(np.float32)
    layer(features[np.newaxis])
    for variable in layer.projection.variables:
        variable.assign(rng.normal(size=variable.shape, scale=0.3))
    given = layer(features[np.newaxis])
    kernel, bias = (variable.numpy() for variable in layer.projection.variables)
    outputs, numpy_head = features @ kernel + bias, layer.numpy_head()
    assert numpy_head.num_noises == 2
    noise = np.float32([0.1, -0.5])
    if is_deterministic:
        greedy, perturbed = given[0], given[0] + head.magnitude * noise
        np.testing.assert_allclose(
            numpy_head.perturbed(outputs, noise), np.clip(perturbed, [-1, 2], 3), rtol=1e-5
        )
    else:
        greedy = given.mode()[0]
        loc, log_std = outputs[:2], outputs[2:]
        pre_tanh = loc + np.exp(log_std) * noise
        np.testing.assert_allclose(
            numpy_head.sample(outputs, noise), [1, 2.5] + np.tanh(pre_tanh) * [2, 0.5], rtol=1e-5
        )
    np.testing.assert_allclose(numpy_head.greedy(outputs), greedy, rtol=1e-5)
    arrays = numpy_head.arrays(kernel, bias)
    mean = np.tanh(features @ arrays["mean_kernel"] + arrays["mean_bias"])
    np.testing.assert_allclose(arrays["center"] + arrays["magnitude"] * mean, greedy, rtol=1e-5)
    assert (arrays["low"].tolist(), arrays["high"].tolist()) == ([-1, 2], [3, 3])


def test_standard_deviation_is_bounded_in_both():
    layer = action_head(action_spec(-1, 1)).output_layer(is_deterministic=False)
    outputs = np.float32([0, 0, -100, 100])
    np.testing.assert_array_equal(layer.of(outputs).parameters["log_std"], LOG_STD_RANGE)
    np.testing.assert_array_equal(layer.numpy_head().gaussian(outputs)[1], LOG_STD_RANGE)


@pytest.mark.parametrize(
    ("low", "high"), [([-1, 2], [5, 2.5]), ([0.1, -0.7], [0.3, 0.1]), ([1e-3, -1e4], [1e3, 0.3])]
)
def test_saturated_actions_do_not_leave_the_bounds_by_rounding(low, high):
    low, high = np.float32(low), np.float32(high)
    numpy_head = action_head(action_spec(low, high)).output_layer(False).numpy_head()
    for extreme in (-100, 100):
        action = numpy_head.greedy(np.full(4, extreme, np.float32))
        assert action.dtype == np.float32
        assert (low <= action).all() and (action <= high).all(), (low - action, action - high)
