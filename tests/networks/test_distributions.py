import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_system.networks.distributions import SquashedGaussian

tfd, tfb = tfp.distributions, tfp.bijectors

LOC = np.float32([[0.3, -1.2], [0.0, 2.0]])
LOG_STD = np.float32([[-0.5, 0.4], [0.0, -1.0]])
CENTER = np.float32([1.0, -2.0])
MAGNITUDE = np.float32([3.0, 0.5])


def make(loc=LOC, log_std=LOG_STD, center=CENTER, magnitude=MAGNITUDE):
    return SquashedGaussian(loc, log_std, center, magnitude)


def reference():
    """The same distribution from the parts of TensorFlow Probability."""
    squash = tfb.Chain([tfb.Shift(CENTER), tfb.Scale(MAGNITUDE), tfb.Tanh()])
    normal = tfd.MultivariateNormalDiag(LOC, np.exp(LOG_STD))
    return tfd.TransformedDistribution(normal, squash)


def test_log_prob_by_hand():
    # At a = 1 + 3 tanh(0.3), u is at its mean: N(u) = 1 / (std sqrt(2 pi)), da/du = 3 (1 - tanh^2).
    action = 1 + 3 * math.tanh(0.3)
    density = 1 / (math.exp(-0.5) * math.sqrt(2 * math.pi)) / (3 * (1 - math.tanh(0.3) ** 2))
    one = make(LOC[:1, :1], LOG_STD[:1, :1], CENTER[:1], MAGNITUDE[:1])
    np.testing.assert_allclose(one.log_prob([[action]]), [math.log(density)], rtol=1e-5)


@pytest.mark.parametrize(
    ("loc", "log_std", "center", "magnitude"),
    [(0.0, 0.0, 0.0, 1.0), (0.7, -1.0, 5.0, 2.0), (-1.5, 0.3, -0.1, 0.25)],
)
def test_density_of_one_dimension_integrates_to_one(loc, log_std, center, magnitude):
    edges = np.linspace(-1, 1, 200_001)
    middles = (edges[1:] + edges[:-1]) / 2
    actions = np.float32(center + magnitude * middles)[:, np.newaxis]
    one = make(*(np.float32([value]) for value in (loc, log_std, center, magnitude)))
    density = np.exp(one.log_prob(actions).numpy().astype(np.float64))
    assert density.sum() * (edges[1] - edges[0]) * magnitude == pytest.approx(1, abs=2e-3)


def test_log_prob_equals_that_of_tensorflow_probability():
    actions = reference().sample(50, seed=(1, 2))
    np.testing.assert_allclose(
        make().log_prob(actions), reference().log_prob(actions), rtol=1e-3, atol=1e-3
    )


def test_log_prob_of_a_sample_equals_log_prob():
    actions, log_probs = make().experimental_sample_and_log_prob(100, seed=(3, 4))
    assert (actions.shape, log_probs.shape) == ((100, 2, 2), (100, 2))
    np.testing.assert_allclose(make().log_prob(actions), log_probs, rtol=1e-3, atol=2e-3)


def test_sample_and_log_prob_draws_the_same_actions_as_sample():
    actions, _ = make().experimental_sample_and_log_prob(5, seed=(3, 4))
    np.testing.assert_array_equal(make().sample(5, seed=(3, 4)), actions)


def test_samples_before_the_squashing_have_the_given_mean_and_deviation():
    actions = make().sample(20_000, seed=(5, 6)).numpy()
    pre_tanh = np.arctanh((actions - CENTER) / MAGNITUDE)
    np.testing.assert_allclose(pre_tanh.mean(axis=0), LOC, atol=0.04)  # 4 standard errors
    np.testing.assert_allclose(pre_tanh.std(axis=0), np.exp(LOG_STD), rtol=0.03)


def test_mode_is_the_squashed_mean():
    np.testing.assert_allclose(make().mode(), CENTER + MAGNITUDE * np.tanh(LOC), rtol=1e-6)


def test_scaling_the_action_shifts_the_log_prob_by_the_log_of_the_scale():
    _, narrow = make().experimental_sample_and_log_prob(10, seed=(7, 8))
    wide_one = make(magnitude=MAGNITUDE * 4, center=CENTER - 1)
    _, wide = wide_one.experimental_sample_and_log_prob(10, seed=(7, 8))
    np.testing.assert_allclose(wide, narrow - 2 * math.log(4), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loc", [-40.0, 40.0])
def test_saturated_actions_have_finite_log_probs_and_gradients(loc):
    loc = tf.constant([[loc]])
    with tf.GradientTape() as tape:
        tape.watch(loc)
        one = make(loc, tf.constant([[-20.0]]), CENTER[:1], MAGNITUDE[:1])
        _, log_prob = one.experimental_sample_and_log_prob(seed=(1, 1))
    # -log(1 - tanh(u)^2) = 2 |u| - 2 log 2 far from 0; the noise adds -n^2 / 2 < 0.
    highest = 20 - 0.5 * math.log(2 * math.pi) + 2 * 40 - 2 * math.log(2) - math.log(3)
    assert highest - 15 < float(log_prob[0]) <= highest + 1e-3
    np.testing.assert_allclose(tape.gradient(log_prob, loc), np.sign(loc) * 2, rtol=1e-5)


@pytest.mark.parametrize("action", [CENTER - MAGNITUDE, CENTER + MAGNITUDE])
def test_log_prob_at_the_bounds_is_finite(action):
    assert np.isfinite(make().log_prob(action)).all()


def test_shapes():
    assert make().event_shape == [2]
    assert make().batch_shape == [2]
    assert make().sample(seed=(1, 1)).shape == [2, 2]


def test_it_passes_the_border_of_a_tf_function():
    @tf.function
    def distribution(loc):
        return make(loc)

    np.testing.assert_allclose(distribution(tf.constant(LOC)).mode(), make().mode(), rtol=1e-6)
