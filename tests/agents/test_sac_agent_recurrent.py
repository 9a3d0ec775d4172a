"""The agent on sequences, with networks that have a state."""

import numpy as np
import pytest
import tensorflow as tf
from recurrent_fakes import recurrent_actor, recurrent_critic
from sac_fakes import (
    ACTOR_WEIGHT,
    FIRST,
    GAMMA,
    LAST,
    LOG_ALPHA,
    MID,
    OBSERVATION,
    LinearActor,
    action_spec,
    make_agent,
    numbers,
    set_weights,
    transition,
    weights_of,
)

from tfagents_system.agents.batch import make_batch
from tfagents_system.agents.sac import losses as sac_losses
from tfagents_system.networks.actor_networks import MlpActorNetwork
from tfagents_system.networks.critic_networks import MlpCriticNetwork
from tfagents_system.networks.summarizers import RecurrentSummarizer

UNITS = 3


def recurrent_agent(**kwargs):
    """LSTM networks with seeded weights and a policy whose actions hardly vary."""
    actor = recurrent_actor(OBSERVATION, action_spec(), fc_layer_params=(UNITS,), units=UNITS)
    critic = recurrent_critic((OBSERVATION, action_spec()), joint_fc_layer_params=(UNITS, UNITS))
    agent = make_agent(actor, critic, discount=GAMMA, **kwargs)
    rng = np.random.default_rng(3)
    for variable in actor.variables + [
        v for net in agent.networks.critics + agent.networks.target_critics for v in net.variables
    ]:
        variable.assign(rng.normal(size=variable.shape))
    return agent


SEQUENCES = dict(
    step_type=[[FIRST, MID, MID, MID], [MID, MID, LAST, LAST]],  # the second row is padded
    s=[[0.1, 0.7, -0.4, 0.9], [-0.8, 0.3, 1.5, 1.5]],
    a=[[0.2, -0.1, 0.9, 0.0], [0.4, -0.6, 0.5, 0.5]],
    r=[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 0.0, 0.0]],
    d=[[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]],
    next_s=[[0.7, -0.4, 0.9, -1.1], [0.3, 1.5, 1.5, 1.5]],
)


def td_target(agent, minibatch):
    batch = make_batch(minibatch, is_recurrent=True, burn_in_len=0)
    return sac_losses.td_target(agent.networks, batch, agent.temperature.alpha, GAMMA)


def test_recurrent_target_uses_the_state_after_all_observations_up_to_the_next():
    agent = recurrent_agent(sac_log_alpha=-100.0)  # alpha = 0: the noise in log pi is no matter
    agent.networks.actor.variables[-1].assign([0.1, -100.0])  # standard deviation exp(-20)
    batch = transition(**SEQUENCES)
    expected = np.zeros((2, 4))
    states = [
        net.get_initial_state(2) for net in (agent.networks.actor, *agent.networks.target_critics)
    ]
    observations = tf.concat([batch.observation[:, :1], batch.next_observation], axis=1)
    for t in range(5):  # s_0, s_1 ... s_4, one step at a time
        mid = tf.constant([MID, MID])
        distribution, states[0] = agent.networks.actor(observations[:, t], mid, states[0])
        values = []
        for index, critic in enumerate(agent.networks.target_critics, start=1):
            value, states[index] = critic(
                (observations[:, t], distribution.mode()), mid, states[index]
            )
            values.append(value)
        if t > 0:
            r, d = np.array(SEQUENCES["r"])[:, t - 1], np.array(SEQUENCES["d"])[:, t - 1]
            expected[:, t - 1] = r + GAMMA * d * np.minimum(*values)
    target = td_target(agent, batch)
    np.testing.assert_allclose(target, expected, rtol=1e-4, atol=1e-5)


def test_recurrent_target_takes_the_log_prob_of_the_next_step():
    state_spec = [tf.TensorSpec([1], tf.float32)]
    agent = make_agent(LinearActor(3.0, state_spec), discount=GAMMA, sac_log_alpha=LOG_ALPHA)
    agent.networks.actor.weight.assign(ACTOR_WEIGHT)
    for target in agent.networks.target_critics:
        set_weights(target, [[0.0, 0.0], 0.0])
    target = td_target(agent, transition(**SEQUENCES))
    r, d, next_s = (np.array(SEQUENCES[name]) for name in ("r", "d", "next_s"))
    expected = r + GAMMA * d * (0 - 0.2 * 3 * 0.5 * next_s)
    np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-6)


