"""XQC: a train step by hand, the projection of returns on bins, and weights of norm 1."""

import math

import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import (
    ACTOR_WEIGHT,
    BATCH,
    GAMMA,
    OBSERVATION,
    LinearActor,
    Params,
    action_spec,
    make_agent,
    transition,
)
from tf_agents.agents.ddpg.critic_network import CriticNetwork
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.xqc.losses import SUPPORT, lowest, projected
from tfagents_system.core.errors import ConfigError
from tfagents_system.networks.batch_norm import BatchNormLayers
from tfagents_system.networks.normalizing_networks import (
    NormalizingActorNetwork,
    NormalizingCriticNetwork,
)

EPSILON, ALPHA = 1e-3, 0.2
WIDTH = 10 / 100  # between two bins
# (s, a) of the batch, then the next states with the policy's actions; moments are of all four.
ROWS = np.float64([[1, 0.5], [-2, 1], [2, 0.5 * 2], [7, 0.5 * 7]])
INPUTS = (ROWS - ROWS.mean(axis=0)) / np.sqrt(ROWS.var(axis=0) + EPSILON)
RNG = np.random.default_rng(3)
KERNELS, BIASES = RNG.normal(size=(4, 2, 101)), RNG.normal(size=(4, 101))  # critics, then targets


def xqc_agent(actor=None, units=(), **settings):
    critic = NormalizingCriticNetwork(
        (OBSERVATION, action_spec()), units, BatchNormLayers, support=SUPPORT
    )
    return make_agent(
        actor or LinearActor(k=3.0), critic, algorithm="xqc", discount=GAMMA,
        xqc_initial_alpha=ALPHA, **{"policy_delay": 1} | settings,
    )  # fmt: skip


def agent_by_hand():
    agent = xqc_agent()
    agent.networks.actor.weight.assign(ACTOR_WEIGHT)
    critics = [*agent.networks.critics, *agent.networks.target_critics]
    for critic, kernel, bias in zip(critics, KERNELS, BIASES, strict=True):
        critic.layers_of_value.output_layer.kernel.assign(kernel)
        critic.layers_of_value.output_layer.bias.assign(bias)
    return agent


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def projection_by_hand(probabilities, reward, discount, log_prob):
    result = np.zeros(101)
    for bin_return, probability in zip(SUPPORT, probabilities, strict=True):
        y = reward + GAMMA * discount * (bin_return - ALPHA * log_prob)
        y = min(max(y, -5.0), 5.0)
        for index, z in enumerate(SUPPORT):  # triangular weights
            result[index] += probability * max(0.0, 1.0 - abs(y - z) / WIDTH)
    return result


def test_losses_by_hand():
    _, info = agent_by_hand().train(transition(**BATCH))
    probabilities = softmax(INPUTS @ KERNELS + BIASES[:, np.newaxis])  # [4, 4, 101]
    means = probabilities @ np.float64(SUPPORT)
    expected, targets = 0.0, []
    for row, (reward, discount) in enumerate(zip(BATCH["r"], BATCH["d"], strict=True)):
        log_prob = 3 * 0.5 * BATCH["next_s"][row]
        judge = 2 + np.argmin(means[2:, 2 + row])
        target = projection_by_hand(probabilities[judge, 2 + row], reward, discount, log_prob)
        targets.append(target @ np.float64(SUPPORT))
        for critic in range(2):
            expected -= target @ np.log(probabilities[critic, row]) / 2
    np.testing.assert_allclose(info["critic_loss"], expected, rtol=1e-4)
    np.testing.assert_allclose(info["q_value"], np.mean(means[0, :2]), rtol=1e-4)
    np.testing.assert_allclose(info["td_target"], np.mean(targets), rtol=1e-4)
    # The actor is judged by the running moments, which begin at 0 and 1.
    inputs = np.float64([[s, s / 2] for s in BATCH["s"]]) / np.sqrt(1 + EPSILON)
    q_values = softmax(inputs @ KERNELS[:2] + BIASES[:2, np.newaxis]) @ np.float64(SUPPORT)
    log_probs = 3 * 0.5 * np.float64(BATCH["s"])
    np.testing.assert_allclose(
        info["actor_loss"], np.mean(ALPHA * log_probs - q_values.min(axis=0)), rtol=1e-4
    )
    # One action: the target entropy is -1/2.
    np.testing.assert_allclose(info["alpha_loss"], -ALPHA * np.mean(log_probs - 1 / 2), rtol=1e-4)


@pytest.mark.parametrize(
    "reward, discount, bins",
    [
        (0.0, 0.0, {50: 1.0}),  # z = 0
        (0.25, 0.0, {52: 0.5, 53: 0.5}),  # between 0.2 and 0.3
        (0.22, 0.0, {52: 0.8, 53: 0.2}),
        (99.0, 0.0, {100: 1.0}),
        (-99.0, 1.0, {0: 1.0}),
    ],
)
def test_a_return_is_divided_between_the_bins_beside_it(reward, discount, bins):
    uniform = tf.fill([1, 101], 1 / 101)
    zeros = tf.zeros([1])
    found = projected(uniform, zeros + reward, zeros + discount, GAMMA, zeros, ALPHA)[0]
    expected = np.zeros(101)
    expected[list(bins)] = list(bins.values())
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_projected_distribution_keeps_its_mean_and_sums_to_one():
    probabilities = softmax(RNG.normal(size=(7, 101)) * 3).astype(np.float32)
    rewards, discounts = RNG.uniform(-0.3, 0.3, 7), RNG.uniform(0, 1, 7)
    log_probs = RNG.uniform(-1, 1, 7)
    found = projected(
        *map(tf.constant, (probabilities, np.float32(rewards), np.float32(discounts))), GAMMA,
        tf.constant(np.float32(log_probs)), ALPHA,
    )  # fmt: skip
    np.testing.assert_allclose(np.sum(found, axis=1), 1.0, rtol=1e-5)
    means = rewards + GAMMA * discounts * (probabilities @ np.float64(SUPPORT) - ALPHA * log_probs)
    np.testing.assert_allclose(found.numpy() @ np.float64(SUPPORT), means, atol=1e-4)


