import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

from tfagents_system.networks.actor_networks import MlpActorNetwork
from tfagents_system.networks.encoders import ObservationEncoder
from tfagents_system.networks.entity_encoder import NUM_HEADS, SIZE, EntityAttention, EntityEncoder
from tfagents_system.networks.image_encoders import VisualEncoder
from tfagents_system.networks.observation_encoders import VisualSummarizer, observation_encoder
from tfagents_system.policies import numpy_encoders
from tfagents_system.policies.encoder_steps import encoder_arrays

BLOCKS = tf.TensorSpec([5, 3], tf.float32, "blocks.entities")
TREES = tf.TensorSpec([4, 2], tf.float32, "trees.entities")
SPEED = tf.TensorSpec([2], tf.float32, "speed")
SPEC = {"blocks": BLOCKS, "speed": SPEED, "trees": TREES}


def padded(rows, spec):
    array = np.zeros(spec.shape, np.float32)
    array[: len(rows)] = rows
    return array


def with_weights(encoder, seed=1):
    """Makes the variables, and draws them."""
    rng = np.random.default_rng(seed)
    zeros = tf.nest.pack_sequence_as(
        SPEC if len(encoder.specs) > 1 else BLOCKS,
        [tf.zeros([1, *spec.shape], spec.dtype) for spec in encoder.specs],
    )
    encoder(zeros)
    for variable in encoder.variables:
        variable.assign(rng.normal(scale=0.3, size=variable.shape))
    return encoder


