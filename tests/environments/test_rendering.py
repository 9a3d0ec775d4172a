import numpy as np
import pytest
import tensorflow as tf

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import rendering

LEVELS = np.array([[0, 51, 102, 153, 7], [204, 255, 0, 255, 9]], np.uint8)
COLORS = np.stack([LEVELS, LEVELS[::-1], np.full_like(LEVELS, 51)], axis=2)
GRAY = np.stack([LEVELS] * 3, axis=2)
WITH_ALPHA = np.concatenate([COLORS, np.full((2, 5, 1), 7, np.uint8)], axis=2)


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (COLORS, COLORS),
        (COLORS[:, ::-1], COLORS[:, ::-1]),
        (WITH_ALPHA, COLORS),
        (LEVELS, GRAY),
        (LEVELS[:, :, np.newaxis], GRAY),
        (np.moveaxis(COLORS, 2, 0), COLORS),
        (np.moveaxis(WITH_ALPHA, 2, 0), COLORS),
        (LEVELS[np.newaxis], GRAY),
        (COLORS[np.newaxis], COLORS),
        (COLORS.astype(np.int64), COLORS),
        (COLORS.astype(np.float32), COLORS),
        (COLORS.astype(np.float64) + 0.4, COLORS),
        (COLORS / 255, COLORS),
        ((COLORS / 255).astype(np.float16), COLORS),
        (WITH_ALPHA / 255, COLORS),
        (COLORS / 255 + 1e-5, COLORS),
        (LEVELS > 100, np.where(GRAY > 100, 255, 0)),
        (np.zeros((2, 5, 3)), np.zeros((2, 5, 3))),
        (COLORS.tolist(), COLORS),
        (tf.constant(COLORS), COLORS),
    ],
)
def test_a_picture_becomes_a_frame_of_the_same_colors(picture, expected):
    frame = rendering.as_frame(picture, "Env")
    assert (frame.dtype, frame.flags.c_contiguous) == (np.uint8, True)
    np.testing.assert_array_equal(frame, expected)


@pytest.mark.parametrize(
    ("picture", "found"),
    [
        (None, r"NoneType of shape \(\)"),
        ([COLORS, COLORS], r"list of shape \(2, 2, 5, 3\)"),
        ([[1], [1, 2]], "list of shape"),
        (np.zeros((0, 4, 3), np.uint8), r"ndarray of shape \(0, 4, 3\)"),
        (np.zeros((6, 4, 2), np.uint8), r"ndarray of shape \(6, 4, 2\)"),
        (np.zeros(12, np.uint8), r"ndarray of shape \(12,\)"),
        (COLORS / 127.5 - 1, "float64 from -1 to 1"),
        (np.full((2, 4, 3), np.nan), "float64 from nan to nan"),
        (np.full((2, 4, 3), 65535, np.uint16), "uint16 from 65535 to 65535"),
        (COLORS.astype(np.int64) - 300, "int64 from -300"),
        (np.full((2, 4, 3), "a"), "numbers of dtype <U1"),
    ],
)
def test_what_is_no_picture_is_refused_with_what_it_is(picture, found):
    with pytest.raises(ConfigError, match=f"^Env.render returned {found}.*; a film needs an array"):
        rendering.as_frame(picture, "Env")


def test_a_frame_is_not_the_buffer_that_the_environment_draws_into():
    buffer = COLORS.copy()
    frame = rendering.as_frame(buffer, "Env")
    buffer[:] = 0
    np.testing.assert_array_equal(frame, COLORS)
