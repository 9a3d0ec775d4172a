"""Agents whose last hidden layers are generated from goals."""

import numpy as np
import pytest
import tensorflow as tf
from agents import test_entity_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.core.errors import ConfigError
from tfagents_system.data.transition import MID, Transition
from tfagents_system.policies.numpy_actor import NumpyActor, obstacle_to_numpy

TARGET = tf.TensorSpec([2], tf.float32, "target.goal_signal")
SPEED = tf.TensorSpec([2], tf.float32, "speed")
SPEC = {"speed": SPEED, "target": TARGET}
CAMERA = tf.TensorSpec([20, 20, 1], tf.uint8, "camera")
ACTION = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1, "action")
ABLE = [name for name, row in ALGORITHMS.items() if row.has_goal_conditioning]


LAYERS = {"actor_fc_layer_params": (8, 7), "critic_joint_fc_layer_params": (8, 7)}


def make_agent(spec, **settings):
    return test_entity_agent.make_agent(spec, **LAYERS | settings)


def batch(spec, *lead):
    rng = np.random.default_rng(0)

    def observation():
        return tf.nest.map_structure(
            lambda leaf: tf.cast(rng.uniform(0, 2, [*lead, *leaf.shape]), leaf.dtype), spec
        )

    ones = tf.ones(lead)
    action = tf.constant(rng.uniform(-1, 1, [*lead, 1]), tf.float32)
    return Transition(MID * ones, observation(), action, ones, ones, observation())


CASES = [
    *((SPEC, {"algorithm": algorithm}) for algorithm in ABLE),
    (SPEC, {"critic_layer_norm": True, "critic_dropout_rate": 0.1}),
    (SPEC, {"state_value_network": True, "normalize_observations": True}),
    (SPEC | {"camera": CAMERA}, {}),
    (SPEC, {"recurrent": True}),
    (SPEC | {"camera": CAMERA}, {"recurrent": True, "share_summarizer": True}),
]


@pytest.mark.parametrize(("spec", "settings"), CASES)
def test_a_train_step_changes_the_weights_that_generate_layers(spec, settings):
    agent = make_agent(spec, **settings)
    networks = agent.networks
    makers = [
        variable
        for network in [networks.actor, *networks.critics, networks.state_value]
        if network is not None
        for variable in network.trainable_variables
        if "kernel_of_goals" in variable.name
    ]
    assert len(makers) == 2 * (1 + len(networks.critics) + (networks.state_value is not None))
    before = [variable.numpy() for variable in makers]
    lead = (2, 3) if settings.get("recurrent") else (4,)
    for _ in range(3):  # the actor's in every second or third step
        assert np.isfinite(agent.train(batch(spec, *lead)).loss)
    for old, variable in zip(before, makers, strict=True):
        assert (old != variable.numpy()).any(), variable.name


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        (SPEC, {}),
        (SPEC, {"recurrent": True}),
        (SPEC | {"blocks": tf.TensorSpec([3, 2], tf.float32, "blocks.entities")}, {}),
    ],
)
def test_a_worker_acts_in_numpy_as_in_tensorflow(spec, settings):
    policy = make_agent(spec, **settings).collect_policy
    assert obstacle_to_numpy(policy) is None
    actor = NumpyActor(policy)
    rows = batch(spec, 5).observation
    first = ts.restart(rows, batch_size=5)
    expected = policy.distribution(first, policy.get_initial_state(5)).action
    observations = [{name: part[k].numpy() for name, part in rows.items()} for k in range(5)]
    outputs, _ = actor.outputs_of_all(observations, [actor.initial_state()] * 5)
    parameters = expected.parameters
    np.testing.assert_allclose(actor.head.gaussian(outputs)[0], parameters["loc"], atol=1e-5)
    one, _ = actor.outputs(observations[3], actor.initial_state())
    np.testing.assert_allclose(one, outputs[3], atol=1e-5)


BLOCKS = tf.TensorSpec([3, 2], tf.float32, "blocks.entities.goal_signal")


@pytest.mark.parametrize(
    ("spec", "settings", "message"),
    [
        (SPEC, {"algorithm": "crossq"}, "algorithm is 'crossq', which normalizes batches"),
        (SPEC, {"algorithm": "xqc"}, "algorithm is 'xqc', which normalizes batches"),
        (SPEC, {"actor_fc_layer_params": ()}, "actor_fc_layer_params has no layer to generate"),
        (SPEC, {"preprocessing_combiner": tf.keras.layers.Add()}, "is a preprocessing_combiner"),
        (SPEC | {"b": BLOCKS}, {}, r"goals \(blocks, target\), of which one is a list of entities"),
        (
            SPEC | {"c": tf.TensorSpec([20, 20, 1], tf.uint8, "camera.goal_signal")},
            {},
            r"goals \(camera, target\), of which one is an image",
        ),
    ],
)
def test_what_cannot_be_conditioned_is_refused(spec, settings, message):
    with pytest.raises(ConfigError, match=f"{message}.*expected goal_conditioning_type = 'none'"):
        make_agent(spec, **settings)
