"""Ensembles of critics: targets by hand, what the actor maximizes, and what is refused."""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import (
    ACTOR_WEIGHT,
    BATCH,
    CRITICS,
    GAMMA,
    LOG_ALPHA,
    OBSERVATION,
    TARGETS,
    Params,
    make_agent,
    set_weights,
    transition,
)
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.batch import make_batch
from tfagents_system.agents.networks import values
from tfagents_system.agents.sac.losses import td_target
from tfagents_system.core.errors import ConfigError

MORE_CRITICS = [*CRITICS, ([-1.0, 0.5], 1.0)]
MORE_TARGETS = [*TARGETS, ([0.5, -2.0], 4.0)]
NUM_DRAWS = 300
# At (2, 1), the next state and the action that the policy takes there, whose log-probability is 3.
NEXT_Q = [3 * 2 + 1 * 1 + 0, -1 * 2 + 4 * 1 + 2, 0.5 * 2 - 2 * 1 + 4]  # 7, 4, 3
POSSIBLE = {1 + GAMMA * (min(NEXT_Q[i], NEXT_Q[j]) - 0.2 * 3.0): (i, j)
            for i, j in itertools.combinations(range(3), 2)}  # fmt: skip


def linear_ensemble(**settings):
    agent = make_agent(discount=GAMMA, sac_log_alpha=LOG_ALPHA, critic_ensemble=3, **settings)
    agent.networks.actor.weight.assign(ACTOR_WEIGHT)
    nets = agent.networks.critics + agent.networks.target_critics
    for net, weights in zip(nets, MORE_CRITICS + MORE_TARGETS, strict=True):
        set_weights(net, weights)
    return agent


def test_a_target_is_the_smaller_value_of_two_different_critics_drawn_for_the_minibatch():
    tf.random.set_seed(1)
    agent = linear_ensemble()
    batch = transition(**BATCH | {"d": [1.0, 1.0]})
    batch = batch._replace(next_observation=tf.fill([2, 1], 2.0), reward=tf.ones([2]))
    critic_loss = tf.function(
        lambda: agent._losses.critic(agent.networks, as_batch(agent, batch), tf.constant(0.2)),
        autograph=False,
    )
    targets = np.stack([critic_loss().td_target for _ in range(NUM_DRAWS)])
    np.testing.assert_array_equal(targets[:, 0], targets[:, 1])  # one draw for both transitions
    assert len(POSSIBLE) == 2  # two pairs have the third critic, whose value is the smallest
    found = collections.Counter(round(float(target), 4) for target in targets[:, 0])
    with_third = round(1 + GAMMA * (3 - 0.2 * 3.0), 4)
    without = round(1 + GAMMA * (4 - 0.2 * 3.0), 4)
    assert found.keys() == {with_third, without}
    deviation = (NUM_DRAWS * 1 / 3 * 2 / 3) ** 0.5
    assert abs(found[without] - NUM_DRAWS / 3) < 5 * deviation  # one of three pairs


def as_batch(agent, replayed):
    return make_batch(replayed, agent.networks.is_recurrent, burn_in_len=0)


@pytest.mark.parametrize("subset", [1, 3])
def test_a_subset_may_be_one_critic_or_all(subset):
    tf.random.set_seed(1)
    agent = linear_ensemble(critic_ensemble_subset=subset)
    batch = as_batch(agent, transition(**BATCH))
    draws = [td_target(agent.networks, batch, 0.2, GAMMA, subset).numpy() for _ in range(60)]
    expected = {1: NEXT_Q, 3: [min(NEXT_Q)]}[subset]
    found = sorted({round(float(draw[0]), 4) for draw in draws})
    assert found == sorted(round(1 + GAMMA * (q - 0.2 * 3.0), 4) for q in expected)
    assert {float(draw[1]) for draw in draws} == {10.0}  # terminal


