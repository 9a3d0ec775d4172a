"""SAC with several reward streams: losses by hand, values of a loop, and what is refused."""

import math

import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import (
    ACTOR_WEIGHT,
    BATCH,
    CRITICS,
    GAMMA,
    LOG_ALPHA,
    MID,
    OBSERVATION,
    TARGETS,
    Params,
    action_spec,
    linear_agent,
    make_agent,
    numbers,
    set_weights,
    transition,
)
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.reward_signals import streams_of
from tfagents_system.data.transition import Transition
from tfagents_system.networks.critic_networks import MlpCriticNetwork

SIGNALS = {"extrinsic": {}, "curiosity": {"discount": 0.5}}
STREAMS = ("curiosity", "extrinsic")  # sorted
# Of each critic, what its values of curiosity have more than those of the environment's rewards.
MORE_Q, MORE_TARGET_Q = (1.0, 3.0), (-2.0, 5.0)


def of_streams(**settings):
    """The agent of sac_fakes, whose values of curiosity are higher by a constant."""
    critic = MlpCriticNetwork((OBSERVATION, action_spec()), (), streams=STREAMS)
    agent = make_agent(
        critic=critic, discount=GAMMA, sac_log_alpha=LOG_ALPHA,
        reward_signals=SIGNALS, **settings,
    )  # fmt: skip
    agent.networks.actor.weight.assign(ACTOR_WEIGHT)
    networks = agent.networks.critics + agent.networks.target_critics
    weights = zip(networks, CRITICS + TARGETS, MORE_Q + MORE_TARGET_Q, strict=True)
    for network, (of_inputs, bias), more in weights:
        set_weights(network.value_layer, (of_inputs, bias))
        set_weights(network.stream_layers["curiosity"], (of_inputs, bias + more))
    return agent


def streams_batch():
    batch = transition(**BATCH)
    return batch._replace(
        reward=tf.stack([2 * batch.reward, batch.reward]),
        discount=tf.stack([tf.ones([2]), batch.discount]),  # curiosity does not end
    )


def test_losses_of_two_streams_by_hand():
    def q(weights, more, s, a):
        (x, y), z = weights
        return x * s + y * a + z + more

    rows = list(zip(BATCH["s"], BATCH["a"], BATCH["r"], BATCH["d"], BATCH["next_s"], strict=True))
    critic_loss = actor_loss = 0.0
    values, targets = {}, {}
    for name, gamma, factor, extra, more_target in (
        ("curiosity", 0.5, 2, MORE_Q, MORE_TARGET_Q),
        ("extrinsic", GAMMA, 1, (0, 0), (0, 0)),
    ):
        values[name], targets[name] = [], []
        for s, a, r, d, next_s in rows:
            next_a, log_prob = ACTOR_WEIGHT * next_s, 3 * ACTOR_WEIGHT * next_s
            next_q = min(q(w, m, next_s, next_a) for w, m in zip(TARGETS, more_target, strict=True))
            ends = 1 if name == "curiosity" else d
            y = factor * r + gamma * ends * (next_q - 0.2 * log_prob)
            both = [q(w, m, s, a) for w, m in zip(CRITICS, extra, strict=True)]
            values[name].append(both[0])
            targets[name].append(y)
            critic_loss += sum(0.5 * (one - y) ** 2 for one in both) / len(rows) / 2  # streams
            of_policy = [q(w, m, s, ACTOR_WEIGHT * s) for w, m in zip(CRITICS, extra, strict=True)]
            actor_loss -= min(of_policy) / len(rows) / 2
    log_probs = [3 * ACTOR_WEIGHT * s for s in BATCH["s"]]
    actor_loss += 0.2 * sum(log_probs) / 2
    loss, info = of_streams().train(streams_batch())
    means = {f"{name}_value": np.mean(v) for name, v in values.items()}
    expected = means | dict(
        critic_loss=critic_loss,
        actor_loss=actor_loss,
        alpha_loss=-LOG_ALPHA * (sum(log_probs) / 2 + -1),
        alpha=0.2,
        actor_steps=1,
        entropy=-sum(log_probs) / 2,
        q_value=np.mean([*means.values()]),
        td_target=np.mean([*targets.values()]),
        actor_learning_rate=3e-4,
    )
    assert info.keys() == expected.keys()
    np.testing.assert_allclose(numbers(info), numbers(expected), rtol=1e-5)


