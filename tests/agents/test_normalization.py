"""With `normalize_observations`, what is learned does not depend on the units of observations."""

import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import FIRST, LAST, MID, Params, action_spec, numbers
from tf_agents.trajectories import time_step as ts

from tfagents_system.data.transition import Transition
from tfagents_system.policies.acting import AgentPolicies, TfActingPolicy

OBSERVATION = tf.TensorSpec([2], tf.float32, "observation")
SCALE, SHIFT = np.float32([1000, 0.01]), np.float32([5000, -3])
NUM_STEPS, BATCH = 4, 16


def make_agent(**settings):
    tf.keras.utils.set_random_seed(1)
    params = Params(
        actor_fc_layer_params=(8,), critic_joint_fc_layer_params=(8,), rnn_units=4,
        **{"normalize_observations": True} | settings,
    )  # fmt: skip
    spec = ts.time_step_spec(OBSERVATION)
    return params.agent_ctor(tf.Variable(0, dtype=tf.int64), OBSERVATION, action_spec(), spec)


def minibatches(scale=1.0, shift=0.0, length=None):
    """Transitions [B], or sequences [B, length] whose last step is padding."""
    rng = np.random.default_rng(1)
    lead = (BATCH, length) if length else (BATCH,)
    step_type = np.full(lead, MID)
    if length:
        step_type[:, 0], step_type[:, -1] = FIRST, LAST
    for _ in range(NUM_STEPS):
        observation, next_observation = rng.normal(size=(2, *lead, 2)) * scale + shift
        action, reward = rng.uniform(-1, 1, (*lead, 1)), rng.normal(size=lead)
        discount = rng.integers(2, size=lead)
        parts = observation, action, reward, discount, next_observation
        yield Transition(
            tf.constant(step_type, tf.float32), *(tf.constant(part, tf.float32) for part in parts)
        )


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "sac"},
        {"algorithm": "tqc"},
        {"algorithm": "crossq", "policy_delay": 1},
        {"algorithm": "td3", "policy_delay": 1},
        {"algorithm": "sac", "recurrent": True},
        {"algorithm": "sac", "recurrent": True, "share_summarizer": True},
    ],
    ids=lambda settings: ", ".join(map(str, settings.values())),
)
def test_losses_and_actions_are_the_same_for_observations_scaled_and_shifted(settings):
    length = 3 if settings.get("recurrent") else None
    losses, actions = [], []
    for scale, shift in ((1.0, 0.0), (SCALE, SHIFT)):
        agent = make_agent(**settings)
        tf.random.set_seed(2)
        losses.append(
            [numbers(agent.train(batch).extra) for batch in minibatches(scale, shift, length)]
        )
        policy = TfActingPolicy(agent.policy)
        observation = np.float32([0.5, -1]) * np.float32(scale) + np.float32(shift)
        actions.append(policy.action(ts.restart(observation), policy.initial_state())[0])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(actions[0], actions[1], rtol=1e-3)


def test_statistics_are_those_of_all_that_was_learned_from_and_padding_is_left_out():
    agent = make_agent(recurrent=True)
    for batch in minibatches(SCALE, SHIFT, length=3):
        agent.train(batch)
    learned = [batch.observation[:, :2] for batch in minibatches(SCALE, SHIFT, length=3)]
    rows = np.concatenate(learned).reshape(-1, 2)
    normalizer = agent.networks.normalizer
    assert normalizer.count.numpy() == NUM_STEPS * BATCH * 2
    np.testing.assert_allclose(normalizer.mean, rows.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(normalizer.variance, rows.var(axis=0), rtol=1e-5)


def test_only_a_train_step_changes_the_statistics_which_both_policies_and_the_agent_have():
    agent = make_agent()
    batch, other, *_ = minibatches(SCALE, SHIFT)
    agent.train(batch)
    normalizer = agent.networks.normalizer
    before = [value.numpy() for value in normalizer.variables]
    agent.gradients(other)
    for policy in (agent.policy, agent.collect_policy):
        acting = TfActingPolicy(policy)
        acting.action(ts.restart(np.float32([1e6, 1e6])), acting.initial_state())
    for value, variable in zip(before, normalizer.variables, strict=True):
        np.testing.assert_array_equal(value, variable)
    for holder in (agent.policy.variables(), agent.collect_policy.variables(), agent.variables):
        assert {v.ref() for v in normalizer.variables} <= {v.ref() for v in holder}
    trained = [*agent.networks.actor.variables, *agent.networks.critics[0].variables]
    assert not {v.ref() for v in normalizer.variables} & {v.ref() for v in trained}


@pytest.mark.parametrize("algorithm", ["sac", "td3", "crossq"])
def test_workers_act_in_numpy_by_the_statistics_that_are_published(algorithm):
    agent, worker = make_agent(algorithm=algorithm), make_agent(algorithm=algorithm)
    for batch in minibatches(SCALE, SHIFT):
        agent.train(batch)
    policies = AgentPolicies(worker, np.random.default_rng(1))
    assert policies.obstacle is None
    policies.update([variable.numpy() for variable in agent.collect_policy.variables()])
    expected = TfActingPolicy(agent.policy)
    for observation in np.random.default_rng(3).normal(size=(20, 2)) * SCALE + SHIFT:
        time_step = ts.restart(observation.astype(np.float32))
        action, _ = policies.greedy.action(time_step, policies.greedy.initial_state())
        by_tensorflow, _ = expected.action(time_step, expected.initial_state())
        np.testing.assert_allclose(action, by_tensorflow, atol=1e-5)


def test_learns_from_observations_far_from_zero():
    """The best action is proportional to the first number; each episode has one step."""

    def mean_reward_after_training(**settings):
        agent = make_agent(
            sac_log_alpha=-4.0, learn_alpha=False, critic_learning_rate=1e-2,
            actor_learning_rate=1e-2, **settings,
        )  # fmt: skip

        train, rng = tf.function(agent.train, autograph=False), np.random.default_rng(1)

        def draw(num):
            return rng.normal(size=(num, 2)) * SCALE + SHIFT

        def reward_of(observation, action):
            best = 0.4 * (observation[:, 0] - SHIFT[0]) / SCALE[0]
            return -4 * np.square(action[:, 0] - best)

        for _ in range(400):
            observation, action = draw(64), rng.uniform(-1, 1, (64, 1))
            reward = reward_of(observation, action)
            parts = np.ones(64), observation, action, reward, np.zeros(64), observation
            train(Transition(*(tf.constant(part, tf.float32) for part in parts)))
        tested = draw(200).astype(np.float32)
        steps = ts.restart(tf.constant(tested), batch_size=200)
        return reward_of(tested, agent.policy.action(steps).action.numpy()).mean()

    assert mean_reward_after_training() > -0.2
    always_zero = -4 * 0.4**2  # the numbers have variance 1
    assert mean_reward_after_training(normalize_observations=False) < always_zero
