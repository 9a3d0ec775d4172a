"""TQC: losses, targets and gradients against numbers computed by hand."""

import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import (
    ACTOR_WEIGHT,
    BATCH,
    GAMMA,
    LOG_ALPHA,
    OBSERVATION,
    LinearActor,
    action_spec,
    make_agent,
    set_weights,
    transition,
)

from tfagents_system.agents.tqc import losses as tqc_losses
from tfagents_system.networks.critic_networks import MlpCriticNetwork

# Two critics of two quantiles each, x s + y a + z: kernels [[x, x], [y, y]] and biases [z, z].
CRITICS = [([[1, 2], [2, -1]], [0.5, 0.25]), ([[0, 1], [1, 1]], [0, 1])]
TARGETS = [([[3, -1], [1, 4]], [0, 2]), ([[1, 2], [0, 1]], [0, -1])]
FRACTIONS = [0.25, 0.75]


def huber(delta):
    return delta**2 / 2 if abs(delta) <= 1 else abs(delta) - 0.5


def loss_of(quantiles, targets):
    """Equation 8, pair by pair."""
    pairs = [
        abs(tau - (y < theta)) * huber(y - theta)
        for tau, theta in zip(FRACTIONS, quantiles, strict=True)
        for y in targets
    ]
    return sum(pairs) / len(pairs)


def quantiles_of(values, s, a):
    kernel, bias = np.float64(values[0]), np.float64(values[1])
    return [s, a] @ kernel + bias


def test_the_largest_of_the_mixture_are_left_out():
    mixture = tqc_losses.truncated([np.float32([[5, 1]]), np.float32([[4, 3]])], num_dropped=1)
    np.testing.assert_array_equal(mixture, [[1, 3, 4]])
    mixture = tqc_losses.truncated([np.float32([[5, 1]]), np.float32([[4, 3]])], num_dropped=0)
    np.testing.assert_array_equal(mixture, [[1, 3, 4, 5]])


def test_targets_bootstrap_unless_the_episode_ended():
    targets = tqc_losses.soft_td_targets(
        np.float32([1, 5]), np.float32([1, 0]), 0.9, np.float32([[2, 3], [7, 8]]),
        np.float32([-1, 4]), 0.5,
    )  # fmt: skip
    expected = [[1 + 0.9 * (2 + 0.5), 1 + 0.9 * (3 + 0.5)], [5, 5]]
    np.testing.assert_allclose(targets, expected, rtol=1e-6)


def test_loss_by_hand_leaves_out_what_is_not_valid():
    quantiles = np.float32([[0.0, 2.0], [9, 9]])
    targets = np.float32([[0.5, 1.5, 5.0], [0, 0, 0]])
    loss = tqc_losses.quantile_losses([quantiles, quantiles + 1], targets, np.float32([1, 0]))
    expected = loss_of(quantiles[0], targets[0]) + loss_of(quantiles[0] + 1, targets[0])
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    first = (0.25 * huber(0.5) + 0.25 * huber(1.5) + 0.25 * huber(5)
             + 0.25 * huber(-1.5) + 0.25 * huber(-0.5) + 0.75 * huber(3)) / 6  # fmt: skip
    np.testing.assert_allclose(loss_of(quantiles[0], targets[0]), first)


def test_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(1)
    quantiles, targets = rng.normal(scale=2, size=(5, 2)), rng.normal(scale=2, size=(5, 3))
    watched = tf.constant(quantiles, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(watched)
        loss = tqc_losses.quantile_losses([watched], tf.constant(targets, tf.float32), tf.ones([5]))
    gradient = tape.gradient(loss, watched)
    step = 1e-5
    for row, column in np.ndindex(quantiles.shape):
        moved = np.tile(quantiles[row], (2, 1))
        moved[:, column] += [step, -step]
        higher, lower = (loss_of(values, targets[row]) for values in moved)
        expected = (higher - lower) / (2 * step) / len(quantiles)  # the mean over the rows
        np.testing.assert_allclose(gradient[row, column], expected, rtol=1e-3, atol=1e-5)


def tqc_agent(num_dropped=1):
    critic = MlpCriticNetwork((OBSERVATION, action_spec()), (), num_quantiles=2)
    agent = make_agent(
        LinearActor(k=3.0), critic, algorithm="tqc", discount=GAMMA, sac_log_alpha=LOG_ALPHA,
        tqc_quantiles=2, tqc_dropped_quantiles=num_dropped,
    )  # fmt: skip
    agent.networks.actor.weight.assign(ACTOR_WEIGHT)
    for net, values in zip(
        agent.networks.critics + agent.networks.target_critics, CRITICS + TARGETS, strict=True
    ):
        set_weights(net, values)
    return agent


@pytest.mark.parametrize("num_dropped", [0, 1])
def test_a_train_step_by_hand(num_dropped):
    # The policy's action is s / 2, its log-probability 3 s / 2.
    mixture = sorted(np.concatenate([quantiles_of(values, 2, 1) for values in TARGETS]))
    kept = mixture[: 4 - 2 * num_dropped]
    targets = [[1 + GAMMA * (z - 0.2 * 3) for z in kept], [10.0] * len(kept)]
    quantiles = [
        [quantiles_of(values, s, a) for s, a in zip(BATCH["s"], BATCH["a"], strict=True)]
        for values in CRITICS
    ]
    critic_loss = sum(
        loss_of(of_row, targets_of_row) / 2
        for of_critic in quantiles
        for of_row, targets_of_row in zip(of_critic, targets, strict=True)
    )
    actor_loss = sum(
        0.2 * 1.5 * s - np.mean([quantiles_of(values, s, s / 2) for values in CRITICS])
        for s in BATCH["s"]
    ) / 2  # fmt: skip
    _, info = tqc_agent(num_dropped).train(transition(**BATCH))
    np.testing.assert_allclose(info["critic_loss"], critic_loss, rtol=1e-5)
    np.testing.assert_allclose(info["actor_loss"], actor_loss, rtol=1e-5)
    np.testing.assert_allclose(info["q_value"], np.mean(quantiles[0]), rtol=1e-5)
    np.testing.assert_allclose(info["td_target"], np.mean(targets), rtol=1e-5)