def test_the_environments_stream_alone_is_plain_sac():
    critic = MlpCriticNetwork((OBSERVATION, action_spec()), (), streams=("extrinsic",))
    batch = transition(**BATCH)
    with_axis = batch._replace(reward=batch.reward[tf.newaxis], discount=batch.discount[tf.newaxis])
    of_stream = linear_agent(critic=critic, reward_signals={"extrinsic": {}})
    loss, info = of_stream.train(with_axis)
    plain_loss, plain_info = linear_agent().train(batch)
    np.testing.assert_allclose(loss, plain_loss, rtol=1e-6)
    assert info.keys() - plain_info.keys() == {"extrinsic_value"}
    for name, value in plain_info.items():
        np.testing.assert_allclose(info[name], value, rtol=1e-6)


DISCRETE = tensor_spec.BoundedTensorSpec([], tf.int64, 0, 2, "action")
ARM = {"arm": action_spec(), "grip": DISCRETE}


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("spec", [action_spec(), DISCRETE, ARM], ids=["box", "discrete", "arm"])
def test_equal_streams_have_equal_values_for_all_actions_and_sequences(spec, recurrent):
    params = Params(
        reward_signals={"curiosity": {"use_terminal_states": True}, "extrinsic": {}},
        actor_fc_layer_params=(4,), critic_joint_fc_layer_params=(4,), rnn_units=3,
        recurrent=recurrent,
    )  # fmt: skip
    step = tf.Variable(0, dtype=tf.int64)
    agent = params.agent_ctor(step, OBSERVATION, spec, ts.time_step_spec(OBSERVATION))
    for network in agent.networks.critics + agent.networks.target_critics:
        mlp = network.critic if recurrent else network
        weights = [variable.numpy() for variable in mlp.value_layer.variables]
        set_weights(mlp.stream_layers["curiosity"], weights)
    outer = [2, 5] if recurrent else [2]
    scalars = tf.ones(outer)
    actions = tf.nest.map_structure(lambda s: tf.zeros([*outer, *s.shape], s.dtype), spec)
    reward = tf.random.stateless_normal(outer, [1, 2])
    batch = Transition(scalars * MID, scalars[..., tf.newaxis], actions, tf.stack([reward] * 2),
                       tf.stack([scalars] * 2), 2 * scalars[..., tf.newaxis])  # fmt: skip
    first = agent.train(batch).extra
    np.testing.assert_allclose(first["curiosity_value"], first["extrinsic_value"], rtol=1e-6)
    for _ in range(3):
        info = agent.train(batch).extra
    assert np.isfinite(numbers(info)).all()
    np.testing.assert_allclose(info["curiosity_value"], info["extrinsic_value"], rtol=1e-4)


def test_values_of_a_loop_of_one_step_are_those_of_two_discounts():
    """Each step ends the episode, but the stream of curiosity does not use that."""
    agent = make_agent(
        critic=MlpCriticNetwork((OBSERVATION, action_spec()), (), streams=STREAMS),
        reward_signals={"extrinsic": {"discount": 0.5}, "curiosity": {"discount": 0.8}},
        critic_learning_rate=0.03, target_update_tau=0.1, learn_alpha=False, sac_log_alpha=-30.0,
        actor_learning_rate=1e-9,
    )  # fmt: skip
    step = transition([MID] * 4, [1.0] * 4, [0.0] * 4, [3.0] * 4, [1.0] * 4, [1.0] * 4)
    ended = tf.zeros([4])

    def train(reward, discount):
        batch = step._replace(reward=reward, discount=discount)
        train_step = tf.function(agent.train)
        for _ in range(800):
            info = train_step(batch).extra
        return info

    reward = tf.stack([2 * tf.ones([4]), 3 * tf.ones([4])])
    info = train(reward, tf.ones([2, 4]))
    np.testing.assert_allclose(info["extrinsic_value"], 3 / (1 - 0.5), rtol=0.02)
    np.testing.assert_allclose(info["curiosity_value"], 2 / (1 - 0.8), rtol=0.02)
    info = train(reward, tf.stack([tf.ones([4]), ended]))  # in the order of STREAMS
    np.testing.assert_allclose(info["extrinsic_value"], 3, rtol=0.02)
    np.testing.assert_allclose(info["curiosity_value"], 2 / (1 - 0.8), rtol=0.02)


