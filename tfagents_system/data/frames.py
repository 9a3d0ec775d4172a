"""Finds stacked frames: which observations are images, and where each frame begins."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tree

LEAST_SIDE = 20  # pixels; smaller arrays do not look like images
MOST_CHANNELS = 16  # including stacked frames


def is_image(spec: Any) -> bool:
    """Returns whether observations of `spec` are images: uint8 [H, W, C]."""
    return tf.as_dtype(spec.dtype) == tf.uint8 and len(spec.shape) == 3


def looks_like_image(spec: Any) -> bool:
    """Returns whether observations of `spec`, which count as vectors, look like images."""
    dtype, shape = tf.as_dtype(spec.dtype), tuple(spec.shape)
    if is_image(spec) or not (dtype.is_floating or dtype.is_integer):
        return False
    if len(shape) == 3:
        channels, *sides = sorted(shape)
        return channels <= MOST_CHANNELS and channels in (shape[0], shape[2]) and _are_large(sides)
    return len(shape) == 2 and _are_large(shape)


def has_channels_first(shape: Sequence[int]) -> bool:
    """Returns whether an image of this shape is [C, H, W]."""
    return len(shape) == 3 and shape[0] <= MOST_CHANNELS < LEAST_SIDE <= min(shape[1:])


def _are_large(sides: Sequence[int]) -> bool:
    return min(sides) >= LEAST_SIDE


def single_frame_spec(observation_spec: Any, frame_stack: int) -> Any:
    """Returns the specs of one step's observation from those of the stacked one."""

    def unstacked(spec: Any) -> tf.TensorSpec:
        if not is_image(spec):
            return tf.TensorSpec(spec.shape, spec.dtype)
        height, width, channels = spec.shape
        return tf.TensorSpec([height, width, channels // frame_stack], spec.dtype)

    return tree.map_structure(unstacked, observation_spec)


def newest_frames(observation: Any, frame_spec: Any) -> Any:
    """Returns the observation of one step: the last frame of each stacked image."""
    return tree.map_structure(
        lambda array, spec: array[..., -spec.shape[-1] :] if is_image(spec) else array,
        observation,
        frame_spec,
        check_types=False,
    )


def stack_frames(observations: Any, frame_spec: Any, frame_stack: int) -> Any:
    """Stacks images of leaves [B, T, ...] to [B, T - frame_stack + 1, ...].

    TensorFlow or NumPy. Channels are in order of time, the newest last.
    """

    def stacked(leaf: Any, spec: Any) -> Any:
        count = leaf.shape[1] - frame_stack + 1
        if frame_stack == 1 or not is_image(spec):
            return leaf[:, frame_stack - 1 :]
        frames = [leaf[:, first : first + count] for first in range(frame_stack)]
        return (tf.concat if tf.is_tensor(leaf) else np.concatenate)(frames, axis=-1)

    return tree.map_structure(stacked, observations, frame_spec)
