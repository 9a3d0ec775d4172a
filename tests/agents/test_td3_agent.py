"""TD3 and DDPG: losses, targets and updates against numbers computed by hand."""

import numpy as np
import pytest
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
    experience,
    set_weights,
    weights_of,
)
from tf_agents.networks import network
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents import td3_losses
from tfagents_system.agents.td3_agent import Td3Agent
from tfagents_system.networks.critic_networks import MlpCriticNetwork

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


def make_agent(num_critics=2, magnitude=1.0, **kwargs):
    """An agent in which every number can be computed by hand; updates subtract the gradient."""
    agent = Td3Agent(
        ts.time_step_spec(OBSERVATION),
        action_spec(magnitude),
        LinearPolicy(),
        MlpCriticNetwork((OBSERVATION, action_spec()), joint_fc_layer_params=()),
        num_critics=num_critics,
        gamma=GAMMA,
        train_step_counter=tf.Variable(0, dtype=tf.int64),
        **{"target_noise_std": 0.0, "target_update_tau": 0.5} | kwargs,
    )
    agent.actor.weight.assign(WEIGHT)
    agent.target_actor.weight.assign(TARGET_WEIGHT)
    for net, values in zip(agent.critics, CRITICS, strict=False):
        set_weights(net, values)
    for net, values in zip(agent.target_critics, TARGETS, strict=False):
        set_weights(net, values)
    sgd = tf.keras.optimizers.legacy.SGD
    agent.actor_optimizer, agent.critic_optimizer = sgd(1.0), sgd(1.0)
    return agent


def critic_loss(q_values, targets):
    return sum((y - q) ** 2 / 2 for qs in q_values for q, y in zip(qs, targets, strict=True))


def test_losses_by_hand_leave_out_what_is_not_valid():
    valid = np.float32([1, 0])
    q_values = (np.float32([3, 99]), np.float32([5, 99]))
    loss = td3_losses.critic_loss(q_values, np.float32([4, -99]), valid)
    np.testing.assert_allclose(loss, (4 - 3) ** 2 + (4 - 5) ** 2)
    np.testing.assert_allclose(td3_losses.actor_loss(q_values[0], valid), -3)


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
    "num_critics, next_q, q_values", [(2, min(NEXT_QS), (Q_1, Q_2)), (1, NEXT_QS[0], (Q_1,))],
    ids=["TD3", "DDPG"],
)  # fmt: skip
def test_a_train_step_by_hand(num_critics, next_q, q_values):
    agent = make_agent(num_critics, policy_delay=1)
    targets = [1 + GAMMA * 1 * next_q, 10.0]
    loss, info = agent.train(experience(**BATCH))
    np.testing.assert_allclose(info.critic_loss, critic_loss(q_values, targets), rtol=1e-5)
    np.testing.assert_allclose(info.actor_loss, -sum(Q_OF_ACTOR) / 2, rtol=1e-5)
    np.testing.assert_allclose(info.q_value, sum(Q_1) / 2, rtol=1e-5)
    np.testing.assert_allclose(info.td_target, sum(targets) / 2, rtol=1e-5)
    np.testing.assert_allclose(loss, info.critic_loss + info.actor_loss, rtol=1e-5)
    assert len(agent.critics) == len(agent.target_critics) == num_critics
    assert int(agent.train_step_counter) == 1

    # d/dw of -mean Q_1(s, w s) is -mean(2 s), of which the first critic alone is part.
    weight = WEIGHT + sum(2 * s for s in BATCH["s"]) / 2
    np.testing.assert_allclose(agent.actor.weight, weight, rtol=1e-5)
    np.testing.assert_allclose(agent.target_actor.weight, (TARGET_WEIGHT + weight) / 2, rtol=1e-5)
    # d/dz of sum (y - Q)^2 / 2 over the batch, z the bias of the first critic
    bias = CRITICS[0][1] + sum(y - q for q, y in zip(Q_1, targets, strict=True))
    np.testing.assert_allclose(agent.critics[0].variables[-1], [bias], rtol=1e-5)
    of_target = agent.target_critics[0].variables[-1]
    np.testing.assert_allclose(of_target, [(TARGETS[0][1] + bias) / 2], rtol=1e-5)


