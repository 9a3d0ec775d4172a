"""With `normalize_rewards`, what is learned does not depend on the unit of rewards."""

import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import LAST, MID, OBSERVATION, Params, action_spec, numbers, transition
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.reward_scale import RewardScale

BATCH = 16


def learn(scale, returns, rewards, weights=None):
    """Updates by a minibatch as a train step does, and returns its rewards scaled."""
    weights = np.ones_like(returns) if weights is None else weights
    statistics = scale.merged(tf.constant(returns, tf.float32), tf.constant(weights))
    scale.update(statistics)
    return scale.scaled(tf.constant(rewards, tf.float32), statistics)


def test_scale_by_hand_is_the_deviation_of_returns_or_a_fifth_of_the_largest():
    scale = RewardScale()
    mean = (1 + 3 - 4) / 3
    deviation = np.sqrt(((1 - mean) ** 2 + (3 - mean) ** 2 + (-4 - mean) ** 2) / 3)
    assert deviation > 4 / 5
    scaled = learn(scale, [1.0, 3.0, -4.0], [2.0, 0.0, -1.0])
    np.testing.assert_allclose(scaled, [2 / deviation, 0, -1 / deviation], rtol=1e-6)
    # One rare return of -60 among a thousand of 0: the deviation is smaller than a fifth of it.
    scale = RewardScale()
    np.testing.assert_allclose(learn(scale, [-60.0] + [0.0] * 999, [-60.0]), [-60 / (60 / 5)])
    learn(scale, [1.0], [1.0])
    assert (float(scale.largest), float(scale.count)) == (60, 1001)


def test_padding_does_not_count_and_rewards_of_zero_stay_zero():
    scale = RewardScale()
    np.testing.assert_array_equal(learn(scale, [0.0, 0.0], [0.0, 0.0]), [0, 0])
    learn(scale, [[2.0, 99.0], [4.0, 99.0]], [[0.0] * 2] * 2, [[1.0, 0.0]] * 2)
    assert (float(scale.count), float(scale.largest)) == (4, 4)
    np.testing.assert_allclose(scale.mean, [(0 + 0 + 2 + 4) / 4])


def make_agent(**settings):
    tf.keras.utils.set_random_seed(1)
    params = Params(
        actor_fc_layer_params=(8,), critic_joint_fc_layer_params=(8,), rnn_units=4,
        **{"normalize_rewards": True} | settings,
    )  # fmt: skip
    spec = ts.time_step_spec(OBSERVATION)
    return params.agent_ctor(tf.Variable(0, dtype=tf.int64), OBSERVATION, action_spec(), spec)


def minibatches(unit, length=None):
    rng = np.random.default_rng(1)
    lead = (BATCH, length) if length else (BATCH,)
    step_type = np.full(lead, MID)
    if length:
        step_type[:, -1] = LAST
    for _ in range(4):
        s, next_s, reward, return_so_far = rng.normal(size=(4, *lead))
        action, discount = rng.uniform(-1, 1, lead), rng.integers(2, size=lead)
        made = transition(step_type, s, action, unit * reward, discount, next_s)
        yield made._replace(return_so_far=tf.constant(unit * return_so_far, tf.float32))


@pytest.mark.parametrize("settings", [{}, {"algorithm": "td3"}, {"recurrent": True}], ids=str)
def test_losses_are_the_same_for_rewards_of_any_unit(settings):
    length = 3 if settings.get("recurrent") else None
    losses = []
    for unit in (1.0, 1000.0):
        agent = make_agent(**settings)
        tf.random.set_seed(2)
        losses.append([numbers(agent.train(batch).extra) for batch in minibatches(unit, length)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4, atol=1e-5)
    valid = 2 if length else 1
    assert float(agent.networks.reward_scale.count) == 4 * BATCH * valid


def test_only_a_train_step_changes_the_scale_which_is_saved_with_the_agent(tmp_path):
    agent = make_agent(normalize_observations=True)
    batch, other, *_ = minibatches(1000.0)
    agent.train(batch)
    before = [value.numpy() for value in agent.networks.reward_scale.variables]
    agent.gradients(other)
    path = tf.train.Checkpoint(agent=agent).write(str(tmp_path / "agent"))
    restored = make_agent(normalize_observations=True)
    tf.train.Checkpoint(agent=restored).read(path).assert_existing_objects_matched()
    for made in (agent, restored):
        for value, variable in zip(before, made.networks.reward_scale.variables, strict=True):
            np.testing.assert_array_equal(value, variable)
    tf.random.set_seed(3)
    expected = numbers(agent.train(other).extra)
    tf.random.set_seed(3)
    assert numbers(restored.train(other).extra) == expected
