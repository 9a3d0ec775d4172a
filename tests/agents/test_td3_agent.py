"""TD3 and DDPG: losses, targets and updates against numbers computed by hand."""

import numpy as np
import pytest
import sac_fakes
import tensorflow as tf
from recurrent_fakes import recurrent_actor, recurrent_critic
from sac_fakes import (
    BATCH,
    CRITICS,
    FIRST,
    GAMMA,
    LAST,
    MID,
    OBSERVATION,
    TARGETS,
    action_spec,
    numbers,
    set_weights,
    transition,
    weights_of,
    with_gradient_steps,
)
from tf_agents.networks import network

from tfagents_system.agents.batch import make_batch
from tfagents_system.agents.td3 import losses as td3_losses

WEIGHT, TARGET_WEIGHT = 0.5, 0.25  # of actor and target actor: action = weight * observation

# By hand: critics at (s, a) and (s, s / 2), target critics at (2, 2 / 4); see sac_fakes.
NEXT_QS = [3 * 2 + 1 * 0.5 + 0, -1 * 2 + 4 * 0.5 + 2]
Q_1 = [1 * 1 + 2 * 0.5 + 0.5, 1 * -2 + 2 * 1 + 0.5]
Q_2 = [2 * 1 - 1 * 0.5 + 0.25, 2 * -2 - 1 * 1 + 0.25]
Q_OF_ACTOR = [1 * 1 + 2 * (0.5 * 1) + 0.5, 1 * -2 + 2 * (0.5 * -2) + 0.5]


class LinearPolicy(network.Network):
    """Action w s."""

    def __init__(self, name="LinearPolicy"):
        super().__init__(OBSERVATION, (), name=name)
        self.weight = tf.Variable(0.0)

    def call(self, observation, step_type=None, network_state=(), training=False):
        return self.weight * observation, network_state


def make_agent(algorithm="td3", magnitude=1.0, **settings):
    """An agent in which every number can be computed by hand; updates subtract the gradient."""
    agent = sac_fakes.make_agent(
        LinearPolicy(),
        magnitude=magnitude,
        algorithm=algorithm,
        discount=GAMMA,
        **{"target_noise_std": 0.0, "target_update_tau": 0.5} | settings,
    )
    agent.networks.actor.weight.assign(WEIGHT)
    agent.networks.target_actor.weight.assign(TARGET_WEIGHT)
    for net, values in zip(agent.networks.critics, CRITICS, strict=False):
        set_weights(net, values)
    for net, values in zip(agent.networks.target_critics, TARGETS, strict=False):
        set_weights(net, values)
    return with_gradient_steps(agent)


def critic_loss(q_values, targets):
    return sum((y - q) ** 2 / 2 for qs in q_values for q, y in zip(qs, targets, strict=True))


def test_losses_by_hand_leave_out_what_is_not_valid():
    valid = np.float32([1, 0])
    q_values = (np.float32([3, 99]), np.float32([5, 99]))
    loss = td3_losses.squared_errors(q_values, np.float32([4, -99]), valid)
    np.testing.assert_allclose(loss, (4 - 3) ** 2 + (4 - 5) ** 2)


def test_target_is_the_smaller_critic_s_and_bootstraps_unless_the_episode_ended():
    q_values = np.float32([3, 30]), np.float32([2, 40])
    rewards, discounts = np.float32([1, 5]), np.float32([1, 0])
    target = td3_losses.td_target(rewards, discounts, 0.9, q_values)
    np.testing.assert_allclose(target, [1 + 0.9 * min(3, 2), 5], rtol=1e-6)
    target = td3_losses.td_target(rewards, discounts, 0.9, q_values[:1])
    np.testing.assert_allclose(target, [1 + 0.9 * 3, 5], rtol=1e-6)