def test_actor_and_all_targets_wait_for_every_second_train_step():
    agent = make_agent(policy_delay=2)
    networks = [agent.actor, agent.target_actor, *agent.target_critics]
    before, critics = weights_of(networks), weights_of(agent.critics)
    _, info = agent.train(experience(**BATCH))
    assert float(info.actor_loss) == 0
    for value, expected in zip(weights_of(networks), before, strict=True):
        np.testing.assert_array_equal(value, expected)
    assert any((a != b).any() for a, b in zip(weights_of(agent.critics), critics, strict=True))
    q_values = [(x * s + y * WEIGHT * s) + z for s in BATCH["s"]
                for (x, y), z in [(agent.critics[0].variables[0].numpy().ravel(),
                                   agent.critics[0].variables[1].numpy().item())]]  # fmt: skip
    _, info = agent.train(experience(**BATCH))
    np.testing.assert_allclose(info.actor_loss, 2 * -sum(q_values) / 2, rtol=1e-4)
    assert all((a != b).any() for a, b in zip(weights_of(networks)[:2], before[:2], strict=True))


def test_delays_hold_in_a_compiled_function_too():
    compiled, eager = make_agent(), make_agent()
    train = tf.function(compiled.train)
    for _ in range(5):
        of_compiled, of_eager = train(experience(**BATCH)), eager.train(experience(**BATCH))
        np.testing.assert_allclose(of_compiled.loss, of_eager.loss, rtol=1e-4)
    for value, expected in zip(
        weights_of([compiled.actor, *compiled.critics, *compiled.target_critics]),
        weights_of([eager.actor, *eager.critics, *eager.target_critics]), strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(value, expected, rtol=1e-3)


def test_target_noise_is_scaled_to_the_bounds_and_clipped():
    agent = make_agent(magnitude=2.0, target_noise_std=1e6, target_noise_clip=0.25)
    agent.target_actor.weight.assign(0.0)
    batch = experience(**BATCH | dict(d=[1.0, 1.0], next_s=[0.0, 0.0]))
    targets = {tuple(agent.td_target(batch).numpy().round(4)) for _ in range(40)}
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
            info = agent.train(experience(**BATCH)).extra
            np.testing.assert_allclose(of_padded.train(experience(**padded)).extra, info, rtol=1e-5)
        np.testing.assert_allclose(of_padded.actor.weight, agent.actor.weight, rtol=1e-5)


def recurrent_agent(num_critics):
    """An agent whose networks have an LSTM, with the same weights at each call."""
    tf.keras.utils.set_random_seed(1)
    spec = action_spec()
    return Td3Agent(
        ts.time_step_spec(OBSERVATION),
        spec,
        recurrent_actor(OBSERVATION, spec, fc_layer_params=(4,), deterministic=True),
        recurrent_critic((OBSERVATION, spec), joint_fc_layer_params=(4,)),
        num_critics=num_critics,
        policy_delay=1,
        target_noise_std=0.0,
        train_step_counter=tf.Variable(0, dtype=tf.int64),
    )


@pytest.mark.parametrize("num_critics", [2, 1], ids=["TD3", "DDPG"])
def test_recurrent_networks_train_on_sequences_whose_padding_does_not_count(num_critics):
    sequence = dict(step_type=[FIRST, MID, MID], s=[1.0, -2.0, 0.5], a=[0.5, 1.0, -1.0],
                    r=[1.0, 10.0, 3.0], d=[1.0, 1.0, 0.0], next_s=[-2.0, 0.5, 7.0])  # fmt: skip
    padded = {name: [*values, 50.0] for name, values in sequence.items() if name != "step_type"}
    padded["step_type"] = [*sequence["step_type"], LAST]
    infos = []
    for batch in (sequence, padded):
        agent = recurrent_agent(num_critics)
        before = weights_of([agent.actor])
        infos.append(agent.train(experience(**{k: [v] for k, v in batch.items()})).extra)
        changed = [(a != b).any() for a, b in zip(weights_of([agent.actor]), before, strict=True)]
        assert any(changed)
    np.testing.assert_allclose(infos[1], infos[0], rtol=1e-5)