def expected_features(weights, features, lists):
    """The features of entities of which none is absent, one by one, in float64."""
    weights = iter([np.float64(w) for w in weights])

    def dense(rows):
        kernel, bias = next(weights), next(weights)
        return rows @ kernel + bias

    def swish(x):
        return x / (1 + np.exp(-x))

    def standardized(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    own = [swish(dense(features))] if len(features) else []
    x = []
    for entities in lists:
        rows = [np.concatenate([*own, entity]) for entity in entities]
        size = sum(map(len, own)) + entities.shape[1]
        x.append(swish(dense(np.reshape(rows, [len(rows), size]))))
    x = standardized(np.concatenate(x))
    query, key, value = dense(x), dense(x), dense(x)
    attended = np.zeros_like(x)
    for head in np.split(np.arange(SIZE), NUM_HEADS):
        for i in range(len(x)):
            scores = np.array([query[i, head] @ key[j, head] / SIZE**0.5 for j in range(len(x))])
            shares = np.exp(scores - scores.max())
            attended[i, head] = shares / shares.sum() @ value[:, head]
    return standardized(x + dense(attended)).mean(axis=0)


@pytest.mark.parametrize("num_blocks", [0, 1, 3, 5])
@pytest.mark.parametrize("num_trees", [1, 4])
def test_absent_entities_are_as_if_they_were_not_in_the_list(num_blocks, num_trees):
    encoder = with_weights(observation_encoder(SPEC))
    rng = np.random.default_rng(2)
    blocks, trees = rng.normal(size=[num_blocks, 3]), rng.normal(size=[num_trees, 2])
    speed = np.float32([0.3, -0.7])
    observation = {"blocks": padded(blocks, BLOCKS), "speed": speed, "trees": padded(trees, TREES)}
    encoded = encoder({name: part[np.newaxis] for name, part in observation.items()})
    weights = [w for layer in encoder.attention.dense_layers for w in (layer.kernel, layer.bias)]
    expected = expected_features(weights, speed, [blocks, trees])
    np.testing.assert_array_equal(encoded[0, :2], speed)
    np.testing.assert_allclose(encoded[0, 2:], expected, rtol=1e-4, atol=1e-5)


def test_features_by_hand():
    attention = EntityAttention(num_lists=1, has_self=False)
    attention([tf.zeros([1, 2, 1])])
    for variable in attention.variables:
        variable.assign(tf.zeros_like(variable))
    entities, *_ = attention.dense_layers
    entities.bias.assign(np.tile([3, -1], SIZE // 2))  # swish maps these to two numbers
    lists = tf.constant([[[1.0], [0]], [[0.5], [-2]], [[0], [0]], [[0.05], [-0.09]]])
    features = attention([lists])
    # Half of an embedding is above its mean, half as much below: 1 and -1 deviations from it.
    one_or_more = np.tile([1, -1], SIZE // 2)
    np.testing.assert_allclose(features[0], one_or_more, rtol=1e-4)
    np.testing.assert_allclose(features[1], one_or_more, rtol=1e-4)
    np.testing.assert_array_equal(features[2], np.zeros(SIZE))
    np.testing.assert_array_equal(features[3], np.zeros(SIZE))  # 0.09^2 = 0.0081


def test_the_order_of_entities_and_where_the_padding_is_do_not_matter():
    encoder = with_weights(observation_encoder(BLOCKS))
    first, second = np.float32([1, 2, 3]), np.float32([-1, 0.5, 0])
    zeros = np.zeros(3, np.float32)
    one = encoder(tf.constant([[first, second, zeros, zeros, zeros]]))
    other = encoder(tf.constant([[zeros, second, zeros, zeros, first]]))
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert np.abs(one - encoder(tf.constant([[first, first, zeros, zeros, zeros]]))).max() > 0.01


def test_absent_entities_get_no_gradient():
    encoder = with_weights(observation_encoder(BLOCKS))
    lists = tf.constant([padded([[1, 2, 3], [-1, 0.5, 0]], BLOCKS)])
    with tf.GradientTape() as tape:
        tape.watch(lists)
        loss = tf.reduce_sum(encoder(lists) ** 3)
    gradient = tape.gradient(loss, lists)[0]
    assert (np.abs(gradient[:2]) > 0).all()
    np.testing.assert_array_equal(gradient[2:], np.zeros([3, 3]))


@pytest.mark.parametrize("spec", [SPEC, BLOCKS])
def test_numpy_computes_the_same(spec):
    encoder = with_weights(observation_encoder(spec))
    rng = np.random.default_rng(3)

    def drawn(leaf):
        values = rng.normal(size=[200, *leaf.shape])
        if leaf is not SPEED:
            values *= rng.random(values.shape[:2] + (1,)) < rng.choice([0, 0.5, 1], [200, 1, 1])
        return np.float32(values)

    observation = tf.nest.map_structure(drawn, spec)
    rows = np.concatenate([p.reshape(200, -1) for p in tf.nest.flatten(observation)], axis=1)
    arrays = encoder_arrays(encoder, lambda variable: variable.numpy())
    expected = encoder(observation)
    np.testing.assert_allclose(numpy_encoders.encoded(arrays, rows), expected, rtol=1e-5, atol=1e-5)
    one = numpy_encoders.encoded(arrays, rows[7])
    np.testing.assert_allclose(one, expected[7], rtol=1e-5, atol=1e-5)
    assert one.dtype == np.float32


def test_a_sequence_is_encoded_step_by_step():
    encoder = with_weights(observation_encoder(SPEC))
    rng = np.random.default_rng(4)
    observation = {
        name: tf.constant(rng.normal(size=[2, 3, *spec.shape]), tf.float32)
        for name, spec in SPEC.items()
    }
    features = encoder(observation)
    assert features.shape == [2, 3, 2 + SIZE]
    for t in range(3):
        step = {name: part[:, t] for name, part in observation.items()}
        np.testing.assert_allclose(features[:, t], encoder(step), rtol=1e-4, atol=1e-5)


def test_sizes_and_initial_weights_are_those_of_ml_agents():
    encoder = observation_encoder(SPEC)
    encoder({name: tf.zeros([1, *spec.shape]) for name, spec in SPEC.items()})
    shapes = [layer.kernel.shape.as_list() for layer in encoder.attention.dense_layers]
    assert shapes == [[2, 128], [128 + 3, 128], [128 + 2, 128], *[[128, 128]] * 4]
    for layer in encoder.attention.dense_layers[1:]:
        np.testing.assert_allclose(np.std(layer.kernel), (0.125 / 128) ** 0.5, rtol=0.1)
        np.testing.assert_array_equal(layer.bias, np.zeros(128))


def test_images_and_combiners_have_their_encoders():
    camera = tf.TensorSpec([20, 20, 1], tf.uint8)
    summarizer = VisualSummarizer({"blocks": BLOCKS, "camera": camera}, "simple")
    assert isinstance(summarizer.encoder, EntityEncoder)
    assert isinstance(summarizer.encoder.others, VisualEncoder)
    pixels = tf.ones([1, 20, 20, 1], tf.uint8)
    features, _ = summarizer({"blocks": tf.ones([1, 5, 3]), "camera": pixels})
    size = 32 + SIZE  # 20 -> (20 - 8) / 4 + 1 = 4 -> 1
    assert features.shape == [1, size] and summarizer.features_spec.shape == [size]
    combiner = tf.keras.layers.Lambda(lambda nest: nest["speed"])
    assert type(observation_encoder(SPEC, combiner)) is ObservationEncoder


def test_copies_have_variables_of_their_own():
    action = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1)
    network = MlpActorNetwork(SPEC, action)
    network.create_variables()
    copy = network.copy(name="copy")
    copy.create_variables()
    assert [v.shape for v in copy.variables] == [v.shape for v in network.variables]
    assert len(network.variables) == 2 * (1 + 2 + 4) + 2 * 3
    assert not {v.ref() for v in copy.variables} & {v.ref() for v in network.variables}
