"""Agents on images: convolutions that actor and critics share, and augmentation."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.batch import make_batch, with_shifted_images
from tfagents_system.agents.networks import summarized
from tfagents_system.data.transition import MID, Transition
from tfagents_system.policies.acting import AgentPolicies, TfActingPolicy
from tfagents_system.train_params_base import TrainParamsBase

OBSERVATION = {
    "camera": tf.TensorSpec([20, 20, 3], tf.uint8),
    "joints": tf.TensorSpec([2], tf.float32),
}
ACTION = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1, "action")


class Params(TrainParamsBase):
    actor_fc_layer_params = critic_joint_fc_layer_params = (8,)
    image_encoder = "simple"

    def env_ctor(self, *args, seed=None, **kwargs):
        raise AssertionError("not needed here")


def make_agent(observation_spec=None, **settings):
    observation_spec = observation_spec or OBSERVATION
    tf.keras.utils.set_random_seed(3)
    params = Params({"horizon": 50})
    for name, value in settings.items():
        setattr(params, name, value)
    params.check("params.py")
    train_step = tf.Variable(0, dtype=tf.int64)
    time_step_spec = ts.time_step_spec(observation_spec)
    return params.agent_ctor(train_step, observation_spec, ACTION, time_step_spec)


def batch(*lead):
    rng = np.random.default_rng(0)

    def observation():
        return {
            "camera": tf.constant(rng.integers(256, size=[*lead, 20, 20, 3], dtype=np.uint8)),
            "joints": tf.constant(rng.normal(size=[*lead, 2]).astype(np.float32)),
        }

    ones = tf.ones(lead)
    action = tf.constant(rng.uniform(-1, 1, [*lead, 1]), tf.float32)
    return Transition(MID * ones, observation(), action, ones, ones, observation())


@pytest.mark.parametrize("image_augmentation", [0, 2])
@pytest.mark.parametrize("algorithm", ["sac", "td3", "ddpg"])
def test_the_critics_train_the_convolutions_and_all_have_targets(algorithm, image_augmentation):
    agent = make_agent(algorithm=algorithm, image_augmentation=image_augmentation)
    summarizer, target = agent.networks.summarizer, agent.networks.target_summarizer
    before = [v.numpy() for v in summarizer.variables]
    for one, other in zip(before, target.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    train = tf.function(agent.train, autograph=False)
    for _ in range(2):  # every second step is one of TD3's targets
        info = train(batch(4))
    assert np.isfinite(info.loss)
    after = [v.numpy() for v in summarizer.variables]
    assert all((x != y).any() for x, y in zip(before, after, strict=True))
    assert any((x != y).numpy().any() for x, y in zip(before, target.variables, strict=True))


def test_without_target_critics_both_halves_of_a_joint_batch_have_the_same_convolutions():
    agent = make_agent(algorithm="crossq", critic_learning_rate=0.1)
    assert agent.networks.target_summarizer is None
    data = batch(4)
    for _ in range(2):
        agent.train(data)
    same = make_batch(data._replace(next_observation=data.observation), False, 0)
    features = summarized(agent.networks, same)
    np.testing.assert_array_equal(features.steps.observation, features.next_steps.observation)


def test_augmentation_changes_what_the_critics_are_trained_on():
    settings = {"algorithm": "ddpg"}  # draws nothing itself
    losses = [
        float(make_agent(**settings, image_augmentation=pixels).gradients(batch(4))[1].loss)
        for pixels in (0, 0, 3)
    ]
    assert losses[0] == losses[1] != losses[2]


def test_the_state_value_network_reads_the_features_and_leaves_the_convolutions_alone():
    agent = make_agent(state_value_network=True)
    summarizer, value = agent.networks.summarizer, agent.networks.state_value
    gradients, _ = agent.gradients(batch(4))
    of_networks = [*gradients.critics, gradients.summarizer, gradients.state_value]
    shapes = [[g.shape for g in of_network] for of_network in of_networks]
    networks = [*agent.networks.critics, summarizer, value]
    assert shapes == [[v.shape for v in net.trainable_variables] for net in networks]
    for variable in value.variables:  # another V, the same targets: its own gradients alone differ
        variable.assign(variable + 0.1)
    tf.random.set_seed(0)
    others, _ = agent.gradients(batch(4))
    for one, other in zip(gradients.summarizer, others.summarizer, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert any(
        (np.abs(one - other) > 1e-6).any()
        for one, other in zip(gradients.state_value, others.state_value, strict=True)
    )


@pytest.mark.parametrize("share_summarizer", [False, True])
def test_recurrent_networks_train_on_images(share_summarizer):
    agent = make_agent(recurrent=True, rnn_units=4, share_summarizer=share_summarizer)
    before = [v.numpy() for v in agent.collect_policy.variables()]
    assert np.isfinite(tf.function(agent.train, autograph=False)(batch(2, 3)).loss)
    after = [v.numpy() for v in agent.collect_policy.variables()]
    assert all((x != y).any() for x, y in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [([3, 20, 20], tf.float32), ([20, 20], tf.uint8), ([5, 5, 3], tf.float32)],
)
@pytest.mark.parametrize("settings", [{}, {"recurrent": True, "rnn_units": 4}])
def test_images_of_every_kind_train_without_a_setting(shape, dtype, settings):
    spec = {"left": tf.TensorSpec(shape, dtype), "right": tf.TensorSpec(shape, dtype),
            "joints": tf.TensorSpec([2], tf.float32)}  # fmt: skip
    settings = settings | {
        "image_encoder": None,
        "image_augmentation": 1,
        "normalize_observations": True,
    }
    agent = make_agent(observation_spec=spec, **settings)
    rng = np.random.default_rng(0)
    lead = (2, 3) if agent.collect_policy.policy_state_spec else (4,)

    def observation():
        return tf.nest.map_structure(
            lambda leaf: tf.cast(rng.uniform(0, 255 if leaf.dtype == tf.uint8 else 1,
                                             [*lead, *leaf.shape]), leaf.dtype),
            spec,
        )  # fmt: skip

    ones = tf.ones(lead)
    action = tf.constant(rng.uniform(-1, 1, [*lead, 1]), tf.float32)
    sample = Transition(MID * ones, observation(), action, ones, ones, observation())
    before = [v.numpy() for v in agent.collect_policy.variables()]
    assert np.isfinite(tf.function(agent.train, autograph=False)(sample).loss)
    after = [v.numpy() for v in agent.collect_policy.variables()]
    assert all((x != y).any() for x, y in zip(before, after, strict=True))


def test_acting_on_images_is_compiled_and_the_same_seed_gives_the_same_actions():
    actions = []
    for _ in range(2):
        policies = AgentPolicies(make_agent(), np.random.default_rng(0))
        assert isinstance(policies.collect, TfActingPolicy)
        time_step = ts.restart(tf.nest.map_structure(lambda leaf: leaf[0].numpy(),
                                                     batch(1).observation))  # fmt: skip
        state, of_policy = policies.collect.initial_state(), []
        for _ in range(3):
            action, state = policies.collect.action(time_step, state)
            assert action.shape == (1,)
            of_policy.append(action)
        assert len({float(a[0]) for a in of_policy}) == 3  # they are drawn
        actions.append(of_policy)
    np.testing.assert_array_equal(actions[0], actions[1])


def test_images_before_and_after_a_step_are_shifted_on_their_own_and_vectors_are_not():
    one = batch(16)
    same = one._replace(next_observation=one.observation)
    shifted = with_shifted_images(same, OBSERVATION, 3)
    before, after = shifted.observation, shifted.next_observation
    np.testing.assert_array_equal(before["joints"], after["joints"])
    assert (before["camera"] != after["camera"]).numpy().any()
    sequence = batch(4, 3)
    same = sequence._replace(next_observation=sequence.observation)
    shifted = with_shifted_images(same, OBSERVATION, 3)
    np.testing.assert_array_equal(shifted.observation["camera"], shifted.next_observation["camera"])
