"""Agents on lists of entities: every algorithm trains their encoders."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.data.transition import MID, Transition
from tfagents_system.rewards.encoder import SignalEncoder
from tfagents_system.train_params_base import TrainParamsBase

BLOCKS = tf.TensorSpec([5, 3], tf.float32, "blocks.entities")
SPEED = tf.TensorSpec([2], tf.float32, "speed")
SPEC = {"blocks": BLOCKS, "speed": SPEED}
CAMERA = tf.TensorSpec([20, 20, 1], tf.uint8, "camera")
ACTION = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1, "action")


class Params(TrainParamsBase):
    actor_fc_layer_params = critic_joint_fc_layer_params = (8,)
    rnn_units = 4
    image_encoder = "simple"

    def env_ctor(self, *args, seed=None, **kwargs):
        raise AssertionError("not needed here")


def make_agent(spec, **settings):
    tf.keras.utils.set_random_seed(3)
    params = Params({"horizon": 50})
    for name, value in settings.items():
        setattr(params, name, value)
    params.check("params.py")
    train_step = tf.Variable(0, dtype=tf.int64)
    return params.agent_ctor(train_step, spec, ACTION, ts.time_step_spec(spec))


def batch(spec, *lead):
    """Lists of 5, 4, .. entities, down to none."""
    rng = np.random.default_rng(0)

    def leaf_of(leaf):
        values = rng.uniform(-1, 1, [*lead, *leaf.shape])
        if leaf.dtype == tf.uint8:
            values = rng.integers(256, size=values.shape)
        if leaf is BLOCKS:
            count = 5 - np.arange(values[..., 0, 0].size).reshape(lead) % 6
            values *= (np.arange(5) < count[..., np.newaxis])[..., np.newaxis]
        return tf.constant(values.astype(leaf.dtype.as_numpy_dtype))

    def observation():
        return tf.nest.map_structure(leaf_of, spec)

    ones = tf.ones(lead)
    action = tf.constant(rng.uniform(-1, 1, [*lead, 1]), tf.float32)
    return Transition(
        MID * ones, observation(), action, ones, ones, observation(), return_so_far=ones
    )


CASES = [
    *((SPEC, {"algorithm": algorithm}) for algorithm in ALGORITHMS),
    (BLOCKS, {"algorithm": "sac", "state_value_network": True}),
    (SPEC, {"normalize_observations": True}),
    (SPEC | {"camera": CAMERA}, {}),
    (SPEC | {"camera": CAMERA}, {"algorithm": "crossq"}),
    (SPEC, {"recurrent": True}),
    (SPEC | {"camera": CAMERA}, {"recurrent": True, "share_summarizer": True}),
    (SPEC, {"critic_observations": ["speed"]}),
    (SPEC, {"critic_observations": ["blocks"]}),
]


def layer_of(variable):
    return variable.name.split("/")[-2]


@pytest.mark.parametrize(("spec", "settings"), CASES)
def test_a_train_step_changes_all_weights_of_attention(spec, settings):
    agent = make_agent(spec, **settings)
    networks = agent.networks
    all_networks = [networks.actor, *networks.critics, networks.summarizer, networks.state_value]
    attention = [
        variable
        for network in all_networks
        if network is not None
        for variable in network.trainable_variables
        if "entity_attention" in variable.name and "key/bias" not in variable.name
    ]  # the same in all scores of a query, the bias of keys has no effect
    assert {layer_of(variable) for variable in attention} >= {"entities_0", "query", "output"}
    before = [variable.numpy() for variable in attention]
    lead = (2, 6) if settings.get("recurrent") else (12,)
    for _ in range(3):  # the actor's in every second or third step
        assert np.isfinite(agent.train(batch(spec, *lead)).loss)
    for old, variable in zip(before, attention, strict=True):
        assert (old != variable.numpy()).any(), variable.name


def test_signals_encode_entities_beside_the_other_parts():
    encoder = SignalEncoder(SPEC | {"camera": CAMERA}, 6, "simple", None, "phi")
    assert encoder.num_features == 6 + 6  # of the image, and of all others together
    sample = batch(SPEC | {"camera": CAMERA}, 7).observation
    features = encoder(sample)
    beyond = tf.concat([sample["blocks"][:, :4], tf.ones([7, 1, 3])], axis=1)
    others = encoder(sample | {"blocks": beyond})
    np.testing.assert_array_equal(features[:, :6], others[:, :6])
    assert (np.abs(features[:, 6:] - others[:, 6:]).max(axis=1) > 0).all()
