"""From the packed rows of items to the transitions that are learned from."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tree

from tfagents_system.data.codec import Codec
from tfagents_system.data.frames import single_frame_spec, stack_frames
from tfagents_system.data.item_description import item_columns
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.transition import FIRST, LAST, Transition, step_spec


def step_codec(observation_spec: Any, action_spec: Any, layout: ItemLayout) -> Codec:
    """Returns the codec of a Step of an environment; its observations have stacked frames."""
    return Codec(step_spec(single_frame_spec(observation_spec, layout.frame_stack), action_spec))


class SampleReader:
    """Finds the samples in items of one layout, and unpacks them."""

    def __init__(self, codec: Codec, layout: ItemLayout):
        """`codec` is that of a Step."""
        self._codec = codec
        self._layout = layout

    @property
    def codec(self) -> Codec:
        """That of a row."""
        return self._codec

    @property
    def layout(self) -> ItemLayout:
        """That of the items."""
        return self._layout

    @property
    def columns(self) -> list[tf.TensorSpec]:
        """Specs [rows, size] of the columns of an item."""
        return item_columns(self._layout, self._codec.columns)

    def are_samples(self, items: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns for items [N, rows, size] at which rows a sample begins: bool [N, samples].

        In a block that is every window whose last two rows are of one episode. The frames before
        them are then, too, because the stream repeats the first frame of an episode.
        """
        if not self._layout.is_block:
            return tf.ones([tf.shape(items[0])[0], 1], tf.bool)
        step_type = self._codec.unpack(items).step_type[:, self._layout.window - 1 :]
        return tf.not_equal(step_type, FIRST)

    def unpack(self, windows: Sequence[Any]) -> Transition:
        """Returns the transitions of samples [B, window, size]; TensorFlow or NumPy.

        They are [B, ...], or [B, length, ...] of sequences.
        """
        steps = self._codec.unpack(windows)
        frame_stack = self._layout.frame_stack
        observation = stack_frames(steps.observation, self._codec.spec.observation, frame_stack)
        length = self._layout.length if self._layout.is_sequence else 1

        def starts(nest):
            return self._trimmed(nest, slice(-length - 1, -1))

        def ends(nest):
            return self._trimmed(nest, slice(-length, None))

        step_type, next_type = starts(steps.step_type), ends(steps.step_type)
        where = tf.where if tf.is_tensor(step_type) else np.where
        if self._layout.is_sequence:  # others have no padding
            step_type = where(next_type == LAST, next_type, step_type)
        return Transition(
            step_type,
            starts(observation),
            ends(steps.action),
            ends(steps.reward),
            ends(steps.discount),
            ends(observation),
            starts(steps.extras),
        )

    def _trimmed(self, nest: Any, places: slice) -> Any:
        """Returns leaves [B, T, ...] at `places`, without time axis unless they are sequences."""
        if self._layout.is_sequence:
            return tree.map_structure(lambda leaf: leaf[:, places], nest)
        return tree.map_structure(lambda leaf: leaf[:, places.start], nest)
