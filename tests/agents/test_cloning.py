"""Behavioral cloning: what the actor learns from demonstrations, and for how long."""

import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import FIRST, LAST, MID, Params
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.data.transition import Transition

OBSERVATION = tf.TensorSpec([2], tf.float32, "observation")
BOX = tensor_spec.BoundedTensorSpec([2], tf.float32, np.float32([-2, 0]), np.float32([2, 4]), "a")
BRANCHES = tensor_spec.BoundedTensorSpec([2], tf.int64, [0, 5], [1, 7], "a")
NEST = {"arm": BOX, "grip": tensor_spec.BoundedTensorSpec([], tf.int32, 0, 1)}
STEPS, RATE = 10, 3e-3


def make_agent(action_spec, strength=0.5, steps=STEPS, spec=OBSERVATION, **settings):
    tf.keras.utils.set_random_seed(1)
    params = Params(
        actor_fc_layer_params=(16,), critic_joint_fc_layer_params=(8,), rnn_units=8,
        train_batch_size=64, actor_learning_rate=RATE, demonstrations="a folder",
        behavioral_cloning={"strength": strength, "steps": steps}, **settings,
    )  # fmt: skip
    params.check("params.py")
    train_step = tf.Variable(0, dtype=tf.int64)
    return params.agent_ctor(train_step, spec, action_spec, ts.time_step_spec(spec))


def expert(observation, action_spec):
    """The demonstrated actions: in the Box 2 tanh and 2 + 2 tanh, integers by signs."""
    signs = tf.cast(observation > 0, tf.int64)
    if action_spec is BOX:
        return 2 * tf.tanh(observation) + tf.constant([0.0, 2.0])
    if action_spec is BRANCHES:
        return signs + tf.constant([0, 5], tf.int64)
    return {"arm": expert(observation, BOX), "grip": tf.cast(signs[..., 0], tf.int32)}


def demonstrated(action_spec, *lead, seed=None, mask=None):
    shape = [*lead, 2]
    seeds = tf.random.uniform([2], maxval=2**30, dtype=tf.int32) if seed is None else [seed, 0]
    observation = tf.random.stateless_normal(shape, seeds)
    step_type = MID * tf.ones(lead)
    if len(lead) == 2:
        step_type = tf.constant([[FIRST] + [MID] * (lead[1] - 2) + [LAST]] * lead[0], tf.float32)
    action = expert(observation, action_spec)
    if mask is not None:
        observation = {"observation": observation, "action_mask": tf.tile(mask, [lead[0], 1])}
    ones = tf.ones(lead)
    return Transition(step_type, observation, action, ones, ones, observation)


def values_of(variables):
    return [variable.numpy() for variable in variables]


def test_a_deterministic_actor_has_the_squared_error_of_scaled_actions():
    agent = make_agent(BOX, algorithm="td3")
    batch = demonstrated(BOX, 8, seed=1)
    action = agent.policy.action(ts.restart(batch.observation, 8)).action
    expected = np.square((action - batch.action) / 2).sum(axis=1).mean()  # both are 4 wide
    np.testing.assert_allclose(agent.cloning.loss(batch), expected, rtol=1e-5)


def test_integers_have_the_cross_entropy_of_each_branch():
    agent = make_agent(BRANCHES)
    batch = demonstrated(BRANCHES, 8, seed=1)
    logits = agent.networks.actor(batch.observation)[0].logits.numpy()
    chosen = batch.action.numpy() - [0, 5]
    losses = np.zeros(8)
    for branch, (begin, end) in enumerate(((0, 2), (2, 5))):
        own = logits[:, begin:end]
        losses += np.log(np.exp(own).sum(axis=1)) - own[np.arange(8), chosen[:, branch]]
    np.testing.assert_allclose(agent.cloning.loss(batch), losses.mean(), rtol=1e-5)


def test_masked_integers_have_no_part_in_it():
    spec = {"observation": OBSERVATION, "action_mask": tf.TensorSpec([5], tf.float32)}
    agent = make_agent(BRANCHES, spec=spec)
    batch = demonstrated(BRANCHES, 8, seed=1, mask=tf.constant([[1.0, 1, 1, 1, 0]]))
    logits = agent.networks.actor({"observation": batch.observation["observation"]})[0].logits
    chosen = batch.action.numpy() - [0, 5]
    losses = np.zeros(8)
    for branch, (begin, end) in enumerate(((0, 2), (2, 4))):  # 7 is forbidden
        own = logits.numpy()[:, begin:end]
        losses += np.log(np.exp(own).sum(axis=1)) - own[np.arange(8), chosen[:, branch]]
    np.testing.assert_allclose(agent.cloning.loss(batch), losses.mean(), rtol=1e-5)


