import numpy as np
import pytest
import tensorflow as tf
from recurrent_fakes import recurrent_actor
from tf_agents.networks.actor_distribution_network import ActorDistributionNetwork
from tf_agents.policies import actor_policy, greedy_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.networks.actor_networks import MlpActorNetwork, acting_network
from tfagents_system.networks.batch_norm import BatchNormLayers
from tfagents_system.networks.batch_renorm import RenormalizedLayers
from tfagents_system.networks.normalizer import Normalizer
from tfagents_system.networks.normalizing_networks import NormalizingActorNetwork
from tfagents_system.networks.observation_encoders import VisualSummarizer
from tfagents_system.policies.numpy_actor import NumpyActor, has_convolutions, obstacle_to_numpy
from tfagents_system.policies.numpy_policies import NumpyCollectPolicy, NumpyGreedyPolicy

OBSERVATION = tf.TensorSpec([3], tf.float32, "observation")
LOW, HIGH = np.float32([-1, 2]), np.float32([5, 2.5])
ACTION = tensor_spec.BoundedTensorSpec([2], tf.float32, LOW, HIGH, "action")


def make_policy(ctor, observation_spec=OBSERVATION, layers=(6, 5), **kwargs):
    network = ctor(observation_spec, ACTION, fc_layer_params=layers, **kwargs)
    policy = actor_policy.ActorPolicy(ts.time_step_spec(observation_spec), ACTION, network)
    rng = np.random.default_rng(1)
    for variable in policy.variables():
        values = rng.normal(size=variable.shape)
        variable.assign(abs(values) if "variance" in variable.name else values)
    return policy


def crossq_actor(observation_spec, action_spec, fc_layer_params):
    return NormalizingActorNetwork(
        observation_spec, action_spec, fc_layer_params, RenormalizedLayers
    )


def xqc_actor(observation_spec, action_spec, fc_layer_params):
    return NormalizingActorNetwork(observation_spec, action_spec, fc_layer_params, BatchNormLayers)


def actor_of_normalized(observation_spec, action_spec, fc_layer_params):
    actor = MlpActorNetwork(observation_spec, action_spec, fc_layer_params)
    return acting_network(actor, normalizer=Normalizer(observation_spec))


def visual_actor(observation_spec, action_spec, fc_layer_params):
    summarizer = VisualSummarizer(observation_spec, "simple")
    actor = MlpActorNetwork(summarizer.features_spec, action_spec, fc_layer_params)
    return acting_network(actor, summarizer)


def episode(num_steps, seed, spec=OBSERVATION):
    """Time steps without batch axis: FIRST, then MID."""
    rng = np.random.default_rng(seed)
    for t in range(num_steps):
        observation = rng.normal(size=spec.shape) * (100 if spec.dtype.is_integer else 1)
        observation = np.abs(observation).astype(spec.dtype.as_numpy_dtype)
        yield ts.restart(observation) if t == 0 else ts.transition(observation, np.float32(0))


def batched(time_step):
    return tf.nest.map_structure(lambda x: tf.convert_to_tensor(x)[tf.newaxis], time_step)


def gaussian(actor, observation, state=()):
    """Mean and log of the standard deviation, before the squashing."""
    return actor.head.gaussian(actor.outputs(observation, state)[0])


def check_equal_to(policy, actor, spec=OBSERVATION):
    """Compares distributions and greedy actions over two episodes, with the states carried."""
    greedy, numpy_greedy = greedy_policy.GreedyPolicy(policy), NumpyGreedyPolicy(actor)
    state = policy.get_initial_state(batch_size=1)
    for seed in (1, 2):
        numpy_state = actor.initial_state()  # TensorFlow's is reset by the step type alone
        for time_step in episode(5, seed, spec):
            expected = policy.distribution(batched(time_step), state).action
            loc, log_std = gaussian(actor, time_step.observation, numpy_state)
            parameters = getattr(expected, "input_distribution", expected).parameters
            np.testing.assert_allclose(loc, parameters["loc"][0], atol=1e-5)
            np.testing.assert_allclose(log_std, parameters["log_std"][0], atol=1e-5)
            step = greedy.action(batched(time_step), state)
            action, numpy_state = numpy_greedy.action(time_step, numpy_state)
            np.testing.assert_allclose(action, step.action[0], atol=1e-5)
            for part, numpy_part in zip(
                tf.nest.flatten(step.state), tf.nest.flatten(numpy_state), strict=True
            ):
                np.testing.assert_allclose(numpy_part, part[0], atol=1e-5)
            state = step.state


@pytest.mark.parametrize("layers", [(6, 5), (4,)])
@pytest.mark.parametrize(
    "ctor", [MlpActorNetwork, crossq_actor, xqc_actor, recurrent_actor, actor_of_normalized]
)
def test_equals_the_tf_policy_before_and_after_an_update(ctor, layers):
    policy = make_policy(ctor, layers=layers)
    actor = NumpyActor(policy)
    check_equal_to(policy, actor)
    rng = np.random.default_rng(2)
    values = [
        rng.uniform(0.1, 1, v.shape).astype(v.dtype.as_numpy_dtype) for v in policy.variables()
    ]
    actor.update(values)
    for variable, value in zip(policy.variables(), values, strict=True):
        variable.assign(value)
    check_equal_to(policy, actor)


@pytest.mark.parametrize("ctor", [MlpActorNetwork, xqc_actor, actor_of_normalized])
@pytest.mark.parametrize("observation", [np.ones(1, np.float32), np.ones(7, np.float32)])
def test_an_observation_of_another_size_is_refused_also_where_normalization_would_broadcast(
    ctor, observation
):
    actor = NumpyActor(make_policy(ctor))
    with pytest.raises(ValueError):
        actor.outputs(observation, actor.initial_state())


