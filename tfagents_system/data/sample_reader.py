"""Turns sampled items into transitions."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tree

from tfagents_system.core.nests import Nest
from tfagents_system.data.codec import Codec
from tfagents_system.data.frames import single_frame_spec, stack_frames
from tfagents_system.data.item_description import item_columns
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.transition import FIRST, LAST, Step, Transition, step_spec

# Limit of any floating point number of a step. Squares of larger numbers, and their sums, come near
# the limit of float32: one reward of 1e30 would make the losses infinite.
LARGEST_VALUE = 1e15


def step_codec(
    observation_spec: Any,
    action_spec: Any,
    layout: ItemLayout,
    state_spec: Any = (),
    stores_return: bool = False,
) -> Codec:
    """Returns the codec of an environment's Steps; `observation_spec` has stacked frames.

    It rejects numbers beyond LARGEST_VALUE. `state_spec` is the spec of the policy's state, if
    steps store it; `stores_return` says whether they store the discounted return so far.
    """
    frame_spec = single_frame_spec(observation_spec, layout.frame_stack)
    spec = step_spec(frame_spec, action_spec, extras_spec=state_spec, stores_return=stores_return)
    return Codec(spec, LARGEST_VALUE)


class SampleReader:
    """Finds the samples in items of one layout, and unpacks them."""

    def __init__(self, codec: Codec, layout: ItemLayout, gamma: float | None = None):
        """Takes the codec of a Step; `gamma` discounts returns over several steps."""
        assert gamma is not None or layout.n_step == 1, layout
        self._codec = codec
        self._layout = layout
        self._gamma = gamma

    @property
    def codec(self) -> Codec:
        """The codec of a row."""
        return self._codec

    @property
    def layout(self) -> ItemLayout:
        """The layout of the items."""
        return self._layout

    @property
    def columns(self) -> list[tf.TensorSpec]:
        """The specs [rows, size] of an item's columns."""
        return item_columns(self._layout, self._codec.columns)

    def are_samples(self, items: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns at which rows of items [N, rows, size] a sample begins: bool [N, samples].

        In a block, that is every window whose first transition lies within one episode. The frames
        before it then do, too, because the stream repeats the first frame of an episode.
        """
        layout = self._layout
        if not layout.is_block:
            # Short segments, too: each step counts in one, and losses divide by those that count.
            return tf.ones([tf.shape(items[0])[0], 1], tf.bool)
        step_type = self._codec.unpack(items).step_type[:, layout.frame_stack :]
        return tf.not_equal(step_type[:, : layout.samples], FIRST)

    def unpack(self, windows: Sequence[Any]) -> Transition:
        """Returns the transitions of samples [B, window, size]; TensorFlow or NumPy.

        They are [B, ...], or [B, length, ...] for sequences. With n-step returns they span n env
        steps, or as many as their episode has left: see `_over_steps`.
        """
        steps = self._codec.unpack(windows)
        frame_stack = self._layout.frame_stack
        observation = stack_frames(steps.observation, self._codec.spec.observation, frame_stack)
        if self._layout.n_step > 1:
            return self._over_steps(steps, observation)
        length = self._layout.length if self._layout.is_sequence else 1

        def starts(nest: Nest) -> Nest:
            return self._trimmed(nest, slice(-length - 1, -1))

        def ends(nest: Nest) -> Nest:
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
            ends(steps.return_so_far),
        )

    def _over_steps(self, steps: Step, observation: Any) -> Transition:
        """Returns transitions s_t -> s_{t+m}, m = n unless the episode ends before.

        The reward is r_{t+1} + gamma d_{t+1} r_{t+2} + ... up to r_{t+m}, and the discount
        gamma^(m-1) d_{t+1} ... d_{t+m}, so that y = reward + gamma discount V(s_{t+m}).
        Source: Sutton and Barto 2018, Reinforcement Learning, equation 7.1.
        """

        def at(place: int, nest: Any) -> Any:
            return tree.map_structure(lambda leaf: leaf[:, place], nest)

        first = -self._layout.n_step  # index of s_{t+1}
        reached: tuple[Any, Any, Any] = at(first, (steps.reward, steps.discount, observation))
        goes_on = steps.step_type[:, first] != FIRST
        for place in range(first + 1, 0):
            reward, discount, _ = reached
            weight = self._gamma * discount
            further = (
                tree.map_structure(
                    lambda total, new, weight=weight: total + weight * new,
                    reward,
                    at(place, steps.reward),
                ),
                weight * steps.discount[:, place],
                at(place, observation),
            )
            goes_on = goes_on & (steps.step_type[:, place] != FIRST)
            reached = tree.map_structure(functools.partial(_where, goes_on), further, reached)
        step_type, observed, extras = at(first - 1, (steps.step_type, observation, steps.extras))
        action, return_so_far = at(first, (steps.action, steps.return_so_far))
        return Transition(step_type, observed, action, *reached, extras, return_so_far)

    def _trimmed(self, nest: Any, places: slice) -> Any:
        """Returns leaves [B, T, ...] at `places`, without time axis except for sequences."""
        if self._layout.is_sequence:
            return tree.map_structure(lambda leaf: leaf[:, places], nest)
        return tree.map_structure(lambda leaf: leaf[:, places.start], nest)


def _where(condition: Any, new: Any, old: Any) -> Any:
    """Returns `new` [B, ...] where `condition` [B], else `old`; TensorFlow or NumPy."""
    for _ in range(len(new.shape) - 1):
        condition = condition[:, np.newaxis]
    return (tf.where if tf.is_tensor(new) else np.where)(condition, new, old)