def test_recurrent_q_values_use_the_state_after_the_observations_so_far():
    agent = recurrent_agent()
    batch = transition(**SEQUENCES)
    pairs = batch.observation, batch.action
    q_values, _ = agent.networks.critics[0](
        pairs, step_type=tf.cast(batch.step_type, tf.int32), network_state=()
    )
    state = agent.networks.critics[0].get_initial_state(2)
    for t in range(4):
        inputs = batch.observation[:, t], batch.action[:, t]
        value, state = agent.networks.critics[0](inputs, tf.constant([MID, MID]), state)
        np.testing.assert_allclose(q_values[:, t], value, rtol=1e-4, atol=1e-5)


def test_padding_has_no_influence_on_recurrent_training():
    changed = {name: [row[:] for row in rows] for name, rows in SEQUENCES.items()}
    for name in ("s", "a", "r", "d", "next_s"):
        changed[name][1][2:] = [-3.0, 0.5]
    results = []
    for batch in (SEQUENCES, changed):
        agent = recurrent_agent()
        tf.random.set_seed(5)
        info = numbers(agent.train(transition(**batch)).extra)
        results.append((info, [v.numpy() for v in agent.variables]))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-5)
    for one, other in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-7)


def test_recurrent_training_changes_all_weights_of_actor_and_critics():
    agent = recurrent_agent()
    nets = [agent.networks.actor, *agent.networks.critics]
    before = weights_of(nets)
    two_steps = {name: [row[:2] for row in rows] for name, rows in SEQUENCES.items()}
    tf.function(agent.train, autograph=False)(transition(**two_steps))
    changed = [(x != y).any() for x, y in zip(before, weights_of(nets), strict=True)]
    assert all(changed)


def shared_agent(**kwargs):
    """Feed-forward networks on the features of one summarizer; seeded weights."""
    tf.keras.utils.set_random_seed(4)
    summarizer = RecurrentSummarizer(OBSERVATION, units=UNITS, num_layers=2)
    features = summarizer.features_spec
    actor = MlpActorNetwork(features, action_spec(), (4,))
    critic = MlpCriticNetwork((features, action_spec()), (4,))
    return make_agent(actor, critic, discount=GAMMA, summarizer=summarizer, **kwargs)


def test_padding_has_no_influence_on_a_shared_summarizer():
    whole = {name: [row[:2] for row in rows] for name, rows in SEQUENCES.items()}
    changed = {name: [[*row, 9.0, -9.0] for row in rows] for name, rows in whole.items()}
    changed["step_type"] = [[*row, LAST, LAST] for row in whole["step_type"]]
    results = []
    for batch in (whole, changed):
        agent = shared_agent(sac_log_alpha=-100.0)
        agent.networks.actor.variables[-1].assign([0.1, -100.0])  # hardly any noise
        results.append(
            (agent.train(transition(**batch)).extra, weights_of([agent.networks.summarizer]))
        )
    np.testing.assert_allclose(
        results[1][0]["critic_loss"], results[0][0]["critic_loss"], rtol=1e-5
    )
    for one, other in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)


def test_targets_take_the_target_summary_of_all_observations_up_to_the_next():
    agent = shared_agent(sac_log_alpha=-100.0)
    agent.networks.actor.variables[-1].assign([0.1, -100.0])
    for variable in agent.networks.target_summarizer.variables:
        variable.assign(2 * variable)  # other than the summarizer's own
    batch = transition(**SEQUENCES)
    _, info = agent.train(batch)
    observations = tf.concat([batch.observation[:, :1], batch.next_observation], axis=1)
    agent = shared_agent()  # as it was before the train step
    agent.networks.actor.variables[-1].assign([0.1, -100.0])
    for variable in agent.networks.target_summarizer.variables:
        variable.assign(2 * variable)
    features, _ = agent.networks.target_summarizer(observations)
    features = features[:, 1:]
    actions = agent.networks.actor(features)[0].mode()
    values = [critic((features, actions))[0] for critic in agent.networks.target_critics]
    targets = np.array(SEQUENCES["r"]) + GAMMA * np.array(SEQUENCES["d"]) * np.minimum(*values)
    valid = np.array(SEQUENCES["step_type"]) != LAST
    np.testing.assert_allclose(info["td_target"], targets[valid].mean(), rtol=1e-4)


