import numpy as np
import pytest
import tensorflow as tf

from tfagents_system.core.errors import ConfigError
from tfagents_system.networks.image_encoders import VisualEncoder, VisualSummarizer, random_shift
from tfagents_system.networks.summarizers import RecurrentSummarizer

CAMERA = tf.TensorSpec([84, 84, 9], tf.uint8, "camera")
NEST = {
    "arm": tf.TensorSpec([2, 2], tf.float32),
    "left": tf.TensorSpec([36, 40, 3], tf.uint8),
    "right": tf.TensorSpec([40, 36, 1], tf.uint8),
}


def images_of(spec, *lead, seed=0):
    rng = np.random.default_rng(seed)
    return tf.constant(rng.integers(256, size=[*lead, *spec.shape], dtype=np.uint8))


@pytest.mark.parametrize(
    ("kind", "num_features"),
    [
        ("offpcc", 50),
        ("simple", 9 * 9 * 32),  # 84 -> (84 - 8) / 4 + 1 = 20 -> (20 - 4) / 2 + 1 = 9
        ("nature_cnn", 7 * 7 * 64),  # 20 -> 9 -> 9 - 2
        ("impala", 9 * 9 * 32),  # 84 - 2 -> 41; 41 - 2 -> 20; 20 - 2 -> 9
    ],
)
def test_features_of_84_by_84(kind, num_features):
    network = VisualSummarizer(CAMERA, kind)
    features, state = network(images_of(CAMERA, 2))
    assert features.shape == [2, num_features]
    assert network.features_spec.shape == [num_features]
    assert state == ()
    assert np.isfinite(features).all() and np.std(features) > 0


def test_offpcc_has_the_layers_of_its_paper_and_a_code_within_one():
    network = VisualSummarizer(CAMERA, "offpcc")
    network.create_variables()
    shapes = [variable.shape.as_list() for variable in network.variables]
    # 84 -> (84 - 3) // 2 + 1 = 41 -> 39 -> 37 -> 35
    assert shapes == [[3, 3, 9, 32], [32], *[[3, 3, 32, 32], [32]] * 3,
                      [35 * 35 * 32, 50], [50], [50], [50]]  # fmt: skip
    features, _ = network(images_of(CAMERA, 2))
    assert np.abs(features).max() <= 1


def test_nature_cnn_by_hand_where_all_weights_are_equal():
    spec = tf.TensorSpec([36, 36, 1], tf.uint8)
    network = VisualSummarizer(spec, "nature_cnn")
    network.create_variables()
    for variable in network.variables:
        variable.assign(tf.fill(variable.shape, 0.01 if len(variable.shape) == 4 else 0.0))
    features, _ = network(tf.fill([1, 36, 36, 1], tf.constant(51, tf.uint8)))
    first = 51 / 255 * 0.01 * 8 * 8 * 1
    second = first * 0.01 * 4 * 4 * 32
    third = second * 0.01 * 3 * 3 * 64
    np.testing.assert_allclose(features, np.full([1, 64], third), rtol=1e-5)  # 8 -> 3 -> 1


def test_cameras_have_convolutions_of_their_own_and_vectors_are_joined_as_they_are():
    encoder = VisualEncoder(NEST, "nature_cnn")
    observation = {
        "arm": tf.reshape(tf.range(8, dtype=tf.float32), [2, 2, 2]),
        "left": images_of(NEST["left"], 2),
        "right": images_of(NEST["right"], 2, seed=1),
    }
    joined = encoder(observation)
    assert joined.shape == [2, 4 + 64 * 1 * 1 + 64 * 1 * 1]
    np.testing.assert_array_equal(joined[:, :4], [[0, 1, 2, 3], [4, 5, 6, 7]])
    other = encoder(observation | {"left": images_of(NEST["left"], 2, seed=2)})
    np.testing.assert_array_equal(other[:, 68:], joined[:, 68:])
    assert np.abs(other[:, 4:68] - joined[:, 4:68]).max() > 0
    assert encoder.num_features == 4 + 64 + 64


def test_a_sequence_is_encoded_step_by_step():
    spec = tf.TensorSpec([20, 20, 2], tf.uint8)
    network = VisualSummarizer(spec, "simple")
    images = images_of(spec, 2, 3)
    features, _ = network(images)
    for t in range(3):
        np.testing.assert_allclose(features[:, t], network(images[:, t])[0], rtol=1e-5, atol=1e-6)


def test_recurrent_layers_read_the_features_of_images():
    spec = tf.TensorSpec([20, 20, 2], tf.uint8)
    network = RecurrentSummarizer(spec, units=3, image_encoder="simple")
    features, state = network(images_of(spec, 2, 4))
    assert features.shape == [2, 4, 3]
    assert [part.shape for part in state] == [[2, 3]] * 2


@pytest.mark.parametrize(
    ("kind", "least"), [("offpcc", 15), ("simple", 20), ("nature_cnn", 36), ("impala", 15)]
)
def test_an_image_that_is_too_small_is_refused(kind, least):
    VisualEncoder(tf.TensorSpec([least, least, 1], tf.uint8), kind)
    small = tf.TensorSpec([least + 5, least - 1, 1], tf.uint8)
    message = f"image_encoder is {kind}, .* at least {least} x {least} .* have {least + 5} x"
    with pytest.raises(ConfigError, match=message):
        VisualEncoder(small, kind)


def test_copies_have_variables_of_their_own():
    network = VisualSummarizer(tf.TensorSpec([20, 20, 2], tf.uint8), "simple")
    network.create_variables()
    copy = network.copy(name="copy")
    copy.create_variables()
    assert [v.shape for v in copy.variables] == [v.shape for v in network.variables]
    assert not {v.ref() for v in copy.variables} & {v.ref() for v in network.variables}


def test_a_shift_is_a_crop_of_the_image_with_repeated_edges():
    spec = tf.TensorSpec([6, 5, 2], tf.uint8)
    images = images_of(spec, 40).numpy()
    shifted = random_shift(tf.constant(images), 2, seed=(1, 2)).numpy()
    assert shifted.dtype == np.uint8
    seen = set()
    for image, moved in zip(images, shifted, strict=True):
        padded = np.pad(image, [(2, 2), (2, 2), (0, 0)], mode="edge")
        crops = {
            (top, left): padded[top : top + 6, left : left + 5]
            for top in range(5)
            for left in range(5)
        }
        matching = [at for at, crop in crops.items() if (crop == moved).all()]
        assert len(matching) == 1
        seen |= set(matching)
    assert {top for top, _ in seen} == {left for _, left in seen} == set(range(5))


def test_a_shift_is_that_of_its_seed_and_one_of_a_whole_sequence():
    spec = tf.TensorSpec([6, 5, 2], tf.uint8)
    images = images_of(spec, 8)
    one, same, other = (random_shift(images, 2, seed=(1, k)) for k in (2, 2, 3))
    np.testing.assert_array_equal(one, same)
    assert (one != other).numpy().any()
    sequences = random_shift(tf.stack([images, images], axis=1), 2, seed=(1, 2))
    np.testing.assert_array_equal(sequences[:, 0], one)
    np.testing.assert_array_equal(sequences[:, 1], one)
    np.testing.assert_array_equal(random_shift(images, 0, seed=(1, 2)), images)