def test_the_lowest_distribution_is_chosen_for_each_transition():
    low, high = np.eye(101, dtype=np.float32)[[10, 90]]
    one, other = np.stack([low, high]), np.stack([high, low])
    np.testing.assert_array_equal(lowest([one, other]), [low, low])


def norms(network):
    return [np.linalg.norm(kernel, axis=0) for kernel in network.kernels]


def test_incoming_weights_keep_norm_1():
    actor = NormalizingActorNetwork(OBSERVATION, action_spec(), (4, 3), BatchNormLayers)
    agent = xqc_agent(actor, units=(8, 4), critic_learning_rate=0.1, actor_learning_rate=0.1)
    networks = [actor, *agent.networks.critics, *agent.networks.target_critics]
    for of_layer in (norm for network in networks for norm in norms(network)):
        np.testing.assert_allclose(of_layer, 1.0, rtol=1e-5)
    before = [kernel.numpy() for network in networks[:3] for kernel in network.kernels]
    agent.train(transition(**BATCH))
    after = [kernel for network in networks[:3] for kernel in network.kernels]
    for one, other in zip(before, after, strict=True):
        assert len(one) == 1 or not np.allclose(one, other, atol=1e-3)  # of one input: +-1
        np.testing.assert_allclose(np.linalg.norm(other, axis=0), 1.0, rtol=1e-5)
    for critic, target in zip(agent.networks.critics, agent.networks.target_critics, strict=True):
        kernel, begun = critic.kernels[0], before[3]
        assert len(target.variables) == len(critic.variables)
        if critic is agent.networks.critics[0]:
            np.testing.assert_allclose(
                target.kernels[0], begun + 0.005 * (kernel - begun), rtol=1e-4, atol=1e-6
            )


def test_the_actor_s_running_moments_follow_every_train_step():
    actor = NormalizingActorNetwork(OBSERVATION, action_spec(), (4,), BatchNormLayers)
    agent = xqc_agent(actor, policy_delay=3)
    (first, *_), kernels = actor.layers_of_head.normalizations, actor.kernels
    before = [kernel.numpy() for kernel in kernels]
    mean, variance = 0.0, 1.0
    for _ in range(2):  # neither is the actor's
        agent.train(transition(**BATCH))
        mean += 0.01 * (np.mean(BATCH["s"]) - mean)
        variance += 0.01 * (np.var(BATCH["s"]) - variance)
        np.testing.assert_allclose(first.mean, [mean], rtol=1e-5)
        np.testing.assert_allclose(first.variance, [variance], rtol=1e-5)
    for kernel, expected in zip(kernels, before, strict=True):
        np.testing.assert_array_equal(kernel, expected)


def test_step_sizes_fall_to_a_tenth():
    agent = xqc_agent(num_iter=10, num_steps_per_iter=2, alpha_learning_rate=1e-3)
    optimizers = agent.actor_optimizer, agent.critic_optimizer, agent.temperature.optimizer
    for step, share in ((0, 1.0), (10, 1 - 0.9 / 2), (20, 0.1), (40, 0.1)):
        agent.train_step_counter.assign(step)
        rates = [float(o._decayed_lr(tf.float32)) for o in optimizers]
        np.testing.assert_allclose(rates, [3e-4 * share, 3e-4 * share, 1e-3 * share], rtol=1e-5)


def test_alpha_falls_by_the_gradient_of_alpha_times_the_excess():
    agent = agent_by_hand()
    agent.temperature.optimizer = tf.keras.optimizers.legacy.SGD(1.0)
    agent.train(transition(**BATCH))
    excess = np.mean(3 * 0.5 * np.float64(BATCH["s"])) - 1 / 2
    np.testing.assert_allclose(
        agent.temperature.log_alpha, math.log(ALPHA) + ALPHA * excess, rtol=1e-5
    )


@pytest.mark.parametrize(
    "settings, is_scaled",
    [({}, True), ({"normalize_rewards": False}, False), ({"algorithm": "sac"}, False),
     ({"algorithm": "sac", "normalize_rewards": True}, True)],
    ids=str,
)  # fmt: skip
def test_rewards_are_scaled_unless_the_settings_say_no(settings, is_scaled):
    params = Params(**{"algorithm": "xqc", "actor_fc_layer_params": (4,)} | settings)
    agent = params.agent_ctor(
        tf.Variable(0, dtype=tf.int64), OBSERVATION, action_spec(), ts.time_step_spec(OBSERVATION)
    )
    assert (agent.networks.reward_scale is not None) == is_scaled


@pytest.mark.parametrize("algorithm", ["xqc", "crossq"])
def test_critics_of_a_user_that_normalize_no_batches_are_refused(algorithm):
    class Own(Params):
        def critic_ctor(self, obs_spec, action_spec):
            return CriticNetwork((obs_spec, action_spec), joint_fc_layer_params=(4,))

    params = Own(algorithm=algorithm, actor_fc_layer_params=(4,))
    with pytest.raises(ConfigError, match="critic_ctor returned a CriticNetwork; expected the"):
        params.agent_ctor(
            tf.Variable(0, dtype=tf.int64), OBSERVATION, action_spec(),
            ts.time_step_spec(OBSERVATION),
        )  # fmt: skip
