"""Stacked frames of images: finds where each frame begins, and stacks frames again."""

from typing import Any

import numpy as np
import tensorflow as tf
import tree

from tfagents_system.data.images import channel_axis, is_image, layout_of, name_with_layout


def single_frame_spec(observation_spec: Any, frame_stack: int) -> Any:
    """Returns the specs of one step's observation from those of the stacked one."""

    def unstacked(spec: Any) -> tf.TensorSpec:
        shape, name = list(spec.shape), spec.name
        if frame_stack > 1 and is_image(spec):
            layout = layout_of(spec)
            shape[channel_axis(layout)] //= frame_stack
            name = name_with_layout(name, layout)
        return tf.TensorSpec(shape, spec.dtype, name)

    return tree.map_structure(unstacked, observation_spec)


def newest_frames(observation: Any, frame_spec: Any) -> Any:
    """Returns the observation of one step: the last frame of each stacked image."""

    def newest(array: Any, spec: Any) -> Any:
        if not is_image(spec):
            return array
        axis = channel_axis(layout_of(spec))
        channels = slice(-spec.shape[axis], None)
        return array[..., channels, :, :] if axis == -3 else array[..., channels]

    return tree.map_structure(newest, observation, frame_spec, check_types=False)


def stack_frames(observations: Any, frame_spec: Any, frame_stack: int) -> Any:
    """Stacks images of leaves [B, T, ...] to [B, T - frame_stack + 1, ...].

    TensorFlow or NumPy. Channels are in order of time, the newest last.
    """

    def stacked(leaf: Any, spec: Any) -> Any:
        count = leaf.shape[1] - frame_stack + 1
        if frame_stack == 1 or not is_image(spec):
            return leaf[:, frame_stack - 1 :]
        frames = [leaf[:, first : first + count] for first in range(frame_stack)]
        axis = channel_axis(layout_of(spec))
        return (tf.concat if tf.is_tensor(leaf) else np.concatenate)(frames, axis=axis)

    return tree.map_structure(stacked, observations, frame_spec)