def test_settings_of_streams_have_defaults_and_are_sorted():
    streams = streams_of(Params(reward_signals=SIGNALS, discount=0.97))
    assert list(streams) == ["curiosity", "extrinsic"]
    assert [s.discount for s in streams.values()] == [0.5, 0.97]
    assert [s.use_terminal_states for s in streams.values()] == [False, True]
    assert streams["curiosity"].strength == 1.0
    assert streams_of(Params()) == {}


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        ({}, r"reward_signals is {}; expected None or a dict"),
        ({"curiousity": {}}, "there is no signal 'curiousity'. Did you mean curiosity?"),
        ({"rnd": 1}, "rnd is 1, not a dict of settings"),
        ({"rnd": {"gamma": 0.9}}, "rnd has no setting 'gamma'. Did you mean discount?"),
        ({"rnd": {"strenght": 1}}, "rnd has no setting 'strenght'. Did you mean strength?"),
        ({"extrinsic": {"learning_rate": 1}}, "extrinsic has no setting 'learning_rate'"),
        ({"rnd": {"strength": 0}}, "rnd: strength is 0; expected a number > 0"),
        ({"rnd": {"discount": 2}}, r"rnd: discount is 2; expected None or a number in \[0, 1\]"),
    ],
)
def test_unknown_signals_and_settings_are_refused_with_the_nearest_ones(signals, message):
    with pytest.raises(ConfigError, match=message):
        Params(reward_signals=signals).check("params.py")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"algorithm": "td3"},
            "algorithm is 'td3', and there are reward_signals; expected",
        ),
        ({"normalize_rewards": True}, "normalize_rewards is True, and there are reward_signals"),
        ({"state_value_network": True}, "state_value_network is True, and there are reward_sig"),
        (
            {"n_step_returns": 3, "fresh_samples_per_step": 32},
            "n_step_returns is 3, and reward_signals has extrinsic; expected n_step_returns = 1",
        ),
    ],
)
def test_what_has_no_values_of_streams_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Params(reward_signals={"extrinsic": {}}, **settings).check("params.py")
    Params(reward_signals={"extrinsic": {}}).check("params.py")


def test_imitation_needs_demonstrations():
    params = Params(reward_signals={"gail": {}})
    with pytest.raises(ConfigError, match="reward_signals has gail, and demonstrations is None"):
        params.check("params.py")
    params.demonstrations = "demonstrations"
    params.check("params.py")
    params.demonstration_share = 1
    with pytest.raises(
        ConfigError, match="gail, and demonstration_share is 1; expected a share below 1"
    ):
        params.check("params.py")


def test_critics_without_a_value_of_each_stream_are_refused():
    for critic, found in (
        (None, "one Q"),
        (MlpCriticNetwork((OBSERVATION, action_spec()), streams=["rnd"]), r"\['rnd'\]"),
    ):
        message = rf"network of {found}; expected one of a dict .* \['curiosity', 'extrinsic'\]"
        with pytest.raises(ConfigError, match=message):
            make_agent(critic=critic, reward_signals=SIGNALS)


def test_entropy_is_in_the_values_of_each_stream():
    """So the mean of the values has it once: a loop without rewards has alpha H g / (1 - g)."""
    agent = make_agent(
        critic=MlpCriticNetwork((OBSERVATION, action_spec()), (), streams=STREAMS),
        reward_signals={"extrinsic": {"discount": 0.5}, "curiosity": {"discount": 0.5}},
        critic_learning_rate=0.03, target_update_tau=0.2, learn_alpha=False,
        sac_log_alpha=math.log(0.1), actor_learning_rate=1e-9,
    )  # fmt: skip
    agent.networks.actor.weight.assign(-1.0)  # log pi = -3
    step = transition([MID] * 4, [1.0] * 4, [-1.0] * 4, [0.0] * 4, [1.0] * 4, [1.0] * 4)
    batch = step._replace(reward=tf.zeros([2, 4]), discount=tf.ones([2, 4]))
    train_step = tf.function(agent.train)
    for _ in range(400):
        info = train_step(batch).extra
    expected = 0.1 * 3 * 0.5 / (1 - 0.5)
    for name in ("extrinsic_value", "curiosity_value", "q_value"):
        np.testing.assert_allclose(info[name], expected, rtol=0.02)
