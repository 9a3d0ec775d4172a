import numpy as np
import pytest
import tensorflow as tf
from tf_agents.networks import encoding_network
from tf_agents.specs import tensor_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.networks import encoders
from tfagents_system.policies import numpy_encoders
from tfagents_system.policies.encoder_steps import encoder_arrays


@pytest.mark.parametrize("lead", [(2,), (2, 5)])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)])
def test_single_array_is_flattened_behind_the_leading_axes(lead, shape):
    encoder = encoders.ObservationEncoder(tf.TensorSpec(shape, tf.float32))
    observation = np.arange(np.prod(lead + shape), dtype=np.float32).reshape(lead + shape)
    expected = observation.reshape(lead + (-1,))
    np.testing.assert_array_equal(encoder(tf.constant(observation)), expected)


def test_leading_axes_may_be_unknown():
    encoder = encoders.ObservationEncoder(tf.TensorSpec((2, 3), tf.float32))
    function = tf.function(encoder, input_signature=[tf.TensorSpec([None, None, 2, 3])])
    assert function(tf.zeros([4, 5, 2, 3])).shape == [4, 5, 6]


def test_integers_become_float32():
    encoder = encoders.ObservationEncoder(tf.TensorSpec([2], tf.uint8))
    encoded = encoder(tf.constant([[0, 255]], tf.uint8))
    assert encoded.dtype == tf.float32
    np.testing.assert_array_equal(encoded, [[0, 255]])


def test_a_category_is_an_input_for_each_of_its_integers():
    place = tensor_spec.BoundedTensorSpec([], tf.int64, 3, 5, "category_of_place")
    cards = tensor_spec.BoundedTensorSpec([2], tf.int32, [0, 0], [1, 2], "category_of_cards")
    number = tensor_spec.BoundedTensorSpec([], tf.int64, 3, 5, "number")
    encoder = encoders.ObservationEncoder({"a": cards, "b": number, "c": place})
    observation = {
        "a": tf.constant([[1, 0], [0, 2]]),
        "b": tf.constant([4, 5], tf.int64),
        "c": tf.constant([3, 5], tf.int64),
    }
    expected = [[0, 1, 1, 0, 0, 4, 1, 0, 0], [1, 0, 0, 0, 1, 5, 0, 0, 1]]
    encoded = encoder(observation)
    assert encoded.dtype == tf.float32
    np.testing.assert_array_equal(encoded, expected)
    sequence = {name: part[tf.newaxis] for name, part in observation.items()}
    np.testing.assert_array_equal(encoder(sequence), [expected])
    for row in (0, 1):
        joined = [tf.cast(tf.reshape(part[row], [-1]), tf.float32) for part in observation.values()]
        np.testing.assert_array_equal(
            numpy_encoders.encoded(
                encoder_arrays(encoder, lambda variable: variable.numpy()),
                tf.concat(joined, 0).numpy(),
            ),
            expected[row],
        )


NESTED = {"joints": tf.TensorSpec([2], tf.float32), "camera": tf.TensorSpec([3], tf.uint8)}


def test_parts_without_a_combiner_are_flattened_and_joined_by_key():
    specs = NESTED | {"matrix": tf.TensorSpec([2, 2], tf.float64)}
    encoder = encoders.ObservationEncoder(specs)
    observation = {
        "joints": tf.constant([[0.5, 0.25]]),
        "camera": tf.constant([[1, 2, 3]], tf.uint8),
        "matrix": tf.constant([[[4, 5], [6, 7]]], tf.float64),
    }
    encoded = encoder(observation)
    assert encoded.dtype == tf.float32
    np.testing.assert_array_equal(encoded, [[1, 2, 3, 0.5, 0.25, 4, 5, 6, 7]])
    sequence = {name: tf.stack([part, part], axis=1) for name, part in observation.items()}
    np.testing.assert_array_equal(encoder(sequence), tf.stack([encoded, encoded], axis=1))


def test_combiner_joins_the_leaves_of_a_nested_observation_by_key():
    encoder = encoders.ObservationEncoder(NESTED, tf.keras.layers.Concatenate())
    observation = {
        "joints": tf.constant([[0.5, 0.25]]),
        "camera": tf.constant([[1, 2, 3]], tf.uint8),
    }
    np.testing.assert_array_equal(encoder(observation), [[1, 2, 3, 0.5, 0.25]])


