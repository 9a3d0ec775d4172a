"""Finds the images of an observation: which of its arrays are images, and their axes.

An array has the layout "HWC", "CHW" or "HW", or is a vector. Its shape and dtype tell, see
`layout_of`; where they do not, the name of its spec ends with the layout, such as "camera.CHW",
because TF-Agents keeps only the shape, dtype, bounds and name of a spec; other words may follow.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_system.core.observation_kinds import is_entities
from tfagents_system.core.settings.image_layouts import LAYOUTS

CHANNELS_LAST, CHANNELS_FIRST, GRAY, VECTOR = LAYOUTS
USUAL_CHANNELS = (1, 3, 4)  # gray, color, color with transparency or depth
MOST_CHANNELS = 16  # including stacked frames
LEAST_SIDE = 5  # pixels of an image of floats
LEAST_CLEAR_SIDE = 20  # pixels; two axes as long are height and width, in an array of any dtype


def layout_of(spec: Any) -> str:
    """Returns the layout of the arrays of `spec`, an ArraySpec or TensorSpec.

    If its name does not tell: uint8 with three axes is an image, as are floats with three axes, at
    most 16 channels and sides of at least 5; see `layout_of_shape`. So is uint8 [H, W] with sides
    of at least 20. Anything else is a vector, and so is a list of entities.
    """
    if is_entities(spec):
        return VECTOR
    return _layout_in_name(spec) or _layout_by_shape(tuple(spec.shape), tf.as_dtype(spec.dtype))


def is_image(spec: Any) -> bool:
    """Returns whether the arrays of `spec` are images."""
    return layout_of(spec) != VECTOR


def layout_of_shape(shape: Sequence[int]) -> str:
    """Returns the layout of an image of two or three axes.

    Channels are last, unless the first axis looks like channels and the last does not: 1, 3 or 4,
    and less than the other two; or at most 16, before two of at least 20.
    """
    if len(shape) == 2:
        return GRAY
    first, *others = shape
    is_usual = first in USUAL_CHANNELS and first < min(others) and shape[2] not in USUAL_CHANNELS
    is_clear = first <= MOST_CHANNELS and min(others) >= LEAST_CLEAR_SIDE
    return CHANNELS_FIRST if is_usual or is_clear else CHANNELS_LAST


def name_with_layout(name: str | None, layout: str) -> str:
    """Returns the name of a spec from which `layout_of` finds `layout`; `name` is its own."""
    before, _, mark = (name or "").rpartition(".")
    plain = before if mark in LAYOUTS else name
    return f"{plain}.{layout}" if plain else layout


def size_of(spec: Any) -> tuple[int, int, int]:
    """Returns height, width and channels of the images of `spec`."""
    height, width, channels = _channels_last_shape(spec.shape, layout_of(spec))
    return height, width, channels


def channel_axis(layout: str) -> int:
    """Returns the axis of the channels of an image, counted from the last."""
    return -3 if layout == CHANNELS_FIRST else -1


def side_axes(layout: str) -> tuple[int, int]:
    """Returns the axes of height and width of an image, counted from the last."""
    return (-3, -2) if layout == CHANNELS_LAST else (-2, -1)


def channels_last(images: Any, layout: str) -> Any:
    """Returns images [N, ...] of this layout, TensorFlow or NumPy, as [N, H, W, C]."""
    if layout == GRAY:
        return images[..., np.newaxis]
    if layout == CHANNELS_LAST:
        return images
    return (tf.transpose if tf.is_tensor(images) else np.transpose)(images, [0, 2, 3, 1])


def looks_like_image(spec: Any) -> bool:
    """Returns whether arrays of `spec`, which are vectors by dtype or shape, look like images."""
    return len(spec.shape) in (2, 3) and not is_image(spec) and _shows(spec, tuple(spec.shape))


def looks_like_stack(spec: Any) -> bool:
    """Returns whether arrays of `spec`, which are vectors, look like frames [k, ...] of images."""
    is_short = len(spec.shape) == 4 and spec.shape[0] <= MOST_CHANNELS
    return is_short and _shows(spec, tuple(spec.shape[1:]))


def _shows(spec: Any, shape: Sequence[int]) -> bool:
    """Returns whether `shape`, of arrays of `spec` or a part of these, is that of an image."""
    dtype = tf.as_dtype(spec.dtype)
    if not (dtype.is_floating or dtype.is_integer) or is_entities(spec) or _layout_in_name(spec):
        return False
    *sides, channels = _channels_last_shape(shape, layout_of_shape(shape))
    return channels <= MOST_CHANNELS and min(sides) >= LEAST_CLEAR_SIDE


def _layout_in_name(spec: Any) -> str | None:
    marks = [word for word in (spec.name or "").split(".") if word in LAYOUTS]
    return marks[-1] if marks else None


def _layout_by_shape(shape: tuple[int, ...], dtype: tf.DType) -> str:
    if len(shape) == 2 and dtype == tf.uint8 and min(shape) >= LEAST_CLEAR_SIDE:
        return GRAY
    if len(shape) != 3:
        return VECTOR
    layout = layout_of_shape(shape)
    *sides, channels = _channels_last_shape(shape, layout)
    is_floats = dtype.is_floating and channels <= MOST_CHANNELS and min(sides) >= LEAST_SIDE
    return layout if dtype == tf.uint8 or is_floats else VECTOR


def _channels_last_shape(shape: Sequence[int], layout: str) -> tuple[int, ...]:
    if layout == GRAY:
        return (*shape, 1)
    first, *others = shape
    return (*others, first) if layout == CHANNELS_FIRST else tuple(shape)