@pytest.mark.parametrize("ctor", [MlpActorNetwork, recurrent_actor])
def test_equals_the_tf_policy_for_categories(ctor):
    spec = tensor_spec.BoundedTensorSpec([2], tf.int64, [3, 0], [5, 400], "category_of_places")
    policy = make_policy(ctor, spec)
    check_equal_to(policy, NumpyActor(policy), spec)


def test_equals_the_tf_policy_without_hidden_layers():
    policy = make_policy(MlpActorNetwork, layers=())
    check_equal_to(policy, NumpyActor(policy))


@pytest.mark.parametrize(
    "spec",
    [
        tf.TensorSpec([], tf.float32),
        tf.TensorSpec([2, 3], tf.float32),
        tf.TensorSpec([4], tf.uint8),
    ],
)
def test_equals_the_tf_policy_for_observations_of_other_shapes_and_dtypes(spec):
    policy = make_policy(MlpActorNetwork, spec)
    for variable in policy.variables():
        variable.assign(variable / 10)
    check_equal_to(policy, NumpyActor(policy), spec)


def test_observation_in_a_dict_of_one_is_the_array_itself():
    policy = make_policy(MlpActorNetwork, {"joints": OBSERVATION})
    observation = np.float32([0.1, 0.2, 0.3])
    expected = policy.distribution(batched(ts.restart({"joints": observation}))).action
    loc, _ = gaussian(NumpyActor(policy), {"joints": observation})
    parameters = getattr(expected, "input_distribution", expected).parameters
    np.testing.assert_allclose(loc, parameters["loc"][0], atol=1e-5)


def test_weights_are_copied_not_shared():
    policy = make_policy(MlpActorNetwork)
    actor = NumpyActor(policy)
    observation = np.ones(3, np.float32)
    before = gaussian(actor, observation)[0]
    for variable in policy.variables():
        variable.assign(variable * 2)
    np.testing.assert_array_equal(gaussian(actor, observation)[0], before)


def test_observation_is_not_changed():
    observation = np.float32([1, -2, 3])
    gaussian(NumpyActor(make_policy(MlpActorNetwork, layers=())), observation)
    np.testing.assert_array_equal(observation, [1, -2, 3])


def test_collect_policy_samples_the_squashed_gaussian():
    actor = NumpyActor(make_policy(MlpActorNetwork))
    policy = NumpyCollectPolicy(actor, [np.random.default_rng(3)])
    time_step = next(episode(1, seed=4))
    loc, log_std = gaussian(actor, time_step.observation)
    actions = np.array([policy.action(time_step, ())[0] for _ in range(5)])
    noise = np.random.default_rng(3)
    for action in actions:
        pre_tanh = loc + np.exp(log_std) * noise.standard_normal(2, np.float32)
        expected = (HIGH + LOW) / 2 + (HIGH - LOW) / 2 * np.tanh(pre_tanh)
        np.testing.assert_allclose(action, expected, rtol=1e-6)


def test_collect_policy_carries_the_state_of_the_lstm():
    actor = NumpyActor(make_policy(recurrent_actor))
    collect, greedy = (
        NumpyCollectPolicy(actor, [np.random.default_rng(3)]),
        NumpyGreedyPolicy(actor),
    )
    states = [collect.initial_state(), greedy.initial_state()]
    for time_step in episode(3, seed=4):
        states = [
            policy.action(time_step, state)[1]
            for policy, state in zip((collect, greedy), states, strict=True)
        ]
    np.testing.assert_array_equal(states[0], states[1])
    assert np.abs(states[0]).min() > 0


def test_large_lstm_gates_do_not_overflow():
    policy = make_policy(recurrent_actor)
    actor = NumpyActor(policy)
    with np.errstate(all="raise", under="ignore"):
        loc, _ = gaussian(actor, np.full(3, -1e6, np.float32), actor.initial_state())
    assert np.isfinite(loc).all()


@pytest.mark.parametrize("ctor", [visual_actor, recurrent_actor])
def test_convolutions_run_in_numpy_but_workers_act_on_images_in_tensorflow(ctor):
    image = tf.TensorSpec([20, 20, 1], tf.uint8)
    policy = make_policy(ctor, image)
    for variable in policy.variables():
        variable.assign(variable / 10)
    check_equal_to(policy, NumpyActor(policy), image)
    assert obstacle_to_numpy(policy) is None
    assert has_convolutions(policy) and not has_convolutions(make_policy(MlpActorNetwork))


def test_only_built_in_networks_of_a_single_array_run_in_numpy():
    assert obstacle_to_numpy(make_policy(MlpActorNetwork)) is None
    assert obstacle_to_numpy(make_policy(recurrent_actor)) is None
    combiner = tf.keras.layers.Concatenate()
    nested = {"a": OBSERVATION, "b": OBSERVATION}

    class Changed(MlpActorNetwork):
        pass

    for policy, obstacle in [
        (make_policy(MlpActorNetwork, nested, preprocessing_combiner=combiner), "a preprocessing_"),
        (make_policy(ActorDistributionNetwork), "ActorDistributionNetwork, no built-in one"),
        (make_policy(Changed), "Changed, no built-in one"),
        (greedy_policy.GreedyPolicy(make_policy(MlpActorNetwork)), "GreedyPolicy and no ActorPol"),
    ]:
        assert obstacle in obstacle_to_numpy(policy)
