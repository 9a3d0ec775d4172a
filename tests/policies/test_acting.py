import math

import numpy as np
import pytest
import tensorflow as tf
from fakes import CountingEnv
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.construction import make_agent
from tfagents_system.core.errors import ConfigError
from tfagents_system.policies.acting import AgentPolicies, RandomPolicy, TfActingPolicy
from tfagents_system.policies.noise import OU_DAMPING
from tfagents_system.policies.numpy_policies import NumpyCollectPolicy, NumpyGreedyPolicy
from tfagents_system.train_params_base import TrainParamsBase


class NestedEnv(CountingEnv):
    """The step count as a dict of a vector and an integer."""

    def observation_spec(self):
        return {
            "count": array_spec.ArraySpec([2], np.float32),
            "is_odd": array_spec.ArraySpec([1], np.int32),
        }

    def _observation(self):
        return {
            "count": np.full(2, self._count, np.float32),
            "is_odd": np.array([self._count % 2], np.int32),
        }


class Params(TrainParamsBase):
    actor_fc_layer_params = (4,)
    critic_joint_fc_layer_params = (4,)

    def __init__(self, **values):
        super().__init__({"horizon": 10})
        for name, value in values.items():
            setattr(self, name, value)

    def env_ctor(self, *args, seed=None, **kwargs):
        raise AssertionError("not needed here")


def policies_for(environment, noise_beta=0.0, **values):
    agent, _ = make_agent(Params(**values), environment)
    return agent, AgentPolicies(agent, np.random.default_rng(0), noise_beta)


def actions_of(policy, environment, num_steps=4):
    """Acts in an episode; returns the actions."""
    time_step, state = environment.reset(), policy.initial_state()
    actions = []
    for _ in range(num_steps):
        action, state = policy.action(time_step, state)
        actions.append(action)
        time_step = environment.step(action)
    return np.array(actions)


@pytest.mark.parametrize("recurrent", [False, True])
def test_built_in_networks_act_in_numpy(recurrent):
    _, policies = policies_for(CountingEnv(), recurrent=recurrent)
    assert type(policies.collect) is NumpyCollectPolicy
    assert type(policies.greedy) is NumpyGreedyPolicy


@pytest.mark.parametrize("recurrent", [False, True])
def test_nested_observation_without_combiner_acts_in_numpy(recurrent):
    environment = NestedEnv()
    agent, policies = policies_for(environment, recurrent=recurrent)
    assert type(policies.greedy) is NumpyGreedyPolicy
    in_tensorflow = TfActingPolicy(agent.policy)
    time_step = environment.reset()
    expected, _ = in_tensorflow.action(time_step, in_tensorflow.initial_state())
    action, _ = policies.greedy.action(time_step, policies.greedy.initial_state())
    np.testing.assert_allclose(action, expected, atol=1e-5)


@pytest.mark.parametrize("recurrent", [False, True])
def test_nested_observation_with_combiner_acts_in_tensorflow(recurrent):
    environment = NestedEnv()
    combiner = tf.keras.layers.Concatenate()
    _, policies = policies_for(environment, preprocessing_combiner=combiner, recurrent=recurrent)
    assert type(policies.collect) is TfActingPolicy
    actions = actions_of(policies.collect, environment)
    assert (actions.shape, actions.dtype) == ((4, 1), np.float32)
    assert len(np.unique(actions)) == 4
    greedy = actions_of(policies.greedy, environment)
    np.testing.assert_array_equal(actions_of(policies.greedy, environment), greedy)


def test_brown_noise_moves_actions_slowly_and_anew_in_each_episode():
    def jumps(noise_beta):
        agent, policies = policies_for(CountingEnv(), noise_beta, recurrent=False)
        policies.update([np.zeros(v.shape, np.float32) for v in policies.variables])
        episodes = [actions_of(policies.collect, CountingEnv(), 50)[:, 0] for _ in range(20)]
        starts = np.array([episode[0] for episode in episodes])
        return np.abs(np.diff(episodes, axis=1)).mean(), np.abs(np.diff(starts)).mean()

    within, between = jumps(2.0)
    assert within < between / 4
    within, between = jumps(0.0)
    assert between / 2 < within < between * 2


@pytest.mark.parametrize("beta, is_refused", [(0.0, False), (1.0, True)])
def test_coloured_noise_needs_a_built_in_network(beta, is_refused):
    combiner = tf.keras.layers.Concatenate()
    if not is_refused:
        policies_for(NestedEnv(), beta, preprocessing_combiner=combiner)
        return
    message = "exploration_noise_beta is 1, but NumPy cannot act, because its network has a prep"
    with pytest.raises(ConfigError, match=message):
        policies_for(NestedEnv(), beta, preprocessing_combiner=combiner)


def test_noise_of_ornstein_and_uhlenbeck_needs_a_built_in_network():
    settings = {"algorithm": "ddpg", "exploration_noise": "ornstein_uhlenbeck"}
    policies_for(CountingEnv(), recurrent=False, **settings)
    message = "exploration_noise is ornstein_uhlenbeck, but NumPy cannot act, .* expected gauss"
    with pytest.raises(ConfigError, match=message):
        policies_for(NestedEnv(), preprocessing_combiner=tf.keras.layers.Concatenate(), **settings)