def test_padding_does_not_count():
    agent = make_agent(BOX, algorithm="td3", recurrent=True)
    batch = demonstrated(BOX, 4, 3, seed=1)
    other = tf.concat([batch.action[:, :2], 0 * batch.action[:, 2:]], axis=1)
    losses = [float(agent.cloning.loss(b)) for b in (batch, batch._replace(action=other))]
    assert losses[0] == losses[1] > 0


@pytest.mark.parametrize(
    ("action_spec", "settings"),
    [
        (BOX, {"algorithm": "sac"}),
        (BOX, {"algorithm": "td3"}),
        (BOX, {"algorithm": "crossq"}),
        (BOX, {"algorithm": "xqc"}),
        (BOX, {"algorithm": "sac", "normalize_observations": True}),
        (BOX, {"algorithm": "sac", "recurrent": True}),
        (BRANCHES, {"algorithm": "sac"}),
        (NEST, {"algorithm": "sac"}),
    ],
    ids=str,
)
def test_the_actor_alone_learns_to_act_as_the_expert(action_spec, settings):
    agent = make_agent(action_spec, strength=1, steps=10**6, **settings)
    lead = [3] if settings.get("recurrent") else []
    agent.cloning.imitate(lambda count: demonstrated(action_spec, 64, *lead))
    others = values_of(v for critic in agent.networks.critics for v in critic.variables)
    clone = tf.function(agent.cloning, autograph=False)
    tested = demonstrated(action_spec, 200, *lead, seed=1)
    first = float(agent.cloning.loss(tested))
    for _ in range(300):
        clone()
    last = float(agent.cloning.loss(tested))
    assert last < first / 3
    after = values_of(v for critic in agent.networks.critics for v in critic.variables)
    for one, other in zip(others, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_learning_rate_falls_from_the_strength_to_nothing():
    agent = make_agent(BOX, strength=0.5, algorithm="td3")
    agent.cloning.imitate(lambda count: demonstrated(BOX, 8))
    optimizer, variables = agent.cloning.optimizer, agent.networks.actor.trainable_variables
    for t in range(STEPS):
        agent.train_step_counter.assign(t)
        rate = RATE * 0.5 * (1 - t / STEPS)
        np.testing.assert_allclose(optimizer._decayed_lr(tf.float32), rate, rtol=1e-5)
        before = values_of(variables)
        assert float(agent.cloning()) > 0
        assert any((x != y).any() for x, y in zip(before, values_of(variables), strict=True))
    for t in (STEPS, 2 * STEPS):
        agent.train_step_counter.assign(t)
        before = values_of(variables)
        assert float(agent.cloning()) == 0
        for one, other in zip(before, values_of(variables), strict=True):
            np.testing.assert_array_equal(one, other)


def test_its_optimizer_is_saved_with_the_agent(tmp_path):
    agent = make_agent(BOX, algorithm="td3")
    agent.cloning.imitate(lambda count: demonstrated(BOX, 8))
    agent.cloning()
    path = tf.train.Checkpoint(agent=agent).write(str(tmp_path / "state"))
    other = make_agent(BOX, algorithm="td3")
    tf.train.Checkpoint(agent=other).read(path).assert_consumed()
    pairs = zip(agent.cloning.optimizer.variables(), other.cloning.optimizer.variables(),
                strict=True)  # fmt: skip
    assert all((one.numpy() == two.numpy()).all() for one, two in pairs)
    assert other.cloning.optimizer.iterations.numpy() == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"demonstrations": None}, "demonstrations is None; set demonstrations to files"),
        ({"behavioral_cloning": {"strength": 0.5}}, 'expected None or {"strength": a number'),
        ({"behavioral_cloning": {"strength": 0, "steps": 5}}, "a number > 0"),
        ({"behavioral_cloning": {"strength": 1, "steps": 0}}, "an integer >= 1"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    given = {"demonstrations": "a", "behavioral_cloning": {"strength": 1, "steps": 5}} | settings
    with pytest.raises(ConfigError, match=message):
        Params(**given).check("params.py")