def test_noise_of_a_target_action_is_clipped_and_then_the_action():
    action, noise = np.float32([[0.0], [0.0], [0.9]]), np.float32([[0.2], [-3.0], [3.0]])
    smoothed = td3_losses.smoothed_action(action, noise, 0.5, -1.0, 1.0)
    np.testing.assert_allclose(smoothed, [[0.2], [-0.5], [1.0]])


@pytest.mark.parametrize(
    "algorithm, next_q, q_values",
    [("td3", min(NEXT_QS), (Q_1, Q_2)), ("ddpg", NEXT_QS[0], (Q_1,))],
)  # fmt: skip
def test_a_train_step_by_hand(algorithm, next_q, q_values):
    agent = make_agent(algorithm, policy_delay=1)
    targets = [1 + GAMMA * 1 * next_q, 10.0]
    loss, info = agent.train(transition(**BATCH))
    np.testing.assert_allclose(info["critic_loss"], critic_loss(q_values, targets), rtol=1e-5)
    np.testing.assert_allclose(info["actor_loss"], -sum(Q_OF_ACTOR) / 2, rtol=1e-5)
    np.testing.assert_allclose(info["q_value"], sum(Q_1) / 2, rtol=1e-5)
    np.testing.assert_allclose(info["td_target"], sum(targets) / 2, rtol=1e-5)
    np.testing.assert_allclose(loss, info["critic_loss"] + info["actor_loss"], rtol=1e-5)
    assert len(agent.networks.critics) == len(agent.networks.target_critics) == len(q_values)
    assert int(agent.train_step_counter) == 1

    # d/dw of -mean Q_1(s, w s) is -mean(2 s), of which the first critic alone is part.
    weight = WEIGHT + sum(2 * s for s in BATCH["s"]) / 2
    np.testing.assert_allclose(agent.networks.actor.weight, weight, rtol=1e-5)
    np.testing.assert_allclose(
        agent.networks.target_actor.weight, (TARGET_WEIGHT + weight) / 2, rtol=1e-5
    )
    # d/dz of sum (y - Q)^2 / 2 over the batch, z the bias of the first critic
    bias = CRITICS[0][1] + sum(y - q for q, y in zip(Q_1, targets, strict=True))
    np.testing.assert_allclose(agent.networks.critics[0].variables[-1], [bias], rtol=1e-5)
    of_target = agent.networks.target_critics[0].variables[-1]
    np.testing.assert_allclose(of_target, [(TARGETS[0][1] + bias) / 2], rtol=1e-5)


def test_actor_and_all_targets_wait_for_every_second_train_step():
    agent = make_agent(policy_delay=2)
    networks = [agent.networks.actor, agent.networks.target_actor, *agent.networks.target_critics]
    before, critics = weights_of(networks), weights_of(agent.networks.critics)
    _, info = agent.train(transition(**BATCH))
    assert (float(info["actor_loss"]), float(info["actor_steps"])) == (0, 0)
    for value, expected in zip(weights_of(networks), before, strict=True):
        np.testing.assert_array_equal(value, expected)
    assert any(
        (a != b).any() for a, b in zip(weights_of(agent.networks.critics), critics, strict=True)
    )
    kernel, bias = agent.networks.critics[0].variables
    (x, y), z = kernel.numpy().ravel(), bias.numpy().item()
    q_values = [x * s + y * WEIGHT * s + z for s in BATCH["s"]]
    _, info = agent.train(transition(**BATCH))
    np.testing.assert_allclose(info["actor_loss"], -sum(q_values) / 2, rtol=1e-4)
    assert float(info["actor_steps"]) == 1
    assert all((a != b).any() for a, b in zip(weights_of(networks)[:2], before[:2], strict=True))


def test_delays_hold_in_a_compiled_function_too():
    compiled, eager = make_agent(), make_agent()
    train = tf.function(compiled.train)
    for _ in range(5):
        of_compiled, of_eager = train(transition(**BATCH)), eager.train(transition(**BATCH))
        np.testing.assert_allclose(of_compiled.loss, of_eager.loss, rtol=1e-4)
    weights = (
        weights_of([agent.networks.actor, *agent.networks.critics, *agent.networks.target_critics])
        for agent in (compiled, eager)
    )
    for value, expected in zip(*weights, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-3)