def test_the_loss_of_the_critics_alone_trains_a_shared_summarizer(monkeypatch):
    agent = shared_agent()
    batch = transition(**SEQUENCES)
    summarizer = agent.networks.summarizer
    valid = tf.cast(batch.step_type != LAST, tf.float32)
    target = tf.constant(np.random.default_rng(0).normal(size=(2, 4)), tf.float32)
    with tf.GradientTape() as tape:
        features, _ = summarizer(batch.observation)
        q_values = [c((features, batch.action))[0] for c in agent.networks.critics]
        loss = sac_losses.half_squared_errors(q_values, target, valid)
    expected = tape.gradient(loss, summarizer.trainable_variables)
    monkeypatch.setattr(sac_losses, "td_target", lambda *_: target)
    gradients, info = agent.gradients(batch)
    np.testing.assert_allclose(info.extra["critic_loss"], loss, rtol=1e-5)
    for one, other in zip(gradients.summarizer, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-7)
        assert np.abs(one).max() > 0
    before = weights_of([summarizer])
    tf.function(agent.train, autograph=False)(batch)
    after = weights_of([summarizer])
    assert all((x != y).any() for x, y in zip(before, after, strict=True))


def test_burn_in_does_not_count_unless_the_episode_begins_with_it():
    batch = transition(**SEQUENCES)
    valid = [make_batch(batch, True, burn_in_len).valid for burn_in_len in (0, 1, 2)]
    assert valid[0].numpy().tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert valid[1].numpy().tolist() == [[1, 1, 1, 1], [0, 1, 0, 0]]
    assert valid[2].numpy().tolist() == [[1, 1, 1, 1], [0, 0, 0, 0]]


MIDDLE = {  # of an episode
    name: [row[:] for row in rows] for name, rows in SEQUENCES.items() if name != "step_type"
} | {"step_type": [[MID] * 4, [MID] * 4]}


def with_linear_critics(**kwargs):
    """A recurrent actor, and critics without a state."""
    tf.keras.utils.set_random_seed(4)
    actor = recurrent_actor(OBSERVATION, action_spec(), fc_layer_params=(4,), units=UNITS)
    return make_agent(actor, discount=GAMMA, **kwargs)


def deterministic(**kwargs):
    """TD3 with a recurrent actor, critics without a state and no noise in its targets."""
    tf.keras.utils.set_random_seed(4)
    specs = OBSERVATION, action_spec()
    actor = recurrent_actor(*specs, fc_layer_params=(4,), units=UNITS, deterministic=True)
    return make_agent(
        actor, MlpCriticNetwork(specs, ()), algorithm="td3", discount=GAMMA, policy_delay=1,
        target_noise_std=0.0, **kwargs,
    )  # fmt: skip


def of_quantiles(**kwargs):
    """TQC with a recurrent actor, and critics without a state."""
    tf.keras.utils.set_random_seed(4)
    specs = OBSERVATION, action_spec()
    return make_agent(
        recurrent_actor(*specs, fc_layer_params=(4,), units=UNITS),
        MlpCriticNetwork(specs, (), num_quantiles=2), algorithm="tqc", discount=GAMMA,
        tqc_quantiles=2, tqc_dropped_quantiles=1, **kwargs,
    )  # fmt: skip


@pytest.mark.parametrize("make", [shared_agent, with_linear_critics, of_quantiles, deterministic])
def test_a_stored_state_stands_for_the_steps_before(make):
    def infos(agent, batch):
        if make is not deterministic:
            agent.networks.actor.variables[-1].assign([0.1, -100.0])  # hardly any noise
        tf.keras.utils.set_random_seed(4)
        return agent.gradients(batch)[1].extra

    expected = infos(make(sac_log_alpha=-100.0, burn_in_len=2), transition(**MIDDLE))
    agent = make(sac_log_alpha=-100.0)
    before = tf.constant(MIDDLE["s"])[:, :2, tf.newaxis]
    if agent.networks.summarizer:
        _, state = agent.networks.summarizer(before)
    else:
        _, state = agent.networks.actor(before)
    tail = transition(**{name: [row[2:] for row in rows] for name, rows in MIDDLE.items()})
    later = [tf.fill(part.shape, 1e9) for part in state]  # of steps after the first: not used
    info = [tf.stack(parts, axis=1) for parts in zip(state, later, strict=True)]
    with_state = tail._replace(extras=info)
    actual = infos(make(sac_log_alpha=-100.0), with_state)
    for name in ("critic_loss", "actor_loss", "q_value", "td_target"):
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-4)
    without = infos(make(sac_log_alpha=-100.0), tail)
    assert abs(float(without["td_target"] - expected["td_target"])) > 1e-3