@pytest.mark.parametrize("recurrent", [False, True])
def test_tf_acting_policy_equals_the_numpy_one(recurrent):
    environment = CountingEnv()
    agent, policies = policies_for(environment, recurrent=recurrent)
    np.testing.assert_allclose(
        actions_of(TfActingPolicy(agent.policy), environment),
        actions_of(policies.greedy, environment),
        atol=1e-5,
    )


@pytest.mark.parametrize("is_nested", [False, True])
def test_update_replaces_the_variables_of_both_policies(is_nested):
    environment = NestedEnv() if is_nested else CountingEnv()
    combiner = tf.keras.layers.Concatenate() if is_nested else None
    _, policies = policies_for(environment, preprocessing_combiner=combiner)
    saturating = [np.zeros(v.shape, np.float32) for v in policies.variables]
    saturating[-1][:] = [50.0, -20.0]  # bias of the head: mean and log of the deviation
    policies.update(saturating)
    for policy in (policies.collect, policies.greedy):
        np.testing.assert_allclose(actions_of(policy, environment), 1.0)


def test_update_of_another_number_of_variables_raises():
    combiner = tf.keras.layers.Concatenate()
    _, policies = policies_for(NestedEnv(), preprocessing_combiner=combiner)
    with pytest.raises(ValueError, match="shorter"):
        policies.update([variable.numpy() for variable in policies.variables][:-1])


def test_random_policy_covers_the_bounds_and_repeats_with_its_seed():
    spec = {
        "arm": array_spec.BoundedArraySpec([2], np.float32, [-1, 2], [5, 2.5]),
        "grip": array_spec.BoundedArraySpec([], np.int32, 0, 1),
    }
    time_step = ts.restart(np.zeros(1, np.float32))

    def draw(seed):
        policy = RandomPolicy(spec, seed)
        return [policy.action(time_step, policy.initial_state())[0] for _ in range(200)]

    actions = draw(seed=1)
    arms = np.array([action["arm"] for action in actions])
    np.testing.assert_allclose(arms.min(axis=0), [-1, 2], atol=0.1)
    np.testing.assert_allclose(arms.max(axis=0), [5, 2.5], atol=0.1)
    np.testing.assert_allclose(arms.mean(axis=0), [2, 2.25], atol=0.3)
    assert {int(action["grip"]) for action in actions} == {0, 1}
    np.testing.assert_array_equal(arms, [action["arm"] for action in draw(seed=1)])
    assert (arms[0] != draw(seed=2)[0]["arm"]).any()


def test_random_policy_hands_the_state_on():
    policy = RandomPolicy(array_spec.BoundedArraySpec([1], np.float32, 0, 1), seed=0)
    assert policy.initial_state() == ()
    assert policy.action(ts.restart(np.zeros(1)), "state")[1] == "state"


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("algorithm", ["td3", "ddpg"])
def test_deterministic_agents_act_in_numpy_as_in_tensorflow(algorithm, recurrent):
    environment = CountingEnv(bounds=(-1.0, 3.0))
    agent, policies = policies_for(environment, algorithm=algorithm, recurrent=recurrent)
    assert type(policies.greedy) is NumpyGreedyPolicy
    greedy = actions_of(policies.greedy, environment)
    expected = actions_of(TfActingPolicy(agent.policy), environment)
    np.testing.assert_allclose(greedy, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["gaussian", "ornstein_uhlenbeck"])
def test_deterministic_agents_explore_with_noise_of_the_size_that_is_asked_for(kind):
    environment = CountingEnv(bounds=(-1.0, 3.0))  # 2 wide on either side of the middle
    _, policies = policies_for(
        environment, algorithm="td3", exploration_noise=kind, exploration_noise_std=0.01
    )
    time_step, state = environment.reset(), policies.collect.initial_state()
    greedy, _ = policies.greedy.action(time_step, state)
    actions = [policies.collect.action(time_step, state)[0][0] for _ in range(3000)]
    noise = (np.array(actions)[500:] - greedy[0]) / 2
    damping = {"gaussian": 1.0, "ornstein_uhlenbeck": OU_DAMPING}[kind]
    std = 0.01 / math.sqrt(1 - (1 - damping) ** 2)  # of x <- (1 - damping) x + e, in the long run
    assert noise.std() == pytest.approx(std, rel=0.25)
    correlation = np.corrcoef(noise[:-1], noise[1:])[0, 1]
    assert correlation == pytest.approx(1 - damping, abs=0.15)


def test_noisy_actions_are_clipped_to_the_bounds():
    environment = CountingEnv(bounds=(-1.0, 3.0))
    _, policies = policies_for(environment, algorithm="ddpg", exploration_noise_std=1e6)
    assert set(actions_of(policies.collect, environment, 50).ravel()) == {-1.0, 3.0}
