import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import array_spec, tensor_spec

from tfagents_system.data import images


def spec_of(shape, dtype=np.uint8, name=None):
    return array_spec.ArraySpec(shape, dtype, name)


@pytest.mark.parametrize(
    ("shape", "dtype", "layout", "size"),
    [
        ([84, 84, 3], np.uint8, "HWC", (84, 84, 3)),
        ([84, 60, 12], np.uint8, "HWC", (84, 60, 12)),  # four stacked frames
        ([7, 7, 3], np.uint8, "HWC", (7, 7, 3)),
        ([7, 7, 20], np.uint8, "HWC", (7, 7, 20)),  # a cell is one of 20 kinds
        ([3, 84, 60], np.uint8, "CHW", (84, 60, 3)),
        ([12, 84, 60], np.uint8, "CHW", (84, 60, 12)),
        ([1, 28, 28], np.uint8, "CHW", (28, 28, 1)),
        ([3, 7, 7], np.uint8, "CHW", (7, 7, 3)),
        ([3, 3, 3], np.uint8, "HWC", (3, 3, 3)),  # both ends look like channels
        ([4, 84, 3], np.uint8, "HWC", (4, 84, 3)),
        ([84, 60], np.uint8, "HW", (84, 60, 1)),
        ([84, 84, 3], np.float32, "HWC", (84, 84, 3)),
        ([3, 84, 84], np.float64, "CHW", (84, 84, 3)),
        ([5, 5, 3], np.float32, "HWC", (5, 5, 3)),
        ([3, 5, 6], np.float32, "CHW", (5, 6, 3)),
        ([8, 8, 6], np.float32, "HWC", (8, 8, 6)),
    ],
)
def test_shape_and_dtype_tell_the_layout(shape, dtype, layout, size):
    spec = spec_of(shape, dtype)
    assert images.layout_of(spec) == images.layout_of(tensor_spec.from_spec(spec)) == layout
    assert images.size_of(spec) == size
    assert images.is_image(spec) and not images.looks_like_image(spec)
    picture = np.arange(2 * np.prod(shape)).reshape(2, *shape)
    channels_last = images.channels_last(picture, layout)
    assert channels_last.shape == (2, *size)
    np.testing.assert_array_equal(images.channels_last(tf.constant(picture), layout), channels_last)
    if layout == "CHW":
        np.testing.assert_array_equal(channels_last[..., -1], picture[:, -1])


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ([3], np.float32), ([], np.int64), ([84, 84], np.float32), ([8, 8], np.uint8),
        ([4, 5, 3], np.float32), ([30, 30, 30], np.float32), ([84, 84, 3], np.int32),
        ([84, 84, 3], bool), ([5, 84, 84, 3], np.uint8),
    ],
)  # fmt: skip
def test_anything_else_is_a_vector(shape, dtype):
    assert images.layout_of(spec_of(shape, dtype)) == "vector"
    assert not images.is_image(spec_of(shape, dtype))


@pytest.mark.parametrize("name", [None, "camera", "observation/left.eye"])
@pytest.mark.parametrize("layout", ["HWC", "CHW", "vector"])
def test_the_name_of_a_spec_tells_more_than_its_shape(name, layout):
    named = spec_of([3, 8, 8], np.float32, images.name_with_layout(name, layout))
    assert images.layout_of(named) == images.layout_of(tensor_spec.from_spec(named)) == layout
    again = images.name_with_layout(named.name, "HWC")
    assert again == (f"{name}.HWC" if name else "HWC")


def test_what_is_said_to_be_a_vector_does_not_look_like_an_image():
    assert images.looks_like_image(spec_of([84, 84], np.float32, "camera"))
    assert not images.looks_like_image(spec_of([84, 84], np.float32, "camera.vector"))
    assert images.size_of(spec_of([84, 84], np.float32, "HW")) == (84, 84, 1)
