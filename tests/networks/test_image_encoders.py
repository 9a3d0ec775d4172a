import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.networks.image_encoders import VisualEncoder, encoder_kind, random_shift
from tfagents_system.networks.observation_encoders import VisualSummarizer
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
        ("match3", 80 * 80 * 144),  # 84 - 2 - 2
        ("fully_connected", 128),
        (None, 7 * 7 * 64),  # nature_cnn
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


def test_a_category_beside_an_image_is_an_input_for_each_of_its_integers():
    camera = tf.TensorSpec([15, 15, 1], tf.uint8)
    heading = tensor_spec.BoundedTensorSpec([], tf.int64, 0, 3, "category_of_heading")
    network = VisualSummarizer({"a": camera, "b": heading}, "impala")
    assert network.features_spec.shape == [32 + 4]  # 15 - 2 -> 7; 7 - 2 -> 3; 3 - 2 -> 1
    features, _ = network({"a": images_of(camera, 1), "b": tf.constant([2], tf.int64)})
    np.testing.assert_array_equal(features[0, -4:], [0, 0, 1, 0])


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
    ("kind", "least"),
    [("offpcc", 15), ("simple", 20), ("nature_cnn", 36), ("impala", 15), ("match3", 5)],
)
def test_an_image_that_is_too_small_is_refused(kind, least):
    VisualEncoder(tf.TensorSpec([least, least, 1], tf.uint8), kind)
    small = tf.TensorSpec([least + 5, least - 1, 1], tf.uint8)
    message = (
        f"image_encoder is {kind}, .* at least {least} x {least} .* have {least + 5} x {least - 1}"
        ". Expected .*fully_connected, or None"
    )
    with pytest.raises(ConfigError, match=message):
        VisualEncoder(small, kind)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ([36, 40, 3], "nature_cnn"), ([35, 40, 3], "simple"), ([40, 20, 1], "simple"),
        ([19, 40, 3], "impala"), ([3, 15, 15], "impala"), ([14, 14, 3], "match3"),
        ([5, 5, 3], "match3"), ([4, 84, 3], "fully_connected"), ([3, 3, 3], "fully_connected"),
    ],
)  # fmt: skip
def test_without_a_choice_the_size_chooses(shape, kind):
    spec = tf.TensorSpec(shape, tf.uint8)
    assert encoder_kind(spec, None) == kind
    assert encoder_kind(spec, "fully_connected") == "fully_connected"


def test_match3_by_hand_where_all_weights_are_equal():
    spec = tf.TensorSpec([5, 5, 3], tf.float32)
    network = VisualSummarizer(spec)
    network.create_variables()
    for variable in network.variables:
        variable.assign(tf.fill(variable.shape, 0.1 if len(variable.shape) == 4 else 0.0))
    features, _ = network(tf.constant([1.0, -1.0])[:, None, None, None] * tf.ones([2, 5, 5, 3]))
    first = 0.1 * 3 * 3 * 3
    second = first * 0.1 * 3 * 3 * 35
    np.testing.assert_allclose(features[0], np.full(144, second), rtol=1e-5)
    # Below 0 each of the two layers lets a hundredth through.
    np.testing.assert_allclose(features[1], np.full(144, -second * 0.01 * 0.01), rtol=1e-5)


@pytest.mark.parametrize("dtype", [tf.uint8, tf.float32])
@pytest.mark.parametrize("kind", ["simple", "offpcc", "fully_connected"])
def test_axes_and_dtype_of_an_image_change_nothing(kind, dtype):
    pictures = images_of(tf.TensorSpec([20, 24, 3], tf.uint8), 2).numpy()
    as_made = pictures if dtype == tf.uint8 else np.float32(pictures / 255)
    encoders, results = [], []
    for shape, images in (([20, 24, 3], as_made), ([3, 20, 24], np.moveaxis(as_made, -1, 1))):
        encoders.append(VisualEncoder(tf.TensorSpec(shape, dtype), kind))
        for one, other in zip(encoders[0].variables, encoders[-1].variables, strict=True):
            other.assign(one)
        results.append(encoders[-1](tf.constant(images)))
        in_sequences = encoders[-1](tf.constant(images[:, np.newaxis]))
        np.testing.assert_allclose(in_sequences[:, 0], results[-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(results[0], results[1])
    expected = encoders[0].convolutions[0](np.float32(pictures / 255))
    np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-6)


def test_gray_images_have_one_channel():
    encoder = VisualEncoder(tf.TensorSpec([20, 24], tf.uint8), "simple")
    pictures = images_of(tf.TensorSpec([20, 24], tf.uint8), 2)
    expected = encoder.convolutions[0](tf.cast(pictures, tf.float32)[..., tf.newaxis] / 255)
    np.testing.assert_allclose(encoder(pictures), expected, rtol=1e-5, atol=1e-6)


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


@pytest.mark.parametrize(("axes", "order"), [((-2, -1), [0, 3, 1, 2]), ((-3, -2), [0, 1, 2, 3])])
def test_a_shift_moves_height_and_width_wherever_they_are(axes, order):
    images = images_of(tf.TensorSpec([6, 5, 2], tf.uint8), 8)
    shifted = random_shift(tf.transpose(images, order), 2, (1, 2), axes)
    np.testing.assert_array_equal(
        shifted, tf.transpose(random_shift(images, 2, seed=(1, 2)), order)
    )


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