def nested(lead):
    num_steps = int(np.prod(lead))
    joints = np.arange(2 * num_steps, dtype=np.float32).reshape(*lead, 2)
    camera = np.arange(3 * num_steps).astype(np.uint8).reshape(*lead, 3)
    return {"joints": tf.constant(joints), "camera": tf.constant(camera)}


@pytest.mark.parametrize("lead", [(2,), (2, 5)])
def test_other_layers_receive_the_nest_as_the_environment_gives_it(lead):
    seen = []

    def pick(observation):
        seen.append(observation)
        return observation["camera"]

    encoder = encoders.ObservationEncoder(NESTED, tf.keras.layers.Lambda(pick))
    encoded = encoder(nested(lead))
    assert (encoded.dtype, encoded.shape) == (tf.float32, [*lead, 3])
    np.testing.assert_array_equal(encoded, nested(lead)["camera"])
    steps = int(np.prod(lead))  # one axis for all steps of all sequences, as in TF-Agents
    received = {name: (leaf.dtype.name, leaf.shape) for name, leaf in seen[0].items()}
    assert received == {"joints": ("float32", [steps, 2]), "camera": ("uint8", [steps, 3])}


@pytest.mark.parametrize("lead", [(2,), (2, 5)])
@pytest.mark.parametrize(
    "layer, join",
    [
        (tf.keras.layers.Concatenate(), lambda a, b: np.concatenate([a, b], axis=-1)),
        (tf.keras.layers.Add(), lambda a, b: a + b),
        (tf.keras.layers.Maximum(), np.maximum),
    ],
)
def test_merge_layers_receive_the_list_of_leaves(lead, layer, join):
    specs = (tf.TensorSpec([3], tf.float32), tf.TensorSpec([3], tf.int32))
    first = np.random.default_rng(0).normal(size=[*lead, 3]).astype(np.float32)
    second = np.arange(first.size).reshape(first.shape).astype(np.int32) - 3
    encoder = encoders.ObservationEncoder(specs, layer)
    encoded = encoder((tf.constant(first), tf.constant(second)))
    np.testing.assert_array_equal(encoded, join(first, np.float32(second)))


def test_a_layer_sees_what_tf_agents_encoding_network_lets_it_see():
    spec = {"frame": tf.TensorSpec([4, 4, 1], tf.float32), "id": tf.TensorSpec([], tf.int32)}
    combiner = tf.keras.layers.Lambda(
        lambda o: (
            tf.nn.avg_pool2d(o["frame"], 2, 2, "VALID")
            * tf.cast(tf.one_hot(o["id"], 3), tf.float32)[:, tf.newaxis, tf.newaxis, :]
        )
    )
    rng = np.random.default_rng(0)
    observation = {
        "frame": tf.constant(rng.normal(size=[2, 5, 4, 4, 1]), tf.float32),
        "id": tf.constant(rng.integers(3, size=[2, 5]), tf.int32),
    }
    theirs = encoding_network.EncodingNetwork(spec, preprocessing_combiner=combiner)
    encoded = encoders.ObservationEncoder(spec, combiner)(observation)
    assert encoded.shape == [2, 5, 2 * 2 * 3]
    np.testing.assert_array_equal(encoded, theirs(observation)[0])


def test_each_encoder_has_its_own_copy_of_the_combiner():
    combiner = tf.keras.layers.Concatenate()
    first, second = (encoders.ObservationEncoder(NESTED, combiner) for _ in range(2))
    assert len({id(first.combiner), id(second.combiner), id(combiner)}) == 3


def test_a_combiner_that_cannot_be_copied_is_refused_unless_in_a_model():
    spec = tf.TensorSpec([1], tf.float32)
    normalization = tf.keras.layers.Normalization()
    normalization.adapt([[1.0], [3.0]])
    with pytest.raises(ConfigError, match=r"combiner, a Normalization, cannot .* tf.keras.Model\("):
        encoders.ObservationEncoder(spec, normalization)
    inputs = tf.keras.Input([1])
    encoder = encoders.ObservationEncoder(spec, tf.keras.Model(inputs, normalization(inputs)))
    np.testing.assert_allclose(encoder(tf.constant([[5.0]])), [[(5 - 2) / 1]])  # mean 2, variance 1