def test_the_actor_maximizes_the_mean_of_all_critics():
    agent = linear_ensemble()
    _, info = agent.gradients(transition(**BATCH))
    log_probs, actions = [3 * 0.5 * 1, 3 * 0.5 * -2], [0.5, -1.0]
    judged = [
        sum(x * s + y * a + z for (x, y), z in MORE_CRITICS) / 3
        for s, a in zip(BATCH["s"], actions, strict=True)
    ]
    expected = sum(0.2 * p - q for p, q in zip(log_probs, judged, strict=True)) / 2
    np.testing.assert_allclose(info.extra["actor_loss"], expected, rtol=1e-6)


def test_all_critics_learn_from_the_same_target():
    agent = linear_ensemble(critic_ensemble_subset=3)
    _, info = agent.gradients(transition(**BATCH))
    targets = [1 + GAMMA * (min(NEXT_Q) - 0.2 * 3.0), 10.0]
    errors = [
        x * s + y * a + z - target
        for (x, y), z in MORE_CRITICS
        for s, a, target in zip(BATCH["s"], BATCH["a"], targets, strict=True)
    ]
    expected = sum(0.5 * error**2 for error in errors) / 2
    np.testing.assert_allclose(info.extra["critic_loss"], expected, rtol=1e-6)


BRANCHES = tensor_spec.BoundedTensorSpec([2], tf.int64, [0, 0], [1, 2])
NEST = {
    "arm": tensor_spec.BoundedTensorSpec([2], tf.float32, -1, 1),
    "grip": tensor_spec.BoundedTensorSpec([], tf.int32, 0, 1),
}
STREAMS = {"extrinsic": {"strength": 1.0}, "rnd": {"strength": 0.1}}


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        (BRANCHES, {}),
        (NEST, {}),
        (NEST["arm"], {"recurrent": True}),
        (NEST["arm"], {"reward_signals": STREAMS}),
        (NEST["arm"], {"critic_dropout_rate": 0.1}),
    ],
    ids=str,
)
def test_every_kind_of_action_and_critic_may_have_an_ensemble(spec, settings):
    params = Params(
        critic_ensemble=5, critic_layer_norm=True, actor_fc_layer_params=(8,),
        critic_joint_fc_layer_params=(8,), rnn_units=4, **settings,
    )  # fmt: skip
    params.check("params.py")
    train_step = tf.Variable(0, dtype=tf.int64)
    agent = params.agent_ctor(train_step, OBSERVATION, spec, ts.time_step_spec(OBSERVATION))
    assert len(agent.networks.critics) == len(agent.networks.target_critics) == 5
    lead = [4, 3] if "recurrent" in settings else [4]
    observation = tf.random.stateless_normal([*lead, 1], [1, 2])
    action = tf.nest.map_structure(lambda s: tf.zeros([*lead, *s.shape], s.dtype), spec)
    ones = tf.ones([2, *lead]) if "reward_signals" in settings else tf.ones(lead)
    batch = transition(**BATCH)._replace(
        step_type=tf.ones(lead), observation=observation, action=action, reward=ones,
        discount=ones, next_observation=observation,
    )  # fmt: skip
    before = [net.variables[0].numpy() for net in agent.networks.critics]
    assert np.isfinite(tf.function(agent.train, autograph=False)(batch).loss)
    for old, net in zip(before, agent.networks.critics, strict=True):
        assert (old != net.variables[0].numpy()).any()
    q_values = values(agent.networks.critics, as_batch(agent, batch).steps, action)
    assert len({float(tf.reduce_mean(q)) for q in q_values}) == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"algorithm": "td3"},
            "critic_ensemble is 10 and algorithm is 'td3'; expected critic_ensemble = 2",
        ),
        ({"algorithm": "tqc"}, "only sac may have more"),
        (
            {"critic_ensemble_subset": 11},
            "expected critic_ensemble_subset to be an integer from 1 to 10",
        ),
        ({"critic_ensemble": 2, "critic_ensemble_subset": 1}, "critic_ensemble_subset to be 2"),
        ({"critic_ensemble": 1}, "an integer >= 2"),
        ({"state_value_network": True}, "expected critic_ensemble = 2"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Params(**{"critic_ensemble": 10} | settings).check("params.py")