def test_targets_with_a_period_wait_for_a_train_step_of_the_actor():
    agent = make_agent(policy_delay=2, target_update_period=3)
    updated = []
    for train_step in range(1, 13):
        before = agent.networks.target_actor.weight.numpy()
        agent.train(transition(**BATCH))
        if agent.networks.target_actor.weight.numpy() != before:
            updated.append(train_step)
    assert updated == [2 * 3, 2 * 2 * 3]


def test_target_noise_is_scaled_to_the_bounds_and_clipped():
    agent = make_agent(magnitude=2.0, target_noise_std=1e6, target_noise_clip=0.25)
    agent.networks.target_actor.weight.assign(0.0)
    batch = transition(**BATCH | dict(d=[1.0, 1.0], next_s=[0.0, 0.0]))
    clip = 0.25 * 2.0
    targets = {
        tuple(
            td3_losses.target_value(
                agent.networks, make_batch(batch, False, 0), GAMMA, noise_std=1e6, noise_clip=clip
            ).numpy().round(4)
        )
        for _ in range(40)
    }  # fmt: skip
    # The noise is almost surely cut: a~ is 0 +- 0.25 * 2, and Q'_i(0, a~) is y a~ + z.
    qs = [min(1 * a, 4 * a + 2) for a in (-0.5, 0.5)]
    allowed = {round(r + GAMMA * q, 4) for r in BATCH["r"] for q in qs}
    seen = {round(float(value), 4) for pair in targets for value in pair}
    assert seen == allowed


def test_padding_does_not_count():
    padded = {name: [*values, 50.0] for name, values in BATCH.items() if name != "step_type"}
    padded["step_type"] = [*BATCH["step_type"], LAST]
    for delay in (1, 2):
        agent, of_padded = make_agent(policy_delay=delay), make_agent(policy_delay=delay)
        for _ in range(2):
            infos = agent.train(transition(**BATCH)), of_padded.train(transition(**padded))
            np.testing.assert_allclose(*(numbers(info.extra) for info in infos), rtol=1e-5)
        np.testing.assert_allclose(
            of_padded.networks.actor.weight, agent.networks.actor.weight, rtol=1e-5
        )


def recurrent_agent(algorithm):
    """An agent whose networks have an LSTM, with the same weights at each call."""
    tf.keras.utils.set_random_seed(1)
    spec = action_spec()
    return sac_fakes.make_agent(
        recurrent_actor(OBSERVATION, spec, fc_layer_params=(4,), deterministic=True),
        recurrent_critic((OBSERVATION, spec), joint_fc_layer_params=(4,)),
        algorithm=algorithm,
        policy_delay=1,
        target_noise_std=0.0,
    )


@pytest.mark.parametrize("algorithm", ["td3", "ddpg"])
def test_recurrent_networks_train_on_sequences_whose_padding_does_not_count(algorithm):
    sequence = dict(step_type=[FIRST, MID, MID], s=[1.0, -2.0, 0.5], a=[0.5, 1.0, -1.0],
                    r=[1.0, 10.0, 3.0], d=[1.0, 1.0, 0.0], next_s=[-2.0, 0.5, 7.0])  # fmt: skip
    padded = {name: [*values, 50.0] for name, values in sequence.items() if name != "step_type"}
    padded["step_type"] = [*sequence["step_type"], LAST]
    infos = []
    for batch in (sequence, padded):
        agent = recurrent_agent(algorithm)
        before = weights_of([agent.networks.actor])
        batch = transition(**{name: [values] for name, values in batch.items()})
        infos.append(numbers(agent.train(batch).extra))
        changed = [
            (a != b).any() for a, b in zip(weights_of([agent.networks.actor]), before, strict=True)
        ]
        assert any(changed)
    np.testing.assert_allclose(infos[1], infos[0], rtol=1e-5)
